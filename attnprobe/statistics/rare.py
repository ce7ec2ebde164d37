"""Whether a head looks at rare tokens."""

from __future__ import annotations

from math import nan
from typing import TYPE_CHECKING

from attnprobe.statistics.statistic import Family, Statistic, mean_over_queries, mean_where, peak, read_at

if TYPE_CHECKING:
    from torch import Tensor

    from attnprobe.attention.block import AttentionBlock
    from attnprobe.attention.layout import Layout


FAMILY = Family("rare", "attention to rare tokens", 3)


def rare_mass(block: AttentionBlock) -> Tensor:
    """Probability on rare tokens, sum_j p_ij w_j.

    w_j is 1 for a token of a rare type, 0 for others, and between them for types that tie for the last
    place among the rare. The corpus settles it (``corpus/vocabulary.py``): the rare types, from the rarest
    up, make up a tenth of its tokens.

    Limits: 0 to 1; for uniform attention, the rare share of the keys in sight.

    Source: after Voita et al. (2019), section 5.3.
    """
    return block.mass("rare")


def where_rare(values: Tensor, layout: Layout) -> Tensor:
    """Average over the queries that see a rare token.

    In a sequence without a rare token it is undefined.
    """
    return mean_over_queries(values.where(_share(layout)[:, None] > 0, nan), layout)


def lift(values: Tensor, layout: Layout) -> Tensor:
    """Divide by the rare share of the keys in sight, so that uniform attention gives 1."""
    share = _share(layout)[:, None].to(values.dtype).expand(-1, -1, values.shape[2])
    return where_rare(values, layout) / where_rare(share, layout)


def _share(layout: Layout) -> Tensor:
    """Share of the keys in sight that are rare, (batch, query) or (batch, 1)."""
    return layout.seen(layout.keys.rare * layout.keys.kept) / layout.visible


MASS = Statistic(
    "rare_mass", "share", rare_mass, where_rare, family=FAMILY, title="attention to rare tokens",
    about="text", by_corpus=True, version=2, own_count=True,
)  # fmt: skip
LIFT = Statistic(
    "rare_lift", "ratio", rare_mass, lift, family=FAMILY, title="attention to rare tokens over their share",
    about="text", by_corpus=True, version=2, own_count=True, order=1,
)  # fmt: skip


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


RAREST = Statistic(
    "rarest_share", "share", peak, rarest_share, family=FAMILY,
    title="queries that look most at the rarest token", about="text", by_corpus=True, version=2, order=2,
)  # fmt: skip
RAREST_TWO = Statistic(
    "rarest_two_share", "share", peak, rarest_two_share,
    family=FAMILY, title="queries that look most at one of the two rarest tokens",
    about="text", by_corpus=True, version=2, own_count=True, order=3,
)  # fmt: skip
