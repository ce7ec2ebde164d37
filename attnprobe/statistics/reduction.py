"""The usual way from the queries of a sequence to the sequence: their mean."""

import torch
from torch import Tensor

from attnprobe.attention.layout import Layout


def mean_over_queries(values: Tensor, layout: Layout) -> Tensor:
    """Average (batch, head, query) over the queries that count and for which it is defined.

    Returns:
        (batch, head); NaN for a sequence without any such query.
    """
    queries = layout.queries
    if queries.all_kept:
        means = values.mean(-1)
        if not means.isnan().any():
            return means
    return values.where(queries.kept[:, None], torch.nan).nanmean(-1)


def mean_where(hit: Tensor, values: Tensor, layout: Layout) -> Tensor:
    """Average a yes-or-no (batch, head, query) over the queries where ``values`` is defined."""
    return mean_over_queries(hit.to(values.dtype).where(~values.isnan(), torch.nan), layout)
