"""What roles look at that the census has no column for."""

import torch
from torch import Tensor

from attnprobe.attention.block import AttentionBlock
from attnprobe.attention.layout import Layout
from attnprobe.statistics.reduction import mean_over_queries
from attnprobe.statistics.roles import FAMILY
from attnprobe.statistics.statistic import Statistic


def special_mass(block: AttentionBlock) -> Tensor:
    """Probability on special tokens, the sum of p_j over the tokens j that frame the text.

    Limits: 0 to 1; for uniform attention, the share of the keys that are special.

    Source: Clark et al. (2019), section 3.2; Kovaleva et al. (2019), vertical patterns.
    """
    return block.mass("first") + block.mass("separator")


def where_special(values: Tensor, layout: Layout) -> Tensor:
    """Average over the queries that see a special token; without one it is undefined."""
    present = layout.seen(layout.keys.special & layout.keys.kept) > 0
    return mean_over_queries(values.where(present[:, None], torch.nan), layout)


def segment_mass(block: AttentionBlock) -> Tensor:
    """Probability on the tokens of the query's own text, of two texts that are read together.

    A separator is of the text that it ends. Undefined for a single text, from decoder to encoder, and where
    a decoder has not come to the second text.

    Limits: 0 to 1; for uniform attention, the share of the keys that are of the same text.

    Source: Kovaleva et al. (2019), block patterns.
    """
    layout, queries = block.layout, block.probabilities.shape[2]
    if layout.crossed:
        return block.probabilities.new_full(block.probabilities.shape[:3], torch.nan)
    segments = layout.keys.segments
    mine = segments[:, block.offset : block.offset + queries]
    same = (mine[:, :, None] == segments[:, None]) & layout.keys.kept[:, None]
    found = (block.probabilities * same[:, None].to(block.probabilities.dtype)).sum(-1)
    return found.where(
        _two_in_sight(layout, segments)[:, None, block.offset : block.offset + queries], torch.nan
    )


def _two_in_sight(layout: Layout, segments: Tensor) -> Tensor:
    """Tell which queries see tokens of more than one text, (batch, query)."""
    if layout.causal:
        return segments > 0
    return (segments[:, -1:] > 0).expand_as(segments)


SPECIAL = Statistic(
    "special_mass", "share", special_mass, where_special, family=FAMILY, title="attention to special tokens"
)
SEGMENT = Statistic(
    "segment_mass", "share", segment_mass, family=FAMILY, title="attention within the query's own text",
    own_count=True, order=1,
)  # fmt: skip
