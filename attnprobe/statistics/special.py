"""How much goes to tokens of a kind: boundary tokens, punctuation, rare tokens, or any that are marked."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from math import nan
from operator import attrgetter
from typing import TYPE_CHECKING

from attnprobe.statistics.statistic import (
    Family,
    Reduce,
    Statistic,
    mean_over_queries,
    mean_where,
    peak,
    read_at,
    sinks,
)

if TYPE_CHECKING:
    from torch import Tensor

    from attnprobe.attention.block import AttentionBlock
    from attnprobe.attention.layout import Layout

#: Which keys are of a kind, (batch, key), or of a kind for each query, (batch, query, key).
Mark = Callable[["Layout"], "Tensor"]


@cache
def _count(mark: Mark) -> Callable[[Layout], Tensor]:
    def count(layout: Layout) -> Tensor:
        marks = layout.once(mark)
        if marks.ndim == 2:
            return layout.seen(marks * layout.keys.kept)
        return layout.hide(marks & layout.keys.kept[:, None]).sum(-1)

    return count


def count_seen(layout: Layout, mark: Mark) -> Tensor:
    """Count the keys of a kind that each query sees, (batch, query) or (batch, 1); some count in part."""
    return layout.once(_count(mark))


def mass_on(block: AttentionBlock, mark: Mark) -> Tensor:
    """Probability m on the keys of a kind, m_i = sum_j p_ij over the keys j of that kind.

    Limits: 0 to 1; for uniform attention, the share of the keys in sight that are of that kind.
    """
    rows, marks = block.probabilities, block.layout.once(mark)
    if marks.ndim == 2:
        return (rows @ marks[:, None, :, None].to(rows.dtype)).squeeze(-1)
    here = slice(block.offset, block.offset + rows.shape[2])
    return (rows * marks[:, None, here]).sum(-1)


def where_seen(values: Tensor, layout: Layout, mark: Mark) -> Tensor:
    """Average over the queries that see a key of that kind.

    In a sequence without such a key it is undefined, which is not 0.
    """
    return mean_over_queries(values.where(count_seen(layout, mark)[:, None] > 0, nan), layout)


def lift(values: Tensor, layout: Layout, mark: Mark, mean: Reduce = mean_over_queries) -> Tensor:
    """Divide by the mean share of such keys among those in sight, so that uniform attention gives 1.

    Both means are over the queries that see such a key.
    """
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


def _define(feature: str, title: str, order: int, *, everywhere: bool = False) -> Statistic:
    reduce = None if everywhere else partial(where_seen, mark=attrgetter(f"keys.{feature}"))
    return Statistic(
        feature, "share", partial(mass, feature=feature), reduce, family=FAMILY,
        title=f"attention to {title}", headline=not everywhere, order=order,
    )  # fmt: skip


FIRST = _define("first", "the leading special token", 0)
SEPARATOR = _define("separator", "separators", 1)
PUNCTUATION = _define("punctuation", "punctuation", 2, everywhere=True)
OTHER = _define("other", "all other tokens", 3, everywhere=True)


def sink_share(peaks: Tensor, layout: Layout) -> Tensor:
    """Share of queries whose most attended key is a special token or the first token.

    Limits: 0 to 1.

    Source: Xiao et al. (2024), Efficient streaming language models with attention sinks.
    """
    return mean_where(read_at(peaks, sinks(layout)), peaks, layout)


SINK = Statistic(
    "sink_share", "share", peak, sink_share, family=FAMILY, title="queries that look most at a sink", order=4
)


RARE = Family("rare", "attention to rare tokens", 3)


def rare_mass(block: AttentionBlock) -> Tensor:
    """Probability on rare tokens, sum_j p_ij w_j.

    w_j is 1 for a token of a rare type, 0 for others, and between them for types that tie for the last
    place among the rare. The corpus settles it (``corpus/vocabulary.py``): the rare types, from the rarest
    up, make up a tenth of its tokens.

    Limits: 0 to 1; for uniform attention, the rare share of the keys in sight.

    Source: after Voita et al. (2019), section 5.3.
    """
    return block.mass("rare")


#: Voita looks at the two rarest only where the rarest is outside this many frequent types.
FREQUENT_TYPES = 500


def rarest_share(peaks: Tensor, layout: Layout) -> Tensor:
    """Share of queries whose most attended key is the least frequent token in sight.

    Of tokens that are equally infrequent, any will do.

    Limits: 0 to 1.

    Source: Voita et al. (2019), section 5.3: 66 % for the head she calls rare words.
    """
    rarest = layout.furthest(layout.keys.rank)[:, None]
    hit = read_at(peaks, layout.keys.rank) == rarest
    return mean_where(hit, peaks.where(rarest >= 0, nan), layout)


def rarest_two_share(peaks: Tensor, layout: Layout) -> Tensor:
    """Share of queries whose most attended key is one of the two least frequent tokens in sight.

    Of tokens that are equally infrequent, any will do: a hit is a key than which at most one type in
    sight is rarer. Only queries count whose least frequent token in sight is outside the 500 most
    frequent types.

    Limits: 0 to 1.

    Source: Voita et al. (2019), section 5.3: 83 % for the same head.
    """
    rarest = layout.furthest(layout.keys.rank)[:, None]
    second = _second_rarest(layout)[:, None]
    rank = read_at(peaks, layout.keys.rank)
    hit = (rank == rarest) | ((rank >= second) & (second >= 0))
    return mean_where(hit, peaks.where(rarest >= FREQUENT_TYPES, nan), layout)


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


_RARE_KEYS = attrgetter("keys.rare")
MASS = Statistic(
    "rare_mass", "share", rare_mass, partial(where_seen, mark=_RARE_KEYS), family=RARE,
    title="attention to rare tokens", by_corpus=True, version=2, own_count=True,
)  # fmt: skip
LIFT = Statistic(
    "rare_lift", "ratio", rare_mass, partial(lift, mark=_RARE_KEYS), family=RARE,
    title="attention to rare tokens over their share", by_corpus=True, version=2, own_count=True, order=1,
)  # fmt: skip
RAREST = Statistic(
    "rarest_share", "share", peak, rarest_share, family=RARE,
    title="queries that look most at the rarest token", by_corpus=True, version=2, order=2,
)  # fmt: skip
RAREST_TWO = Statistic(
    "rarest_two_share", "share", peak, rarest_two_share, family=RARE,
    title="queries that look most at one of the two rarest tokens",
    by_corpus=True, version=2, own_count=True, order=3,
)  # fmt: skip
