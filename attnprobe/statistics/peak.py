"""Where a head looks most: the argmax of a row, which several statistics ask about."""

import torch
from torch import Tensor

from attnprobe.attention.block import AttentionBlock


def peak(block: AttentionBlock) -> Tensor:
    """Position of the most attended key of every row, argmax_j p_j; the first one of a tie."""
    position = block.summary.argmax.to(block.probabilities.dtype)
    return position.where(~block.summary.maximum.isnan(), torch.nan)


def looked_up(peaks: Tensor, feature: Tensor) -> Tensor:
    """Read a (batch, position) feature at the peaks (batch, head, query)."""
    batch, heads, queries = peaks.shape
    position = peaks.nan_to_num(0).long().view(batch, heads * queries)
    return feature.gather(1, position).view(batch, heads, queries)
