"""What tells the role or pattern of a head: attention beyond uniform attention, in texts of any length."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from math import nan
from typing import TYPE_CHECKING, Any

from attnprobe.statistics.entropy import entropy
from attnprobe.statistics.special import Mark, count_seen, mass_on
from attnprobe.statistics.statistic import Family, Statistic, mean_over_queries, peak, sinks

if TYPE_CHECKING:
    from attnprobe.statistics.statistic import Layout, Tensor


FAMILY = Family("roles", "roles of heads", 8, commands=("roles",))


def excess(values: Tensor, layout: Layout, mark: Mark) -> Tensor:
    """Average the attention beyond uniform, (m - s/n) / (1 - s/n), over the queries of a sequence.

    A query sees n keys, s of them of the kind. Undefined if it sees none of these, or no others.

    Limits: 0 for uniform attention, 1 if all attention is on that kind, below 0 if less than uniform.
    """
    number, visible = count_seen(layout, mark), layout.visible
    uniform = (number / visible)[:, None].to(values.dtype)
    beyond = (values - uniform) / (1 - uniform)
    return mean_over_queries(beyond, layout, (number > 0) & (number < visible))


def preference(values: Tensor, layout: Layout, mark: Mark) -> Tensor:
    """Average a / (a + b) over queries: the attention to a key of the kind (a) beside another key (b).

    a = m / s and b = (1 - m) / (n - s) are means over the keys. In a text of any length, the result is the
    attention to the kind if half of the keys were of it.

    Limits: 0 to 1; 0.5 for uniform attention.
    """
    number, visible = count_seen(layout, mark), layout.visible
    a = values / number[:, None]
    b = (1 - values).clamp_min(0) / (visible - number)[:, None]
    return mean_over_queries(a / (a + b), layout, (number > 0) & (number < visible))


def mark_special(layout: Layout) -> Tensor:
    """Mark boundary tokens.

    Source: Clark et al. (2019), section 3.2; Kovaleva et al. (2019), section 4.1.
    """
    return layout.keys.special


def mark_punctuation(layout: Layout) -> Tensor:
    """Mark punctuation.

    Source: Clark et al. (2019), section 3.2.
    """
    return layout.keys.punctuation


def mark_first_token(layout: Layout) -> Tensor:
    """The first token of a text that begins with no special token; undefined if it begins with one.

    Source: Xiao et al. (2024), Efficient streaming language models with attention sinks.
    """
    return sinks(layout) & ~layout.keys.special


def mark_same_text(layout: Layout) -> Tensor:
    """Tokens of the query's own text, if two texts are read together.

    A separator belongs to the text that it ends. Undefined if a query sees one text only, or an encoder's.

    Source: Kovaleva et al. (2019), block patterns.
    """
    same = layout.queries.segments[:, :, None] == layout.keys.segments[:, None]
    return same & (not layout.crossed)


def mark_columns(layout: Layout) -> Tensor:
    """Special tokens and the first token, the usual columns of high attention in a map.

    Source: Kovaleva et al. (2019), section 4.1, vertical patterns; Xiao et al. (2024) on the first token.
    """
    return sinks(layout) & _has_order(layout)


def mark_neighbours(layout: Layout) -> Tensor:
    """The token itself and its neighbours, i - 1, i and i + 1.

    From decoder to encoder, the keys at the same relative place: query i of m is at i' = (i + 1/2) n / m -
    1/2 among n keys, and a key j is at that place if |j - i'| is at most max(1, n / 10).

    Source: Kovaleva et al. (2019), section 4.1, diagonal patterns; Tachibana et al. (2018) on attention
    between two texts at the same share of their lengths.
    """
    import torch

    m, n = layout.queries.length, layout.keys.length
    i, j = (torch.arange(length, device=layout.keys.kept.device) for length in (m, n))
    if layout.crossed:  # in whole numbers, so that no key at the border is a matter of rounding
        near = (20 * m * j - 10 * ((2 * i[:, None] + 1) * n - m)).abs() <= 2 * m * max(10, n)
    else:
        near = (j - i[:, None]).abs() <= 1
    return (near & _has_order(layout)).expand(layout.keys.batch, -1, -1)


def mark_either(layout: Layout) -> Tensor:
    """Special tokens, the first token, the token itself and its neighbours, each once.

    Source: Kovaleva et al. (2019), section 4.1, vertical and diagonal patterns in one map.
    """
    return mark_columns(layout)[:, None] | layout.once(mark_neighbours)


def _has_order(layout: Layout) -> bool:
    """Tell whether keys are those of a text, one after the other."""
    return layout.placed and layout.grid is None


def effective_share(values: Tensor, layout: Layout) -> Tensor:
    """Average exp(H) / n over queries: the effective number of attended keys, as a share of the n visible.

    H / ln n would grow with n for a head that attends to a fixed share of keys. Undefined for n = 1.

    Limits: 1/n for a one-hot row, 1 for a uniform one.

    Source: the perplexity of a row, after Clark et al. (2019), section 3.2, on heads with a broad attention.
    """
    visible = layout.visible
    return mean_over_queries(values.exp() / visible[:, None].to(values.dtype), layout, visible > 1)


def rarest_excess(peaks: Tensor, layout: Layout) -> Tensor:
    """Share of queries whose most attended key is the least frequent visible one, beyond chance.

    Of n visible keys, k are of the rarest types. A query counts (hit - k/n) / (1 - k/n) for k < n.

    Limits: 0 by chance, 1 where it is always such a key.

    Source: after Voita et al. (2019), section 5.3, who give the share alone: 66 %.
    """
    rarest = layout.furthest(layout.keys.rank)
    return _hits_beyond_chance(peaks, layout, layout.keys.rank[:, None] == rarest[..., None], rarest >= 0)


def aligned_excess(peaks: Tensor, layout: Layout) -> Tensor:
    """Share of a decoder's queries whose most attended key is at the same relative place, beyond chance.

    Key j is at that place if |j - i'| is at most max(1, n / 10), with i' = (i + 1/2) n / m - 1/2 for query i
    of m and n keys. With c the share of such keys, a query counts (hit - c) / (1 - c). Undefined within one
    sequence.

    Limits: 0 by chance, 1 if it is always such a key, below 0 if less often than by chance.

    Source: after Voita et al. (2019), section 5.1, and Garg et al. (2019) on alignments.
    """
    across = layout.visible.new_tensor(layout.crossed and layout.placed).bool()
    return _hits_beyond_chance(peaks, layout, layout.once(mark_neighbours), across)


def _hits_beyond_chance(peaks: Tensor, layout: Layout, hits: Tensor, defined: Tensor) -> Tensor:
    """Average (hit - c) / (1 - c), c the share of keys in sight that are ``hits``, (batch, query, key)."""
    seen = layout.hide(hits & layout.keys.kept[:, None]).sum(-1)
    chance = (seen / layout.visible)[:, None].to(peaks.dtype)
    # (batch, query, head): whether what a head looks at is one.
    places = peaks.nan_to_num(0).long().transpose(1, 2)
    hit = hits.expand(-1, places.shape[1], -1).gather(2, places).transpose(1, 2)
    beyond = ((hit.to(peaks.dtype) - chance) / (1 - chance)).where(~peaks.isnan(), nan)
    return mean_over_queries(beyond, layout, defined & (chance[:, 0] < 1))


def _define_excess(name: str, mark: Mark, title: str, order: int, **options: Any) -> Statistic:
    return Statistic(
        f"{name}_excess", "share", partial(mass_on, mark=mark), partial(excess, mark=mark), family=FAMILY,
        title=f"attention to {title}, beyond uniform", order=order, **options,
    )  # fmt: skip


def _define_both(
    name: str, mark: Mark, title: str, order: int, each: str = ""
) -> tuple[Statistic, Statistic]:
    """Define what keys get beyond uniform attention, and what ``each`` of them gets beside another."""
    beyond = _define_excess(name, mark, title, order)
    preferred, beside = partial(preference, mark=mark), f"attention to {each or title}, beside another"
    name = f"{name}_preference"
    return beyond, replace(beyond, name=name, reduce=preferred, title=beside, order=order + 1)


SPECIAL = _define_both("special", mark_special, "special tokens", 0, "one of the special tokens")
PUNCTUATION = _define_both(
    "punctuation", mark_punctuation, "punctuation marks", 2, "one of the punctuation marks"
)
EFFECTIVE = Statistic(
    "effective_share", "share", entropy, effective_share, family=FAMILY,
    title="share of the keys that attention is as broad as", order=4,
)  # fmt: skip
RAREST = Statistic(
    "rarest_excess", "share", peak, rarest_excess, family=FAMILY,
    title="queries that look most at the rarest token, beyond chance", by_corpus=True, order=5,
)  # fmt: skip
SEGMENT = _define_excess("segment", mark_same_text, "the query's own text", 6, own_count=True)
VERTICAL = _define_excess("vertical", mark_columns, "special tokens and the first token", 10)
DIAGONAL = _define_excess("diagonal", mark_neighbours, "the token itself and its neighbours", 11)
EITHER = _define_excess("vertical_diagonal", mark_either, "either of the two", 12)
ALIGNED = Statistic(
    "aligned_excess", "share", peak, aligned_excess, family=FAMILY,
    title="queries that look most at the same relative place, beyond chance", order=13,
)  # fmt: skip
FIRST_TOKEN = _define_both("first_token", mark_first_token, "the first token", 14)
