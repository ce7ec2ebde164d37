"""How far away a head looks."""

import torch
from torch import Tensor

from attnprobe.attention import AttentionBlock, TokenFeatures
from attnprobe.statistics.reduction import mean_over_queries
from attnprobe.statistics.registry import Statistic


def attention_distance(block: AttentionBlock) -> Tensor:
    """Mean distance of every row, sum_j p_j |i - j|, in tokens.

    Source: Vig and Belinkov (2019), section 4.4. It grows with the length of the text; the ratio
    to uniform attention does not.
    """
    return block.summary.distance


def over_uniform(values: Tensor, tokens: TokenFeatures) -> Tensor:
    """Divide the mean by that of uniform attention in the same sequence; 1 is no preference."""
    left = tokens.kept.to(values.dtype).cumsum(1)
    count = left[:, -1:]
    # The distances of all pairs add up to one for every step that lies between the two.
    uniform = 2 * (left * (count - left)).sum(1, keepdim=True) / count.square()
    return (mean_over_queries(values, tokens) / uniform).where(uniform > 0, torch.nan)


DISTANCE = Statistic("attention_distance", "tokens", "positional", attention_distance, order=5)
RATIO = Statistic(
    "attention_distance_ratio", "ratio", "positional", attention_distance, over_uniform, order=6
)
