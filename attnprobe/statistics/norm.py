"""How much a head carries to the residual stream, and statistics of attention that is weighted by that."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from attnprobe.statistics.special import define_by_kind
from attnprobe.statistics.statistic import Family, Statistic

if TYPE_CHECKING:
    from attnprobe.statistics.statistic import AttentionBlock, Tensor


FAMILY = Family("norm", "what heads carry, by length", 5, by_default=False)


def total(block: AttentionBlock) -> Tensor:
    """Length of what a head carries from all keys, sum_j p_ij ||W_O,h v_j||.

    It is in units of the residual stream, and so compares within a layer better than between layers. Values
    count with their bias. Vectors from several keys may cancel, so what the head adds to the stream is at
    most as long. Where heads can attend to nothing (gpt-oss), the rows are over tokens alone.

    Limits: 0 for a head that gives nothing; no upper limit.

    Source: Kobayashi et al. (2020), Attention is not only a weight, section 3.
    """
    return block.carried


def part(block: AttentionBlock, feature: str) -> Tensor:
    """Length of what a head carries from all keys of a kind, the sum of p_ij ||W_O,h v_j|| over them.

    Limits: 0 to the length from all keys; those of the four kinds add up to it.

    Source: Kobayashi et al. (2020), section 4.
    """
    return (block.carried * block.mass(feature)).where(block.carried != 0, 0)


TOTAL = Statistic(
    "norm_total", "length", total, family=FAMILY, title="what heads carry", weights="norm", headline=True
)
BY_KIND = define_by_kind("norm_", part, "what heads carry from", unit="length", family=FAMILY, weights="norm")


#: What a person may ask for.
Weighting = Literal["attention", "norm", "both"]
#: How the name of a weighted statistic ends, and how its unit and title do.
SUFFIX, BY_NORM = "_norm", ", by norm"


def weight_by_norm(statistic: Statistic) -> Statistic:
    """Give the same statistic about rows that are weighted by norm, as ``NAME_norm``; refuse others."""
    if statistic.weights == "norm":
        return statistic
    return replace(
        statistic,
        name=f"{statistic.name}{SUFFIX}",
        unit=f"{statistic.unit}{BY_NORM}",
        title=f"{statistic.title}{BY_NORM}",
        weights="norm",
        of=statistic,
    )


def apply_weights(statistics: Sequence[Statistic], weights: Weighting) -> list[Statistic]:
    """Give statistics about attention, about attention weighted by norm, or about both, each once."""
    by_norm = [] if weights == "attention" else [weight_by_norm(statistic) for statistic in statistics]
    return list(dict.fromkeys([*(statistics if weights != "norm" else ()), *by_norm]))
