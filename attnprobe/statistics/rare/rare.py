"""Whether a head looks at rare tokens."""

import torch
from torch import Tensor

from attnprobe.attention.block import AttentionBlock
from attnprobe.attention.layout import Layout
from attnprobe.statistics.peak import looked_up, peak
from attnprobe.statistics.reduction import mean_over_queries, mean_where
from attnprobe.statistics.registry import Statistic

#: Voita looks at the two rarest only where the rarest is outside this many frequent types.
FREQUENT_TYPES = 500


def rare_mass(block: AttentionBlock) -> Tensor:
    """Probability on rare tokens; which those are is settled by the corpus (``text/rarity.py``).

    Source: after Voita et al. (2019), section 5.3.
    """
    return block.mass("rare")


def where_rare(values: Tensor, layout: Layout) -> Tensor:
    """Average over the queries that see a rare token; undefined in a sequence without one."""
    return mean_over_queries(values.where(_share(layout)[:, None] > 0, torch.nan), layout)


def lift(values: Tensor, layout: Layout) -> Tensor:
    """Divide by the rare share of the keys in sight; 1 is what uniform attention gives."""
    share = _share(layout)[:, None].to(values.dtype).expand(-1, -1, values.shape[2])
    return where_rare(values, layout) / where_rare(share, layout)


def rarest_share(peaks: Tensor, layout: Layout) -> Tensor:
    """Share of queries whose most attended key is the least frequent token in sight.

    Source: Voita et al. (2019), section 5.3: 66 % for the head she calls rare words.
    """
    rarest = layout.furthest(layout.keys.rank)[:, None]
    hit = looked_up(peaks, layout.keys.rank) == rarest
    return mean_where(hit, peaks.where(rarest >= 0, torch.nan), layout)


def rarest_two_share(peaks: Tensor, layout: Layout) -> Tensor:
    """Share of queries whose most attended key is one of the two least frequent tokens in sight.

    Only queries count whose least frequent token in sight is outside the 500 most frequent types.
    Source: Voita et al. (2019), section 5.3: 83 % for the same head.
    """
    rarest, second = (rank[:, None] for rank in _two_rarest(layout))
    found = looked_up(peaks, layout.keys.rank)
    hit = (found == rarest) | ((found == second) & (second >= 0))
    return mean_where(hit, peaks.where(rarest >= FREQUENT_TYPES, torch.nan), layout)


def _share(layout: Layout) -> Tensor:
    """Share of the keys in sight that are rare, (batch, query) or (batch, 1)."""
    return layout.seen(layout.keys.rare & layout.keys.kept) / layout.visible


def _two_rarest(layout: Layout) -> tuple[Tensor, Tensor]:
    """Give the two highest different ranks in sight, each (batch, query) or (batch, 1); -1 for none."""
    rank = layout.keys.rank
    highest = rank.cummax(1).values
    before = torch.nn.functional.pad(highest[:, :-1], (1, 0), value=-1)
    # What comes second here: the new token below the highest so far, or the highest that it beats.
    beaten = torch.where(rank < before, rank, torch.where(rank > before, before, -1))
    return layout.furthest(rank), layout.furthest(beaten)


MASS = Statistic("rare_mass", "share", "rare", rare_mass, where_rare, own_count=True)
LIFT = Statistic("rare_lift", "ratio", "rare", rare_mass, lift, own_count=True, order=1)
RAREST = Statistic("rarest_share", "share", "rare", peak, rarest_share, order=2)
RAREST_TWO = Statistic("rarest_two_share", "share", "rare", peak, rarest_two_share, own_count=True, order=3)
