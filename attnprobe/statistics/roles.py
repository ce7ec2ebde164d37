"""What roles and patterns are read off: attention to some keys beyond that of uniform attention.

Uniform attention to 2 special tokens of 4 keys is .5, and of 40 keys .05. So a mass alone says how long a
text is, and is no property of a head.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import nan
from operator import attrgetter
from typing import TYPE_CHECKING

from attnprobe.statistics.entropy import entropy
from attnprobe.statistics.statistic import (
    Family,
    Function,
    Statistic,
    mean_over_queries,
    peak,
    read_at,
    sinks,
)

if TYPE_CHECKING:
    from torch import Tensor

    from attnprobe.attention.block import AttentionBlock
    from attnprobe.attention.layout import Layout


FAMILY = Family("roles", "roles of heads", 8, commands=("roles",))

#: Counts the keys of a kind that each query sees, (batch, query) or (batch, 1).
Count = Callable[["Layout"], "Tensor"]


def count_keys(layout: Layout, mark: Callable[[Layout], Tensor]) -> Tensor:
    """Count the keys with a mark, (batch, key), that each query sees."""
    return layout.seen(mark(layout) & layout.keys.kept)


# Beyond uniform attention


def excess(values: Tensor, layout: Layout, count: Count) -> Tensor:
    """Average what lies beyond uniform attention, (m - s/n) / (1 - s/n), over the queries of a sequence.

    A query sees n keys, s of them of the kind. Undefined where it sees none of them, or no others.

    Limits: 0 for uniform attention, 1 where all of it is on that kind, below 0 where it gets less than from
    uniform attention.
    """
    number, visible = layout.once(count), layout.visible
    uniform = (number / visible)[:, None].to(values.dtype)
    return _mean((values - uniform) / (1 - uniform), (number > 0) & (number < visible), layout)


def preference(values: Tensor, layout: Layout, count: Count) -> Tensor:
    """Average over queries what a key of the kind gets beside another key, a / (a + b).

    a = m / s is the attention to an average key of the kind, b = (1 - m) / (n - s) that to an average other
    key. This is the mass that the kind would have if half of the keys were of it. It does not depend on the
    length of a text where the softmax adds the same to the scores of all keys of that kind.

    Limits: 0 to 1; 0.5 for uniform attention.
    """
    number, visible = layout.once(count), layout.visible
    to_one = values / number[:, None]
    to_other = (1 - values).clamp_min(0) / (visible - number)[:, None]
    return _mean(to_one / (to_one + to_other), (number > 0) & (number < visible), layout)


def _mean(values: Tensor, defined: Tensor, layout: Layout) -> Tensor:
    return mean_over_queries(values.where(defined[:, None], nan), layout)


# Special tokens, punctuation and the first token


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


def mark_first_token(layout: Layout) -> Tensor:
    """Mark the first key of a text that begins with no special token, (batch, key)."""
    return sinks(layout) & ~layout.keys.special


def first_mass(block: AttentionBlock) -> Tensor:
    """Probability m on the first token of a text that begins with no special token, p_{i,0}.

    Undefined where it begins with one, as attention to that is attention to special tokens.

    Source: Xiao et al. (2024), Efficient streaming language models with attention sinks.
    """
    there = mark_first_token(block.layout)[:, :1] & block.layout.keys.kept[:, :1]
    return block.probabilities[..., 0].where(there[:, None], nan)


# Breadth, and rare tokens


def effective_share(values: Tensor, layout: Layout) -> Tensor:
    """Average exp(H) / n over queries: the share of the n keys in sight that a row is as broad as.

    Not H / ln n, which grows with n for a head that leaves out the same part of its keys.
    Undefined for n = 1.

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


# The query's own text, of two


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
    same = _mark_own_text(layout)[:, here].to(block.probabilities.dtype)
    mass = (block.probabilities * same[:, None]).sum(-1)
    return mass.where(_sees_two_texts(layout)[:, None, here], nan)


def _mark_own_text(layout: Layout) -> Tensor:
    """Tell which keys that count are of the text of which query, (batch, query, key)."""
    segments = layout.keys.segments
    return (segments[:, :, None] == segments[:, None]) & layout.keys.kept[:, None]


