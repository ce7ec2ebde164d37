"""How spread the attention of a head is."""

from __future__ import annotations

from functools import partial
from math import nan
from typing import TYPE_CHECKING

from attnprobe.statistics.statistic import Family, Statistic, mean_over_queries

if TYPE_CHECKING:
    from attnprobe.statistics.statistic import AttentionBlock, Layout, Tensor


FAMILY = Family("entropy", "entropy of heads", 0)


def confidence(block: AttentionBlock) -> Tensor:
    """Largest probability of every row, max_j p_j.

    Limits: 1/n for a uniform row over n keys, 1 for a one-hot row.

    Source: Voita et al. (2019), section 4. They leave out the end-of-sentence key (here: ``content_only``).
    """
    return block.summary.maximum


_define = partial(Statistic, family=FAMILY)
CONFIDENCE = _define("confidence", "share", confidence, title="largest attention weight", order=3)


def entropy(block: AttentionBlock) -> Tensor:
    """Shannon entropy of every row, H = -sum_j p_j ln p_j in nats, with 0 ln 0 = 0.

    Limits: 0 for a one-hot row, ln n for a uniform row over n keys.

    Source: Clark et al. (2019), section 3.2, without their smoothing.
    """
    return block.summary.entropy


def over_largest(values: Tensor, layout: Layout) -> Tensor:
    """Divide each row's entropy by its maximum, ln n for n visible keys: H / ln n.

    The result is 0 to 1, and undefined for n = 1, as for the first query in causal attention.
    """
    keys = layout.visible
    return mean_over_queries(values / keys.to(values.dtype).log()[:, None], layout, keys > 1)


def of_first_query(values: Tensor, layout: Layout) -> Tensor:
    """Take the row of the first token, [CLS] in a BERT; undefined if that token does not count as a query."""
    asks = layout.queries.asking[:, :1]
    if layout.grid is not None:  # the first patch of an image is one like the others
        asks = asks & layout.queries.first[:, :1]
    return values[:, :, 0].where(asks, nan)


ENTROPY = _define("entropy", "nats", entropy, title="entropy of attention", headline=True)
NORMALIZED = _define(
    "entropy_normalized", "share", entropy, over_largest, title="entropy over its largest value", order=1
)
FIRST = _define("entropy_first", "nats", entropy, of_first_query, title="entropy of the first token", order=2)
