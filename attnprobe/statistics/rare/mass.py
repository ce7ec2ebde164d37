"""How much of a head's attention goes to rare tokens."""

import torch
from torch import Tensor

from attnprobe.attention.block import AttentionBlock
from attnprobe.attention.layout import Layout
from attnprobe.statistics.rare import FAMILY
from attnprobe.statistics.reduction import mean_over_queries
from attnprobe.statistics.statistic import Statistic


def rare_mass(block: AttentionBlock) -> Tensor:
    """Probability on rare tokens, sum_j p_ij w_j.

    w_j is 1 for a token of a rare type, 0 for others, and between them for types that tie for the last
    place among the rare. The corpus settles it (``corpus/tokens/rarity.py``): the rare types, from the rarest
    up, make up a tenth of its tokens.

    Limits: 0 to 1; for uniform attention, the rare share of the keys in sight.

    Source: after Voita et al. (2019), section 5.3.
    """
    return block.mass("rare")


def where_rare(values: Tensor, layout: Layout) -> Tensor:
    """Average over the queries that see a rare token.

    In a sequence without a rare token it is undefined.
    """
    return mean_over_queries(values.where(_share(layout)[:, None] > 0, torch.nan), layout)


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