def _sees_two_texts(layout: Layout) -> Tensor:
    """Tell which queries see tokens of more than one text, (batch, query)."""
    segments = layout.keys.segments
    if layout.causal:
        return segments > 0
    return (segments[:, -1:] > 0).expand_as(segments)


def count_own_text(layout: Layout) -> Tensor:
    if layout.crossed:
        return layout.visible.new_zeros(layout.visible.shape)
    return layout.hide(_mark_own_text(layout)).sum(-1)


# Patterns: columns of a map, its diagonal, either; and the same place of another text


def vertical_mass(block: AttentionBlock) -> Tensor:
    """Probability m on special tokens and on the first token: the columns of a map that attract attention.

    Source: Kovaleva et al. (2019), section 4.1, vertical patterns; Xiao et al. (2024) on the first token.
    """
    first = mark_first_token(block.layout)[:, None, None, 0]
    return special_mass(block) + block.probabilities[..., 0] * first


def diagonal_mass(block: AttentionBlock) -> Tensor:
    """Probability m on the token itself and on its neighbours, p_{i,i-1} + p_{i,i} + p_{i,i+1}.

    From decoder to encoder, that on the keys at the same relative place: query i of m queries stands at
    i' = (i + 1/2) n / m - 1/2 among n keys, and keys j are there if |j - i'| is at most max(1, n / 10).

    Source: Kovaleva et al. (2019), section 4.1, diagonal patterns; Tachibana et al. (2018) expect attention
    between two texts at the same share of their lengths.
    """
    import torch

    return _mass_on_neighbours(block, torch.ones_like(block.layout.keys.kept))


def either_mass(block: AttentionBlock) -> Tensor:
    """Probability m on special tokens, the first token, the token itself and its neighbours, each once.

    Source: Kovaleva et al. (2019), section 4.1, vertical and diagonal patterns in one map.
    """
    return vertical_mass(block) + _mass_on_neighbours(block, ~sinks(block.layout))


def _mass_on_neighbours(block: AttentionBlock, counted: Tensor) -> Tensor:
    """Add up what goes to those neighbours that are counted, (batch, key)."""
    import torch

    layout, queries = block.layout, block.probabilities.shape[2]
    here = slice(block.offset, block.offset + queries)
    if layout.crossed:
        marks = layout.once(mark_neighbours)[:, here] & counted[:, None]
        return (block.probabilities * marks[:, None].to(block.probabilities.dtype)).sum(-1)
    mass = block.probabilities.new_zeros(block.probabilities.shape[:3])
    for offset in (-1, 0, 1):
        # NaN where there is no such key.
        keys = torch.arange(here.start, here.stop, device=counted.device) + offset
        chosen = counted[:, keys.clamp(0, layout.keys.length - 1)]
        mass += block.at_offset(offset).nan_to_num(0) * chosen[:, None]
    return mass


def mark_neighbours(layout: Layout) -> Tensor:
    """Mark what ``diagonal_mass`` adds up, (batch, query, key)."""
    import torch

    m, n = layout.queries.length, layout.keys.length
    i, j = (torch.arange(length, device=layout.keys.kept.device) for length in (m, n))
    if layout.crossed:  # in whole numbers, so that no key at the border is a matter of rounding
        near = (20 * m * j - 10 * ((2 * i[:, None] + 1) * n - m)).abs() <= 2 * m * max(10, n)
    else:
        near = (j - i[:, None]).abs() <= 1
    return layout.hide(near & layout.keys.kept[:, None])


def count_sinks(layout: Layout) -> Tensor:
    return _none_without_order(layout, count_keys(layout, sinks))


def count_neighbours(layout: Layout) -> Tensor:
    return _none_without_order(layout, layout.once(mark_neighbours).sum(-1))


def count_either(layout: Layout) -> Tensor:
    neighbours = layout.once(mark_neighbours) & ~sinks(layout)[:, None]
    return layout.once(count_sinks) + _none_without_order(layout, neighbours.sum(-1))


