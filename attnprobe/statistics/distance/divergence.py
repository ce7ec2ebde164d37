"""How differently two heads of a layer look at the same text."""

import math
from functools import cache

import torch
from torch import Tensor

from attnprobe.attention.block import AttentionBlock
from attnprobe.attention.layout import Layout
from attnprobe.statistics.distance import FAMILY
from attnprobe.statistics.reduction import mean_over_queries
from attnprobe.statistics.statistic import Statistic


def divergence(block: AttentionBlock) -> Tensor:
    """Jensen-Shannon divergence of every two heads, H((a + b)/2) - (H(a) + H(b))/2, in nats.

    Limits: 0 for copies, ln 2 = 0.693 for heads that never look at the same key.

    Source: Clark et al. (2019), section 6. Their script sums over queries and documents; here both are
    averaged.
    """
    return block.divergence


@cache
def _membership(pairs: int, device: torch.device) -> Tensor:
    """(pair, head): 1 / (heads - 1) where the head is one of the pair."""
    heads = heads_of(pairs)
    a, b = torch.triu_indices(heads, heads, 1)
    member = torch.zeros(pairs, heads)
    member[torch.arange(pairs), a] = member[torch.arange(pairs), b] = 1 / max(heads - 1, 1)
    return member.to(device)


def heads_of(pairs: int) -> int:
    """Give the number of heads that make this many pairs."""
    return (1 + math.isqrt(1 + 8 * pairs)) // 2


def to_others(values: Tensor, layout: Layout) -> Tensor:
    """Average, for each head, over its pairs with the other heads of the layer.

    A head without rows, as one that carries nothing where rows are weighted by norm, is no other head.
    """
    pairs = mean_over_queries(values, layout)
    if pairs.shape[1] == 0:  # a single head has no others
        return pairs.new_full((pairs.shape[0], 1), torch.nan)
    member = _membership(pairs.shape[1], pairs.device).to(pairs.dtype)
    if not pairs.isnan().any():
        return pairs @ member
    known = (~pairs.isnan()).to(pairs.dtype) @ member
    return (pairs.nan_to_num() @ member / known).where(known > 0, torch.nan)


def within_layer(values: Tensor, layout: Layout) -> Tensor:
    """Average over all pairs of the layer that have rows; (batch, 1)."""
    pairs = mean_over_queries(values, layout)
    return pairs.nanmean(1, keepdim=True) if pairs.isnan().any() else pairs.mean(1, keepdim=True)


def whole(block: AttentionBlock) -> Tensor:
    """Jensen-Shannon divergence of every two heads of the model, averaged over the queries of a sequence.

    Limits: 0 for copies, ln 2 = 0.693 for heads that never look at the same key.

    Source: as for the divergence of two heads of a layer.

    Returns:
        (batch, pair)
    """
    kept = block.layout.queries.kept[:, None]
    return divergence(block).where(kept, torch.nan).nanmean(-1)


PAIRS = Statistic("jsd", "nats", divergence, rows="pair", family=FAMILY, title="divergence of two heads")
MEAN = Statistic(
    "jsd_mean", "nats", divergence, to_others,
    family=FAMILY, title="divergence from the other heads of the layer", headline=True, order=1,
)  # fmt: skip
LAYER = Statistic(
    "jsd_layer", "nats", divergence, within_layer, rows="layer",
    family=FAMILY, title="divergence within the layer", order=2,
)  # fmt: skip
#: Heads of different layers too; of one kind of attention, whose maps have the same queries and keys.
ALL_PAIRS = Statistic(
    "jsd_all_pairs", "nats", whole, scope="model", rows="pair",
    family=FAMILY, title="divergence of two heads of the model", order=3,
)  # fmt: skip
