"""How much a head is itself in a sentence: what tells it, and what each token adds to that."""

import inspect
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from attnprobe.attention.block import AttentionBlock
from attnprobe.attention.kinds import Kind
from attnprobe.statistics.registry import find_statistic
from attnprobe.statistics.statistic import Statistic
from attnprobe.survey.tokens import Maps

#: Most tokens of an example: what follows is not read, so that a page can hold their maps.
LONGEST = 64
#: A shorter sentence shows nothing. Special tokens count.
FEWEST = 8
#: A head is taken to do what most of its attention is for, in the sequence that is shown.
_MOSTLY, _FURTHEST = 0.5, 10
#: How roles of further offsets begin.
_OFFSET = "offset "
#: What neighbours are called.
_NEIGHBOURS = {-1: "previous", 0: "self", 1: "next"}
#: Roles whose evidence any text has, and what it is.
_MEASURES = {
    **{name: name for name in _NEIGHBOURS.values()},
    "delimiter": "special_excess",
    "rare words": "rarest_excess",
    "broad": "effective_share",
    "block": "segment_excess",
    "aligns": "aligned_excess",
    "sink": "first_token_excess",
}


def measure_sharpness_of_rows(block: AttentionBlock) -> Tensor:
    """Sharpness of each row beyond special tokens, 1 - H_q / ln K_q, averaged over the queries of a sentence.

    H_q = -sum_k p_qk ln p_qk is the entropy that tells the sharpest head of a page: p_qk = a_qk + s_q / K_q,
    where the K_q keys are those in sight that are not special, and s_q is what the query gives to special
    tokens, spread evenly over them. In a decoder, the first token counts as special. Undefined for special
    tokens, and where K_q is below 2.

    Limits: 0 for uniform attention and for a row that rests on special tokens, 1 for a row that gives all to
    one other token.

    Source: as for ``survey.sharpness.measure_sharpness``.
    """
    layout, rows = block.layout, block.probabilities
    plain = ~layout.keys.special & layout.keys.kept
    if layout.causal:
        plain = plain.clone()
        plain[:, 0] = False
    here = slice(block.offset, block.offset + rows.shape[2])
    sees = plain[:, None].expand(-1, layout.queries.length, -1)
    sees = (sees if layout.crossed else layout.hide(sees))[:, here, :][:, None]
    number = sees.sum(-1).to(rows.dtype)
    given = rows * sees
    rest = (1 - given.sum(-1)).clamp(0, 1)
    shares = (given + (rest / number.clamp_min(1))[..., None]) * sees
    entropies = -torch.special.xlogy(shares, shares).sum(-1)
    defined = (number > 1) & ~layout.queries.special[:, None, here]
    return (1 - entropies / number.clamp_min(2).log()).where(defined, torch.nan)


SHARPNESS = Statistic(
    "sharpness", "share", measure_sharpness_of_rows, title="sharpness beyond special tokens"
)


def read_at_offset(block: AttentionBlock, offset: int) -> Tensor:
    """Probability of the key at an offset, p_{i,i+offset}, averaged over the queries that have one.

    Limits: 0 to 1; about 1/n for uniform attention to n keys.

    Source: as for ``previous``.
    """
    return block.at_offset(offset)


def choose_measure(maps: Maps, layer: int, head: int, role: str | None, evidence: str | None) -> Statistic:
    """Choose what tells how much a head is itself in a sentence; the first of these that holds.

    - Of a role that plain text shows, the attention or the excess that the role is about. ``evidence`` is
      what a table of roles names as the measure: it tells delimiters that are special tokens from those that
      are punctuation.
    - Where the head gives more than half of its attention to one offset of at most 10 tokens in the sequence
      that is shown: attention to that offset.
    - Where it gives more than half to special tokens there: what lies beyond uniform attention to them. In a
      decoder whose text begins with no special token, the same of the first token.
    - Otherwise sharpness.
    """
    name = _MEASURES.get(role or "")
    if name == "special_excess" and evidence == "punctuation_excess":
        name = evidence
    if role is not None and role.startswith(_OFFSET):
        return measure_offset(int(role.removeprefix(_OFFSET)))
    if name is not None:
        return find_statistic(name)
    rows = maps.rows[layer, head].astype(np.float64)
    if maps.queries is maps.keys and maps.kind is not Kind.CROSS:
        reach = min(_FURTHEST, len(rows) // 2)  # at least half of the tokens have such a one
        shares = {one: np.diagonal(rows, one).mean() for one in range(-reach, reach + 1)}
        best = max(shares, key=lambda one: (shares[one], -abs(one)))
        if shares[best] > _MOSTLY:
            return measure_offset(best)
    special = maps.keys.special
    if rows[:, special].sum(1).mean() > _MOSTLY:
        return find_statistic("special_excess")
    if maps.kind is Kind.DECODER and not special[0] and rows[1:, 0].sum() > _MOSTLY * len(rows[1:]):
        return find_statistic("first_token_excess")
    return SHARPNESS


def shows_role(role: str) -> bool:
    """Tell whether any text shows a role: whether there is a measure of it that needs no gold links."""
    return role in _MEASURES or role.startswith(_OFFSET)


def measure_offset(offset: int) -> Statistic:
    """Give attention to the token at an offset as a statistic."""
    if offset in _NEIGHBOURS:
        return find_statistic(_NEIGHBOURS[offset])
    return Statistic(
        "attention_at_offset", "share of queries with such a token", partial(read_at_offset, offset=offset),
        title=f"attention to the token at offset {offset:+d}",
    )  # fmt: skip


def measure_tokens(measure: Statistic, rows: NDArray[np.floating], maps: Maps) -> NDArray[np.float64]:
    """Measure of each token of a sentence what its score is about, (query,).

    Of an offset, it is what the token gives to the token there; of special tokens or the first, what it
    gives to them; of sharpness, its own; of anything else, the most that it gives to one token. NaN for
    tokens that the score leaves out.
    """
    rows = rows.astype(np.float64)
    found, places = np.full(len(rows), np.nan), np.arange(len(rows))
    offset = find_offset(measure)
    if offset is not None:
        there = places[(places + offset >= 0) & (places + offset < rows.shape[1])]
        found[there] = rows[there, there + offset]
        return found
    special = maps.keys.special
    if measure.name == "special_excess":
        return rows[:, special].sum(1)
    if measure.name == "first_token_excess":
        return rows[:, 0]
    if measure is not SHARPNESS:
        return rows.max(1)
    causal = maps.kind is Kind.DECODER
    for query in places[~maps.queries.special]:
        keys = np.flatnonzero(
            ~special & (~causal | ((np.arange(len(special)) <= query) & (np.arange(len(special)) > 0)))
        )
        if len(keys) > 1:
            shares = rows[query, keys] + max(0.0, 1 - rows[query, keys].sum()) / len(keys)
            shares = shares[shares > 0]
            found[query] = 1 + (shares * np.log(shares)).sum() / np.log(len(keys))
    return found


def find_offset(measure: Statistic) -> int | None:
    """Find the offset that a statistic is about; None where it is about none."""
    if isinstance(measure.function, partial) and measure.function.func is read_at_offset:
        return measure.function.keywords["offset"]
    return next((offset for offset, name in _NEIGHBOURS.items() if name == measure.name), None)


def explain_measure(measure: Statistic) -> str:
    """Say what a score is, in the first sentences of its definition."""
    parts = [part for part in (measure.function, measure.reduce) if part is not None]
    said = [inspect.getdoc(part.func if isinstance(part, partial) else part) or "" for part in parts]
    return " ".join(" ".join(text.split("\n\n")[0].split()) for text in said)
