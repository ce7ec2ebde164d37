"""Attention to tokens of a kind: boundary tokens, punctuation, rare tokens, or any that are marked."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from math import nan
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from attnprobe.statistics.statistic import (
    Family,
    Function,
    Reduce,
    Statistic,
    mean_over_queries,
    peak,
    read_at,
    share_of_hits,
    sinks,
)

if TYPE_CHECKING:
    from attnprobe.statistics.statistic import AttentionBlock, Layout, Tensor

#: Which keys are of a kind, (batch, key), or of a kind for each query, (batch, query, key).
Mark = Callable[["Layout"], "Tensor"]


def count_seen(layout: Layout, mark: Mark) -> Tensor:
    """Count the keys of a kind that each query sees, (batch, query) or (batch, 1); marks may be fractions."""
    return layout.once(_counting(mark))


@cache
def _counting(mark: Mark) -> Callable[[Layout], Tensor]:
    def count(layout: Layout) -> Tensor:
        marks = layout.once(mark)
        if marks.ndim == 2:
            return layout.seen(marks * layout.keys.kept)
        return layout.hide(marks & layout.keys.kept[:, None]).sum(-1)

    return count


def mass_on(block: AttentionBlock, mark: Mark) -> Tensor:
    """Probability m on the keys of a kind, m_i = sum_j p_ij over the keys j of that kind.

    Limits: 0 to 1; for uniform attention, the share of the visible keys that are of that kind.
    """
    rows, marks = block.probabilities, block.layout.once(mark)
    if marks.ndim == 2:
        return (rows @ marks[:, None, :, None].to(rows.dtype)).squeeze(-1)
    return (rows * marks[:, None, block.span]).sum(-1)


def mean_where_seen(values: Tensor, layout: Layout, mark: Mark) -> Tensor:
    """Average over the queries that see a key of that kind; undefined, not 0, if none does."""
    return mean_over_queries(values, layout, count_seen(layout, mark) > 0)


def lift(values: Tensor, layout: Layout, mark: Mark, mean: Reduce = mean_over_queries) -> Tensor:
    """Divide by the mean share of such keys among the visible ones: uniform attention gives 1."""
    share = (count_seen(layout, mark) / layout.visible)[:, None].to(values.dtype)
    share = share.expand(-1, -1, values.shape[2])
    return mean(values.where(share > 0, nan), layout) / mean(share.where(share > 0, nan), layout)


FAMILY = Family("special", "attention to special tokens", 2)


def mass(block: AttentionBlock, feature: str) -> Tensor:
    """Probability on all keys of a kind, the sum of p_j over the keys j of that kind.

    Limits: 0 to 1; for uniform attention, the share of the keys that are of that kind.

    Source: Clark et al. (2019), section 3.1, and Kovaleva et al. (2019).
    """
    return block.mass(feature)


_KINDS = {
    "first": "the leading special token",
    "separator": "separators",
    "punctuation": "punctuation",
    "other": "all other tokens",
}


def define_by_kind(prefix: str, function: Function, title: str, **options: Any) -> tuple[Statistic, ...]:
    """Define a statistic for each kind of tokens; of special ones, over queries that see such a token."""
    statistics = []
    for order, (kind, words) in enumerate(_KINDS.items(), 1):
        about = {"title": f"{title} {words}", "order": order, **options}
        if kind in {"first", "separator"}:
            about["reduce"] = partial(mean_where_seen, mark=attrgetter(f"keys.{kind}"))
            about["headline"] = not prefix
        statistics.append(Statistic(f"{prefix}{kind}", function=partial(function, feature=kind), **about))
    return tuple(statistics)


BY_KIND = define_by_kind("", mass, "attention to", unit="share", family=FAMILY)


def sink_share(peaks: Tensor, layout: Layout) -> Tensor:
    """Share of queries whose most attended key is a special token or the first token.

    Limits: 0 to 1.

    Source: Xiao et al. (2024), Efficient streaming language models with attention sinks.
    """
    return share_of_hits(read_at(peaks, sinks(layout)), peaks, layout)


SINK = Statistic(
    "sink_share", "share", peak, sink_share, family=FAMILY, title="queries that look most at a sink", order=5
)


NORM = Family("norm", "what heads carry, by length", 5, by_default=False)


def carried(block: AttentionBlock) -> Tensor:
    """Summed length of the vectors that a head takes from all keys, sum_j p_ij ||W_O,h v_j||.

    The unit is that of the residual stream, so compare heads within a layer rather than between layers.
    Values include their bias. Vectors from several keys may cancel, so the vector that the head adds is at
    most as long. If heads can attend to nothing (gpt-oss), the rows are over tokens alone.

    Limits: 0 for a head that gives nothing; no upper limit.

    Source: Kobayashi et al. (2020), Attention is not only a weight, section 3.
    """
    return block.carried


def carried_by_kind(block: AttentionBlock, feature: str) -> Tensor:
    """Summed length of the vectors that a head takes from keys of a kind, sum p_ij ||W_O,h v_j|| over them.

    Limits: 0 to ``norm_total``; the four kinds add up to it.

    Source: Kobayashi et al. (2020), section 4.
    """
    return (block.carried * block.mass(feature)).where(block.carried != 0, 0)


TOTAL = Statistic(
    "norm_total", "length", carried, family=NORM, title="what heads carry", weights="norm", headline=True
)
CARRIED_BY_KIND = define_by_kind(
    "norm_", carried_by_kind, "what heads carry from", unit="length", family=NORM, weights="norm"
)


RARE = Family("rare", "attention to rare tokens", 3)


def rare_mass(block: AttentionBlock) -> Tensor:
    """Probability on rare tokens, sum_j p_ij w_j.

    w_j is 1 for a token of a rare type, 0 for others, and between 0 and 1 for types that tie at the boundary.
    Rare types are the least frequent ones that together make up a tenth of the tokens of the corpus.

    Limits: 0 to 1; for uniform attention, the rare share of the visible keys.

    Source: after Voita et al. (2019), section 5.3.
    """
    return block.mass("rare")


#: The two rarest are looked at where the rarest is outside this many frequent types.
FREQUENT_TYPES = 500


def rarest_share(peaks: Tensor, layout: Layout) -> Tensor:
    """Share of queries whose most attended key is the least frequent visible token, or one of these.

    Limits: 0 to 1.

    Source: Voita et al. (2019), section 5.3: 66 % for the head that they call rare words.
    """
    rarest = layout.furthest(layout.keys.rank)
    hits = read_at(peaks, layout.keys.rank) == rarest[:, None]
    return share_of_hits(hits, peaks, layout, rarest >= 0)


def rarest_two_share(peaks: Tensor, layout: Layout) -> Tensor:
    """Share of queries whose most attended key is one of the two least frequent visible tokens.

    A key is a hit if at most one visible type is rarer. Only queries count whose least frequent visible token
    is outside the 500 most frequent types.

    Limits: 0 to 1.

    Source: Voita et al. (2019), section 5.3: 83 % for the same head.
    """
    rarest, second = layout.furthest(layout.keys.rank), _second_rarest(layout)[:, None]
    rank = read_at(peaks, layout.keys.rank)
    hits = (rank == rarest[:, None]) | ((rank >= second) & (second >= 0))
    return share_of_hits(hits, peaks, layout, rarest >= FREQUENT_TYPES)


def _second_rarest(layout: Layout) -> Tensor:
    """Give the rank of the second rarest type in sight, (batch, query) or (batch, 1); -1 for none."""
    import torch

    rank, order = layout.keys.rank, layout.keys.order
    before_rank, before = (
        torch.nn.functional.pad(places.cummax(1).values[:, :-1], (1, 0), value=-1) for places in (rank, order)
    )
    # What comes second here: the new token below the highest so far, or the highest that it beats.
    beaten = torch.where(order < before, rank, torch.where(order > before, before_rank, -1))
    return layout.furthest(beaten)


_define_rare, _of_rare = partial(Statistic, family=RARE, by_corpus=True, version=2), attrgetter("keys.rare")
MASS = _define_rare(
    "rare_mass", "share", rare_mass, partial(mean_where_seen, mark=_of_rare), own_count=True,
    title="attention to rare tokens",
)  # fmt: skip
LIFT = _define_rare(
    "rare_lift", "ratio", rare_mass, partial(lift, mark=_of_rare), own_count=True, order=1,
    title="attention to rare tokens over their share",
)  # fmt: skip
RAREST = _define_rare(
    "rarest_share", "share", peak, rarest_share, title="queries that look most at the rarest token", order=2
)
RAREST_TWO = _define_rare(
    "rarest_two_share", "share", peak, rarest_two_share, own_count=True, order=3,
    title="queries that look most at one of the two rarest tokens",
)  # fmt: skip
