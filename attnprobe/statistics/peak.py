"""Where a head looks most, and where any head does: what several statistics ask about."""

import torch
from torch import Tensor

from attnprobe.attention.block import AttentionBlock
from attnprobe.attention.layout import Layout


def peak(block: AttentionBlock) -> Tensor:
    """Position of the most attended key of every row, argmax_j p_j; the first one of a tie."""
    position = block.summary.argmax.to(block.probabilities.dtype)
    return position.where(~block.summary.maximum.isnan(), torch.nan)


def looked_up(peaks: Tensor, feature: Tensor) -> Tensor:
    """Read a (batch, position) feature at the peaks (batch, head, query)."""
    batch, heads, queries = peaks.shape
    position = peaks.nan_to_num(0).long().view(batch, heads * queries)
    return feature.gather(1, position).view(batch, heads, queries)


def sinks(layout: Layout) -> Tensor:
    """Tell which keys attract attention whatever they mean, (batch, key): special ones, and the first."""
    found = layout.keys.special.clone()
    if layout.grid is None:  # the first patch of an image is one like the others
        found[:, 0] = True
    return found
