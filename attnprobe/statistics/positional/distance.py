"""How far away a head looks."""

import torch
from torch import Tensor

from attnprobe.attention.block import AttentionBlock
from attnprobe.attention.layout import Layout
from attnprobe.statistics.positional import FAMILY
from attnprobe.statistics.reduction import mean_over_queries
from attnprobe.statistics.statistic import Statistic


def attention_distance(block: AttentionBlock) -> Tensor:
    """Mean distance of every row, sum_j p_j |i - j|, in tokens.

    In an image it is the distance between patches, over the probability that goes to patches.

    Limits: 0 where every token looks at itself; at most n - 1. Uniform attention gives about n / 3, so it
    grows with the length of the text, and the ratio to uniform attention does not.

    Source: Vig and Belinkov (2019), section 4.4; of images, Dosovitskiy et al. (2021), section 4.5.
    """
    return block.distance


def within(values: Tensor, layout: Layout) -> Tensor:
    """Average over the queries of a sequence.

    It is undefined from decoder to encoder, where places do not compare.
    """
    mean = mean_over_queries(values, layout)
    return torch.full_like(mean, torch.nan) if not layout.comparable else mean


def over_uniform(values: Tensor, layout: Layout) -> Tensor:
    """Divide the mean over queries by that of uniform attention in the same sequence.

    A ratio of 1 is no preference, below 1 a head that looks nearer than chance.
    """
    mean = within(values, layout)
    if not layout.comparable:
        return mean
    uniform = mean_over_queries(layout.uniform_distance[:, None].to(values.dtype), layout)
    return (mean / uniform).where(uniform > 0, torch.nan)


DISTANCE = Statistic(
    "attention_distance", "tokens", attention_distance, within,
    family=FAMILY, title="mean distance of attention", unit_in_patches="patches", order=6,
)  # fmt: skip
RATIO = Statistic(
    "attention_distance_ratio", "ratio", attention_distance, over_uniform,
    family=FAMILY, title="distance over that of uniform attention", order=7,
)  # fmt: skip
