"""Word alignment: how far the most attended words of a head are those that people aligned."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from attnprobe.attention.annotation import TokenAnnotation
from attnprobe.corpus.sources.document import POSSIBLE, SEVERAL
from attnprobe.statistics.links import FAMILY, UNIT
from attnprobe.statistics.rules import NONE, SAME_PLACE, Ends, Words
from attnprobe.statistics.statistic import Statistic
from attnprobe.sums.blocked import Blocked
from attnprobe.table.builder import TableBuilder, measure_columns
from attnprobe.table.table import Column

if TYPE_CHECKING:
    from torch import Tensor

    from attnprobe.attention.block import AttentionBlock
    from attnprobe.attention.layout import Layout
    from attnprobe.kernels.words import Ints, Rows


Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

#: What is counted of a pair of texts. ``BOTH`` is |A| + |S|, which the error rate divides by; of ``SURE`` and
#: ``PROPOSED`` it is the sum. ``IN_SURE`` and ``IN_POSSIBLE`` are |A & S| and |A & P|, ``PLACE_...`` the same
#: of the words at the same relative place. ``CUT`` counts pairs that are left out, as a part of one is there.
BOTH, PROPOSED, SURE, IN_SURE, IN_POSSIBLE, PLACE_IN_SURE, PLACE_IN_POSSIBLE, CUT = range(8)
_NUMBERS = 8
#: The two ways in which a pair of texts is asked. In cross-attention, words of the target ask: where the
#: decoder predicts them, and where it reads them. Within one sequence, words of the second text ask those of
#: the first; and words of the first those of the second.
WAYS = 2


#: The rates of an alignment: which numbers are right, and of how many. The error rate is 1 less such a share.
RATES = (
    ("aer", (IN_SURE, IN_POSSIBLE), BOTH),
    ("precision", (IN_POSSIBLE,), PROPOSED),
    ("recall", (IN_SURE,), SURE),
)
#: What the words at the same relative place have right of ``BOTH``.
AT_PLACE = (PLACE_IN_SURE, PLACE_IN_POSSIBLE)


def find_places(askers: int, answers: int) -> Ints:
    """Give for each word that asks the word at the same share of the length of the other text.

    >>> find_places(2, 4).tolist()
    [1, 3]
    """
    return ((np.arange(askers) + 0.5) / askers * answers).astype(np.int64)


@dataclass(frozen=True)
class GoldAlignments:
    """The gold alignments of a batch, as questions to a map.

    Attributes:
        rows: For each word that asks, the words of the other text as its candidates.
        way: (row,) which of the ways it is asked in.
        base: (row,) where its candidates begin in the next two.
        sure: (row and candidate,) whether people aligned the two for sure.
        possible: The same, or only perhaps.
        counts: (sequence, way, number) what is counted, but what a head finds; NaN where nothing is asked.
    """

    rows: Rows
    way: Ints
    base: Ints
    sure: Bools
    possible: Bools
    counts: NDArray[np.float64]


@dataclass(frozen=True)
class _Side:
    """Words that ask words of another text, and which of them are aligned, (asker, answer)."""

    way: int
    before: int  # so many places before it stands a word is asked
    asking: list[Ends]
    answering: list[Ends]
    sure: Bools
    possible: Bools


def find_gold_alignments(layout: Layout) -> GoldAlignments:
    """Find the words of both texts and the gold links between them, pair by pair."""
    from attnprobe.kernels.words import Rows

    counts = np.full((layout.queries.batch, WAYS, _NUMBERS), np.nan)
    rows, spans, ways, base = list[tuple[int, ...]](), list[Ends](), list[int](), list[int]()
    sure, possible = list[Bools](), list[Bools]()
    cells = 0
    for sequence, annotation in enumerate(layout.annotations):
        for side in () if annotation is None else _find_sides(layout, annotation):
            if annotation is not None and annotation.cut:
                counts[sequence, side.way, CUT] = 1
                continue
            askers, answers = side.sure.shape
            at_place = np.arange(askers), find_places(askers, answers)
            numbers = {
                BOTH: askers + side.sure.sum(),
                PROPOSED: askers,
                SURE: side.sure.sum(),
                PLACE_IN_SURE: side.sure[at_place].sum(),
                PLACE_IN_POSSIBLE: side.possible[at_place].sum(),
            }
            counts[sequence, side.way] = [numbers.get(number, 0) for number in range(_NUMBERS)]
            there = (len(spans), len(spans) + answers, 0, 0)
            rows += [(sequence, a - side.before, b - side.before, *there) for a, b in side.asking]
            spans += side.answering
            ways += [side.way] * askers
            base += range(cells, cells + askers * answers, answers)
            cells += askers * answers
            sure.append(side.sure.ravel())
            possible.append(side.possible.ravel())
    flat = np.array(rows, np.int64).reshape(-1, 7)
    return GoldAlignments(
        Rows(flat[:, 0], flat[:, 1:3], flat[:, 3:5], flat[:, 5:7], np.array(spans, np.int64).reshape(-1, 2)),
        np.array(ways, np.int64),
        np.array(base, np.int64),
        np.concatenate([*sure, np.zeros(0, bool)]),
        np.concatenate([*possible, np.zeros(0, bool)]),
        counts,
    )


def _find_sides(layout: Layout, annotation: TokenAnnotation) -> Iterator[_Side]:
    """Find who asks whom in a sequence: nobody where it holds one text alone."""
    ends = [(link, other) for link in annotation.links for other in (link.target, *link.also)]
    pairs = list[tuple[Ends, Ends, str]]()
    if layout.crossed:
        if annotation.same or not annotation.keys or not annotation.words:  # the decoder reads the same
            return
        asking, answering = Words(annotation.words), Words(annotation.keys)
        for link, other in ends:
            asker, answer = (other, link.source) if link.asks == "backward" else (link.source, other)
            pairs.append((asking.within(asker), answering.within(answer), link.label))
        gold = _mark_gold(pairs, len(asking.ends), len(answering.ends))
        for way, before in enumerate((1, 0)):
            yield _Side(way, before, asking.ends, answering.ends, *gold)
        return
    words = Words(annotation.words, annotation.second)
    first, second = words.ends[: words.second], words.ends[words.second :]
    if not (first and second):
        return
    for link, other in ends:
        low, high = sorted((words.within(link.source), words.within(other)))
        if low != NONE and low[0] < words.second <= high[0]:
            pairs.append(((high[0] - words.second, high[1] - words.second), low, link.label))
    sure, possible = _mark_gold(pairs, len(second), len(first))
    yield _Side(0, 0, second, first, sure, possible)
    if not layout.causal:
        yield _Side(1, 0, first, second, sure.T, possible.T)


def _mark_gold(pairs: list[tuple[Ends, Ends, str]], askers: int, answers: int) -> tuple[Bools, Bools]:
    """Mark the words that are aligned for sure, and those that are; a span stands for each of its words."""
    sure, possible = np.zeros((2, askers, answers), bool)
    for asker, answer, label in pairs:
        cells = slice(*asker), slice(*answer)
        possible[cells] = True
        sure[cells] |= POSSIBLE not in label.split(SEVERAL)
    return sure, possible


def align_by_head(block: AttentionBlock) -> Tensor:
    """Alignment error rate of each head.

    A holds one link for each word of the text that asks: to the word of the other text that the head attends
    to most. Attention to a word is the sum over its tokens, attention from a word the mean over its tokens,
    and special tokens are no words. With the sure links S and the possible links P, which hold S,

        AER = 1 - (|A & S| + |A & P|) / (|A| + |S|)

    over all pairs of texts together; precision is |A & P| / |A|, recall |A & S| / |S|. A pair without a link
    counts, and one that was cut does not. Words that share all their tokens are one.

    A decoder beside an encoder is asked where it predicts a word and where it reads it, one place later.
    Two texts that are read as one are asked from the second to the first, and, but in a decoder, from the
    first to the second.

    Limits: 0 to 1; a head can't reach 0 where a word that asks has no link, or several sure ones.

    Source: Och and Ney (2003), A systematic comparison of various statistical alignment models, for the error
    rate; Kobayashi et al. (2020), section 5, for heads.

    Returns:
        (batch, head, way, number) what is counted of each pair; NaN where nothing is asked, and for a head
        that gives nothing.
    """
    return _count(block, block.probabilities)


def choose_links(p: Tensor, gold: GoldAlignments) -> Ints:
    """Choose by attention (batch, head, query, key): (row, head) places in ``gold.sure``; -1 for none."""
    from attnprobe.kernels.words import find_most_attended

    chosen = find_most_attended(p, gold.rows)
    return np.where(chosen < 0, -1, gold.base[:, None] + chosen - gold.rows.candidates[:, :1])


def _count(block: AttentionBlock, p: Tensor) -> Tensor:
    import torch

    gold: GoldAlignments = block.layout.once(find_gold_alignments)
    heads, rows = p.shape[1], gold.rows
    counts = np.repeat(gold.counts[:, None], heads, 1)
    chosen = choose_links(p, gold)
    for number, aligned in ((IN_SURE, gold.sure), (IN_POSSIBLE, gold.possible)):
        hits = np.zeros((len(counts), WAYS, heads))
        np.add.at(hits, (rows.sequence, gold.way), aligned[np.maximum(chosen, 0)] & (chosen >= 0))
        counts[..., number] += hits.transpose(0, 2, 1)
    counts[p[..., 0].isnan().any(-1).cpu().numpy()] = np.nan
    # Counts, which half precision would round.
    return torch.from_numpy(counts).to(p.device, torch.promote_types(p.dtype, torch.float32))


def compute_rates(counts: Blocked) -> dict[str, Floats]:
    """Compute the columns of ``list_rate_columns``, cell by cell."""
    rates = dict[str, Floats]()
    for name, right, of in (*RATES, ("baseline", AT_PLACE, BOTH)):
        share = counts.ratio([float(number in right) for number in range(_NUMBERS)], of)
        rates[name] = share.value if name in {"precision", "recall"} else 1 - share.value
        rates[f"{name}_se"] = share.error
    return rates


def rate_columns(_: Statistic, counts: Blocked, build: TableBuilder) -> None:
    """Append what ``compute_rates`` gives."""
    rates = compute_rates(counts)
    for column in list_rate_columns():
        build.add(column, rates[column.name].ravel())


def list_rate_columns() -> list[Column]:
    """Describe the columns of ``RATES``, and of the error rate at the same relative place."""
    return [
        *measure_columns("aer", AER.unit, AER.title, headline=True),
        *measure_columns("precision", UNIT, "precision"),
        *measure_columns("recall", UNIT, "recall"),
        Column("baseline", AER.unit, title=f"error rate of the {SAME_PLACE}"),
    ]


AER = Statistic(
    "aer", "error rate", align_by_head, scope="map", sums=Blocked, columns=rate_columns, family=FAMILY,
    title="alignment error rate", headline=True, order=4,
)  # fmt: skip