def _none_without_order(layout: Layout, number: Tensor) -> Tensor:
    """Count none where keys are of no text, and have no order."""
    return number if layout.placed and layout.grid is None else number.new_zeros(number.shape)


def aligned_excess(peaks: Tensor, layout: Layout) -> Tensor:
    """Share of a decoder's queries whose most attended key stands at the same relative place, beyond chance.

    Query i of m stands at i' = (i + 1/2) n / m - 1/2 among the n keys of the encoder; a key j is a hit if
    |j - i'| is at most max(1, n / 10). With c the share of the keys that would be hits, a query counts
    (hit - c) / (1 - c). Undefined within one sequence.

    Limits: 0 by chance, 1 where it is always such a key, below 0 where less often than by chance.

    Source: after Voita et al. (2019), section 5.1, who ask it of the tokens of one text; that the most
    attended word is the aligned one is the reading of Garg et al. (2019).
    """
    import torch

    if not layout.crossed or not layout.placed:
        return mean_over_queries(torch.full_like(peaks, nan), layout)
    marks = layout.once(mark_neighbours)
    chance = (marks.sum(-1) / layout.visible)[:, None].to(peaks.dtype)
    # (batch, query, head): which of the marks of its query a head looks at.
    hit = marks.gather(2, peaks.nan_to_num(0).long().transpose(1, 2)).transpose(1, 2)
    beyond = (hit.to(peaks.dtype) - chance) / (1 - chance)
    return mean_over_queries(beyond.where((chance < 1) & ~peaks.isnan(), nan), layout)


def _define(
    name: str, mass: Function, count: Count, title: str, order: int, *, own_count: bool = False
) -> Statistic:
    return Statistic(
        f"{name}_excess", "share", mass, partial(excess, count=count), family=FAMILY,
        title=f"attention to {title}, beyond uniform", order=order, own_count=own_count,
    )  # fmt: skip


def _define_both(
    name: str, mass: Function, mark: Callable[[Layout], Tensor], titles: tuple[str, str], order: int
) -> tuple[Statistic, Statistic]:
    """Define what keys get beyond uniform attention, and what one of them gets beside another."""
    count = partial(count_keys, mark=mark)
    return _define(name, mass, count, titles[0], order), Statistic(
        f"{name}_preference", "share", mass, partial(preference, count=count), family=FAMILY,
        title=f"attention to {titles[1]}, beside another", order=order + 1,
    )  # fmt: skip


SPECIAL_EXCESS, SPECIAL_PREFERENCE = _define_both(
    "special", special_mass, attrgetter("keys.special"), ("special tokens", "one of the special tokens"), 0
)
PUNCTUATION_EXCESS, PUNCTUATION_PREFERENCE = _define_both(
    "punctuation",
    punctuation_mass,
    attrgetter("keys.punctuation"),
    ("punctuation marks", "one of the punctuation marks"),
    2,
)
EFFECTIVE = Statistic(
    "effective_share", "share", entropy, effective_share, family=FAMILY,
    title="share of the keys that attention is as broad as", order=4,
)  # fmt: skip
RAREST = Statistic(
    "rarest_excess", "share", peak, rarest_excess, family=FAMILY,
    title="queries that look most at the rarest token, beyond chance", about="text", by_corpus=True, order=5,
)  # fmt: skip
SEGMENT = _define("segment", segment_mass, count_own_text, "the query's own text", 6, own_count=True)
VERTICAL = _define("vertical", vertical_mass, count_sinks, "special tokens and the first token", 10)
DIAGONAL = _define("diagonal", diagonal_mass, count_neighbours, "the token itself and its neighbours", 11)
EITHER = _define("vertical_diagonal", either_mass, count_either, "either of the two", 12)
ALIGNED = Statistic(
    "aligned_excess", "share", peak, aligned_excess, family=FAMILY,
    title="queries that look most at the same relative place, beyond chance", order=13,
)  # fmt: skip
FIRST_EXCESS, FIRST_PREFERENCE = _define_both(
    "first_token", first_mass, mark_first_token, ("the first token", "the first token"), 14
)
