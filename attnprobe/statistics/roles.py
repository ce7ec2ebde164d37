"""What roles are read off: attention to some keys beyond that of uniform attention, whatever the length.

Uniform attention to 2 special tokens of 4 keys is .5, and of 40 keys .05. So a mass alone says how long a
text is, and is no property of a head.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import nan
from typing import TYPE_CHECKING

from attnprobe.statistics.entropy import entropy
from attnprobe.statistics.statistic import Family, Statistic, mean_over_queries, peak, read_at

if TYPE_CHECKING:
    from torch import Tensor

    from attnprobe.attention.block import AttentionBlock
    from attnprobe.attention.layout import Layout


FAMILY = Family("roles", "roles of heads", 8, commands=("roles",))

#: From where on a head has a role, or a pattern; see ``role_evidence``.
THRESHOLDS: dict[str, float] = {
    "positional": 0.9,
    "delimiter": 0.3,
    "preference": 0.9,
    "rare": 0.5,
    "syntactic": 0.1,
    "coreference": 0.1,
    "induction": 0.5,
    "duplicate": 0.5,
    "broad": 0.6,
    "block": 0.8,
    "links": 0.1,
    "aligns": 0.5,
    "sink": 0.3,
    "pattern": 0.5,
}

#: A kind of keys: the name of a feature of tokens, or what marks them (batch, key).
Feature = str | Callable[["Layout"], "Tensor"]


def special_mass(block: AttentionBlock) -> Tensor:
    """Probability m on special tokens, the sum of p_j over the boundary tokens j of a text.

    Source: Clark et al. (2019), section 3.2; Kovaleva et al. (2019), vertical patterns.
    """
    return block.mass("first") + block.mass("separator")


def punctuation_mass(block: AttentionBlock) -> Tensor:
    """Probability m on punctuation.

    Source: Clark et al. (2019), section 3.2.
    """
    return block.mass("punctuation")


def excess(values: Tensor, layout: Layout, feature: Feature) -> Tensor:
    """Average what lies beyond uniform attention, (m - s/n) / (1 - s/n), over the queries of a sequence.

    A query sees n keys, s of them of the kind. It is undefined where it sees none of them, or no others.

    Limits: 0 for uniform attention, 1 where all of it is on that kind, below 0 where it gets less than from
    uniform attention.
    """
    some, visible = _counted(layout, feature)
    uniform = (some / visible)[:, None].to(values.dtype)
    return _mean((values - uniform) / (1 - uniform), (some > 0) & (some < visible), layout)


def preference(values: Tensor, layout: Layout, feature: Feature) -> Tensor:
    """Average over queries what a key of the kind gets beside another key, a / (a + b).

    a = m / s is the attention to an average key of the kind, b = (1 - m) / (n - s) that to an average other
    key. This is the mass that the kind would have if half of the keys were of it, and does not depend on the
    length of a text where the softmax adds the same to the scores of all keys of that kind.

    Limits: 0 to 1; 0.5 for uniform attention.
    """
    some, visible = _counted(layout, feature)
    mine = values / some[:, None]
    others = (1 - values).clamp_min(0) / (visible - some)[:, None]
    return _mean(mine / (mine + others), (some > 0) & (some < visible), layout)


def effective_share(values: Tensor, layout: Layout) -> Tensor:
    """Average exp(H) / n over queries: the share of the n keys in sight that a row is as broad as.

    Not H / ln n, which grows with n for a head that leaves out the same part of its keys. It is undefined for
    n = 1.

    Limits: 1/n for a one-hot row, 1 for a uniform one.

    Source: the perplexity of a row, after Clark et al. (2019), section 3.2, on heads with a broad attention.
    """
    visible = layout.visible
    return _mean(values.exp() / visible[:, None].to(values.dtype), visible > 1, layout)


def rarest_excess(peaks: Tensor, layout: Layout) -> Tensor:
    """Share of queries whose most attended key is the least frequent in sight, beyond chance.

    Of n keys in sight, k are of the least frequent types, of which any will do. A query counts (hit - k/n) /
    (1 - k/n), and not at all where k = n.

    Limits: 0 by chance, 1 where it is always such a key.

    Source: after Voita et al. (2019), section 5.3, who give the share alone: 66 %.
    """
    rank, kept = layout.keys.rank, layout.keys.kept
    rarest = layout.furthest(rank)
    tied = layout.hide((rank[:, None] == rarest[:, :, None]) & kept[:, None])
    chance = (tied.sum(-1) / layout.visible)[:, None].to(peaks.dtype)
    hit = (read_at(peaks, rank) == rarest[:, None]).to(peaks.dtype)
    beyond = ((hit - chance) / (1 - chance)).where(~peaks.isnan(), nan)
    return _mean(beyond, (rarest >= 0) & (chance[:, 0] < 1), layout)


def segment_mass(block: AttentionBlock) -> Tensor:
    """Probability m on the tokens of the query's own text, of two texts that are read together.

    A separator is of the text that it ends. Undefined for a single text, from decoder to encoder, and where
    a decoder has not come to the second text.

    Source: Kovaleva et al. (2019), block patterns.
    """
    layout, queries = block.layout, block.probabilities.shape[2]
    if layout.crossed:
        return block.probabilities.new_full(block.probabilities.shape[:3], nan)
    here = slice(block.offset, block.offset + queries)
    same = _own(layout)[:, here].to(block.probabilities.dtype)
    found = (block.probabilities * same[:, None]).sum(-1)
    return found.where(_two_in_sight(layout)[:, None, here], nan)


def segment_excess(values: Tensor, layout: Layout) -> Tensor:
    """Average what lies beyond uniform attention, (m - s/n) / (1 - s/n), over queries.

    s of the n keys in sight are of the query's own text.

    Limits: 0 for uniform attention, 1 where all of it stays within the text.
    """
    if layout.crossed:
        return mean_over_queries(values, layout)
    uniform = (layout.hide(_own(layout)).sum(-1) / layout.visible)[:, None].to(values.dtype)
    return _mean((values - uniform) / (1 - uniform), uniform[:, 0] < 1, layout)


def _own(layout: Layout) -> Tensor:
    """Tell which keys that count are of the text of which query, (batch, query, key)."""
    segments = layout.keys.segments
    return (segments[:, :, None] == segments[:, None]) & layout.keys.kept[:, None]


def _two_in_sight(layout: Layout) -> Tensor:
    """Tell which queries see tokens of more than one text, (batch, query)."""
    segments = layout.keys.segments
    if layout.causal:
        return segments > 0
    return (segments[:, -1:] > 0).expand_as(segments)


def _counted(layout: Layout, feature: Feature) -> tuple[Tensor, Tensor]:
    """Count the keys of a kind that each query sees, and all; (batch, query) or (batch, 1)."""
    marks = getattr(layout.keys, feature) if isinstance(feature, str) else feature(layout)
    return layout.seen(marks & layout.keys.kept), layout.visible


def _mean(values: Tensor, defined: Tensor, layout: Layout) -> Tensor:
    return mean_over_queries(values.where(defined[:, None], nan), layout)


def _of_kind(feature: str, title: str, order: int) -> tuple[Statistic, Statistic]:
    mass = {"special": special_mass, "punctuation": punctuation_mass}[feature]
    return (
        Statistic(
            f"{feature}_excess", "share", mass, partial(excess, feature=feature),
            family=FAMILY, title=f"attention to {title}, beyond uniform", order=order,
        ),
        Statistic(
            f"{feature}_preference", "share", mass, partial(preference, feature=feature),
            family=FAMILY, title=f"attention to one of the {title}, beside another", order=order + 1,
        ),
    )  # fmt: skip


SPECIAL_EXCESS, SPECIAL_PREFERENCE = _of_kind("special", "special tokens", 0)
PUNCTUATION_EXCESS, PUNCTUATION_PREFERENCE = _of_kind("punctuation", "punctuation marks", 2)
EFFECTIVE = Statistic(
    "effective_share", "share", entropy, effective_share, family=FAMILY,
    title="share of the keys that attention is as broad as", order=4,
)  # fmt: skip
RAREST = Statistic(
    "rarest_excess", "share", peak, rarest_excess, family=FAMILY,
    title="queries that look most at the rarest token, beyond chance", about="text", by_corpus=True, order=5,
)  # fmt: skip
SEGMENT = Statistic(
    "segment_excess", "share", segment_mass, segment_excess, family=FAMILY,
    title="attention within the query's own text, beyond uniform", own_count=True, order=6,
)  # fmt: skip
