"""Whether a head looks at rare tokens."""

import torch
from torch import Tensor

from attnprobe.attention import AttentionBlock, TokenFeatures
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


def where_rare(values: Tensor, tokens: TokenFeatures) -> Tensor:
    """Average over queries; undefined in a sequence without a rare token."""
    present = (tokens.rare & tokens.kept).any(1, keepdim=True)
    return mean_over_queries(values, tokens).where(present, torch.nan)


def lift(values: Tensor, tokens: TokenFeatures) -> Tensor:
    """Divide by the rare share of the sequence's keys; 1 is what uniform attention gives."""
    share = (tokens.rare & tokens.kept).sum(1, keepdim=True) / tokens.kept.sum(1, keepdim=True)
    return where_rare(values, tokens) / share


def rarest_share(peaks: Tensor, tokens: TokenFeatures) -> Tensor:
    """Share of queries whose most attended key is the least frequent token of the sequence.

    Source: Voita et al. (2019), section 5.3: 66 % for the head she calls rare words.
    """
    hit = looked_up(peaks, tokens.rank == _rarest(tokens.rank))
    return mean_where(hit, peaks, tokens).where(_rarest(tokens.rank) >= 0, torch.nan)


def rarest_two_share(peaks: Tensor, tokens: TokenFeatures) -> Tensor:
    """Share of queries whose most attended key is one of the two least frequent tokens.

    Only sequences count whose least frequent token is outside the 500 most frequent types.
    Source: Voita et al. (2019), section 5.3: 83 % for the same head.
    """
    rarest = _rarest(tokens.rank)
    second = _rarest(tokens.rank.masked_fill(tokens.rank == rarest, -1))
    candidate = (tokens.rank == rarest) | ((tokens.rank == second) & (second >= 0))
    hit = looked_up(peaks, candidate)
    return mean_where(hit, peaks, tokens).where(rarest >= FREQUENT_TYPES, torch.nan)


def _rarest(rank: Tensor) -> Tensor:
    return rank.amax(1, keepdim=True)


MASS = Statistic("rare_mass", "share", "rare", rare_mass, where_rare, own_count=True)
LIFT = Statistic("rare_lift", "ratio", "rare", rare_mass, lift, own_count=True, order=1)
RAREST = Statistic("rarest_share", "share", "rare", peak, rarest_share, order=2)
RAREST_TWO = Statistic("rarest_two_share", "share", "rare", peak, rarest_two_share, own_count=True, order=3)
