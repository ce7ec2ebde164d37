"""How much goes to boundary tokens, and to punctuation."""

from __future__ import annotations

from functools import partial
from math import nan
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


FAMILY = Family("special", "attention to special tokens", 2)


def mass(block: AttentionBlock, feature: str) -> Tensor:
    """Probability on all keys of a kind, the sum of p_j over the keys j of that kind.

    Limits: 0 to 1; for uniform attention, the share of the keys that are of that kind.

    Source: Clark et al. (2019), section 3.1, and Kovaleva et al. (2019).
    """
    return block.mass(feature)


def where_present(values: Tensor, layout: Layout, feature: str) -> Tensor:
    """Average over the queries that see a key of that kind.

    In a sequence without such a key it is undefined, which is not 0.
    """
    present = layout.seen(getattr(layout.keys, feature) & layout.keys.kept) > 0
    return mean_over_queries(values.where(present[:, None], nan), layout)


def _on(
    feature: str, title: str, order: int, reduce: Reduce | None = None, *, headline: bool = False
) -> Statistic:
    function, title = partial(mass, feature=feature), f"attention to {title}"
    return Statistic(
        feature, "share", function, reduce, family=FAMILY, title=title, headline=headline, order=order
    )


FIRST = _on("first", "the leading special token", 0, partial(where_present, feature="first"), headline=True)
SEPARATOR = _on("separator", "separators", 1, partial(where_present, feature="separator"), headline=True)
PUNCTUATION = _on("punctuation", "punctuation", 2)
OTHER = _on("other", "all other tokens", 3)


def sink_share(peaks: Tensor, layout: Layout) -> Tensor:
    """Share of queries whose most attended key is a special token or the first token.

    Limits: 0 to 1.

    Source: Xiao et al. (2024), Efficient streaming language models with attention sinks.
    """
    return mean_where(read_at(peaks, sinks(layout)), peaks, layout)


SINK = Statistic(
    "sink_share", "share", peak, sink_share, family=FAMILY, title="queries that look most at a sink", order=4
)
