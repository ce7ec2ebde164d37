"""What patterns of maps are read off: columns, the diagonal, either; and the same place of another text."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import nan
from typing import TYPE_CHECKING

from attnprobe.statistics.roles import FAMILY, excess, preference
from attnprobe.statistics.statistic import Function, Statistic, mean_over_queries, peak, sinks

if TYPE_CHECKING:
    from torch import Tensor

    from attnprobe.attention.block import AttentionBlock
    from attnprobe.attention.layout import Layout


#: Boolean (batch, query, key), of the keys that count and that the query sees.
Mark = Callable[["Layout"], "Tensor"]


def mark_sinks(layout: Layout) -> Tensor:
    """Mark special tokens and the first token."""
    marks = (sinks(layout) & layout.keys.kept)[:, None]
    return layout.hide(marks.expand(-1, layout.queries.length, -1))


def mark_neighbours(layout: Layout) -> Tensor:
    """Mark the token itself and its neighbours; from decoder to encoder, keys at the same relative place.

    Query i of m stands at i' = (i + 1/2) n / m - 1/2 among n keys, and at the keys j with |j - i'| of at most
    max(1, n / 10).
    """
    import torch

    m, n = layout.queries.length, layout.keys.length
    i, j = (torch.arange(length, device=layout.keys.kept.device) for length in (m, n))
    if layout.crossed:  # in whole numbers, so that no key at the border is a matter of rounding
        near = (20 * m * j - 10 * ((2 * i[:, None] + 1) * n - m)).abs() <= 2 * m * max(10, n)
    else:
        near = (j - i[:, None]).abs() <= 1
    return layout.hide(near & layout.keys.kept[:, None])


def mark_either(layout: Layout) -> Tensor:
    return mark_sinks(layout) | mark_neighbours(layout)


def vertical_mass(block: AttentionBlock) -> Tensor:
    """Probability m on special tokens and on the first token: the columns of a map that attract attention.

    Source: Kovaleva et al. (2019), section 4.1, vertical patterns; Xiao et al. (2024) on the first token.
    """
    found = block.mass("first") + block.mass("separator")
    own = sinks(block.layout) & ~block.layout.keys.special
    return found + block.probabilities[..., 0] * own[:, None, None, 0]


def diagonal_mass(block: AttentionBlock) -> Tensor:
    """Probability m on the token itself and on its neighbours, p_{i,i-1} + p_{i,i} + p_{i,i+1}.

    From decoder to encoder, that on the keys at the same relative place: query i of m queries stands at
    i' = (i + 1/2) n / m - 1/2 among n keys, and keys j are there if |j - i'| is at most max(1, n / 10).

    Source: Kovaleva et al. (2019), section 4.1, diagonal patterns; Tachibana et al. (2018) expect attention
    between two texts at the same share of their lengths.
    """
    import torch

    return _on_neighbours(block, torch.ones_like(block.layout.keys.kept))


def either_mass(block: AttentionBlock) -> Tensor:
    """Probability m on special tokens, the first token, the token itself and its neighbours, each once.

    Source: Kovaleva et al. (2019), section 4.1, vertical and diagonal patterns in one map.
    """
    return vertical_mass(block) + _on_neighbours(block, ~sinks(block.layout))


def _on_neighbours(block: AttentionBlock, counted: Tensor) -> Tensor:
    """Add up what goes to those neighbours that are counted, (batch, key)."""
    import torch

    layout, queries = block.layout, block.probabilities.shape[2]
    here = slice(block.offset, block.offset + queries)
    if layout.crossed:
        marks = layout.once(mark_neighbours)[:, here] & counted[:, None]
        return (block.probabilities * marks[:, None].to(block.probabilities.dtype)).sum(-1)
    found = block.probabilities.new_zeros(block.probabilities.shape[:3])
    for offset in (-1, 0, 1):
        # NaN where there is no such key.
        keys = torch.arange(here.start, here.stop, device=counted.device) + offset
        chosen = counted[:, keys.clamp(0, layout.keys.length - 1)]
        found += block.at_offset(offset).nan_to_num(0) * chosen[:, None]
    return found


def beyond_uniform(values: Tensor, layout: Layout, mark: Mark) -> Tensor:
    """Average what lies beyond uniform attention, (m - s/n) / (1 - s/n), over the queries of a sequence.

    s of the n keys in sight are such keys. It is undefined where all are, or none.

    Limits: 0 for uniform attention, 1 where all of it is there, below 0 where it gets less than from uniform
    attention.
    """
    import torch

    if not layout.placed or layout.grid is not None:  # keys of no text, which have no order
        return mean_over_queries(torch.full_like(values, nan), layout)
    uniform = (layout.once(mark).sum(-1) / layout.visible)[:, None].to(values.dtype)
    defined = (uniform > 0) & (uniform < 1)
    return mean_over_queries(((values - uniform) / (1 - uniform)).where(defined, nan), layout)


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


def find_first_token(layout: Layout) -> Tensor:
    """Mark the first key of a text that begins with no special token, (batch, key)."""
    return sinks(layout) & ~layout.keys.special


def first_mass(block: AttentionBlock) -> Tensor:
    """Probability m on the first token of a text that begins with no special token, p_{i,0}.

    Undefined where it begins with one, as attention to that is attention to special tokens.

    Source: Xiao et al. (2024), Efficient streaming language models with attention sinks.
    """
    there = find_first_token(block.layout)[:, :1] & block.layout.keys.kept[:, :1]
    return block.probabilities[..., 0].where(there[:, None], nan)


def _of_pattern(name: str, function: Function, mark: Mark, title: str, order: int) -> Statistic:
    return Statistic(
        f"{name}_excess", "share", function, partial(beyond_uniform, mark=mark), family=FAMILY,
        title=f"attention to {title}, beyond uniform", order=order,
    )  # fmt: skip


VERTICAL = _of_pattern("vertical", vertical_mass, mark_sinks, "special tokens and the first token", 10)
DIAGONAL = _of_pattern("diagonal", diagonal_mass, mark_neighbours, "the token itself and its neighbours", 11)
EITHER = _of_pattern("vertical_diagonal", either_mass, mark_either, "either of the two", 12)
ALIGNED = Statistic(
    "aligned_excess", "share", peak, aligned_excess, family=FAMILY,
    title="queries that look most at the same relative place, beyond chance", order=13,
)  # fmt: skip
FIRST_EXCESS = Statistic(
    "first_token_excess", "share", first_mass, partial(excess, feature=find_first_token),
    family=FAMILY, title="attention to the first token, beyond uniform", order=14,
)  # fmt: skip
FIRST_PREFERENCE = Statistic(
    "first_token_preference", "share", first_mass, partial(preference, feature=find_first_token),
    family=FAMILY, title="attention to the first token, beside another", order=15,
)  # fmt: skip
