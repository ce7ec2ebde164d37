"""Alignments of two directions put together: what both say, what either says, and what grows of that."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from attnprobe.attention.kinds import Kind
from attnprobe.corpus.sources.document import POSSIBLE, SEVERAL, Document, Span
from attnprobe.statistics.alignment import (
    BOTH,
    CUT,
    IN_POSSIBLE,
    IN_SURE,
    PLACE_IN_POSSIBLE,
    PLACE_IN_SURE,
    PROPOSED,
    SURE,
    WAYS,
    GoldAlignments,
    find_gold_alignments,
    find_places,
    find_rates,
)
from attnprobe.statistics.alignment_table import (
    BACKWARD,
    FORWARD,
    HEAD,
    Direction,
    Fitted,
    Row,
    fit_cells,
    make_row,
)
from attnprobe.statistics.links import FAMILY
from attnprobe.statistics.rules import INPUT, OUTPUT
from attnprobe.statistics.statistic import Statistic
from attnprobe.sums.choices import ANSWERS, ASKERS, HEADING, NUMBER, Choices
from attnprobe.sums.crossfit import assign_folds
from attnprobe.sums.documents import find_block
from attnprobe.sums.folds import RatioByBlock
from attnprobe.sums.groups import Ratio
from attnprobe.table.builder import Labels, TableBuilder

if TYPE_CHECKING:
    from torch import Tensor

    from attnprobe.attention.block import AttentionBlock


#: A word of the first text, and one of the second that is aligned with it.
Pairs = set[tuple[int, int]]
#: Where neighbours of a link lie: beside it first, then across.
_NEIGHBOURS = ((-1, 0), (0, -1), (1, 0), (0, 1), (-1, -1), (-1, 1), (1, -1), (1, 1))
#: Texts of more words are left out.
LONGEST = 256
INTERSECTION, UNION, GROW_DIAG = "intersection", "union", "grow-diag"
REVERSE_HEAD = "reverse head"


def grow_diag(forward: Pairs, reverse: Pairs) -> Pairs:
    """Grow the links that both directions have by neighbours, which one of them has, of words without a link.

    Words of the second text are walked in their order, and for each those of the first; a link that is added
    can grow in its turn, until nothing is added any more.

    References:
        Koehn, Och and Marcu (2003), Statistical phrase-based translation, section 3.1.

    >>> sorted(grow_diag({(0, 0), (1, 1), (5, 3)}, {(0, 0), (2, 2), (1, 1)}))
    [(0, 0), (1, 1), (2, 2)]
    """
    found, either = forward & reverse, forward | reverse
    while True:
        before = len(found)
        for second, first in product(
            range(1 + max((b for _, b in either), default=-1)),
            range(1 + max((a for a, _ in either), default=-1)),
        ):
            if (first, second) not in found:
                continue
            for down, right in _NEIGHBOURS:
                near = first + right, second + down
                free = all(a != near[0] for a, _ in found) or all(b != near[1] for _, b in found)
                if near in either and near not in found and free:
                    found = found | {near}
        if len(found) == before:
            return found


def list_choices(block: AttentionBlock) -> Tensor:
    """List which word of the other text each word attends to most.

    Returns:
        (batch, head, way, heading and word) the heading as in ``sums.choices``; NaN where nothing is asked.
    """
    import torch

    from attnprobe.kernels.words import find_most_attended

    p = block.probabilities
    gold: GoldAlignments = block.layout.once(find_gold_alignments)
    chosen = find_most_attended(p, gold.rows)
    batch, heads = p.shape[:2]
    found = np.full((batch, heads, WAYS, HEADING + LONGEST), np.nan)
    numbers = [None if said is None else said.number for said in block.layout.annotations]
    rows = gold.rows
    key = rows.sequence * WAYS + gold.way
    starts = np.flatnonzero(np.diff(key, prepend=-1))
    stops = np.append(starts, len(key))[1:]
    for start, stop in zip(starts.tolist(), stops.tolist(), strict=True):
        sequence, way = rows.sequence[start], gold.way[start]
        if stop - start > LONGEST:
            continue
        first, behind = rows.candidates[start]
        here = found[sequence, :, way]
        here[:, NUMBER] = np.nan if numbers[sequence] is None else numbers[sequence]
        here[:, ASKERS], here[:, ANSWERS] = stop - start, behind - first
        here[:, HEADING : HEADING + stop - start] = (chosen[start:stop] - first).T
    return torch.from_numpy(found).to(p.device, torch.float32)


def ask_choices() -> Statistic:
    """Give the statistic that keeps what every word chooses, which no command measures alone."""
    return Statistic(
        "alignment_choices", "share", list_choices, scope="map", sums=Choices, columns=_add_nothing,
        family=FAMILY,
    )  # fmt: skip


def _add_nothing(_: Statistic, found: Choices, build: TableBuilder) -> None:
    """Append no column: choices are put together before they are tabulated."""


@dataclass(frozen=True)
class GoldPair:
    """A pair of texts: how many words either has, and which are aligned for sure, or at least perhaps."""

    words: tuple[int, int]
    sure: frozenset[tuple[int, int]]
    possible: frozenset[tuple[int, int]]

    @classmethod
    def of(cls, document: Document) -> GoldPair:
        """Read the words and links between the text and the target of a document."""
        said = document.annotation
        assert said is not None
        sides = [
            sorted((word for word in said.words if word.where == where), key=lambda word: word.start)
            for where in ("text", "target")
        ]
        sure, possible = set[tuple[int, int]](), set[tuple[int, int]]()
        for link in said.links:
            for other in (link.target, *link.also):
                ends = {span.where: span for span in (link.source, other)}
                if ends.keys() != {"text", "target"}:
                    continue
                found = set(product(_within(ends["text"], sides[0]), _within(ends["target"], sides[1])))
                possible |= found
                sure |= found if POSSIBLE not in link.label.split(SEVERAL) else set()
        return cls((len(sides[0]), len(sides[1])), frozenset(sure), frozenset(possible))

    def count(self, links: Pairs, *, turned: bool = False) -> NDArray[np.float64]:
        """Count what is right of some links, and of those at the same relative place."""
        place = (
            _link_places(*self.words) if not turned else {(a, b) for b, a in _link_places(*self.words[::-1])}
        )
        found = np.zeros(CUT + 1)
        found[[BOTH, PROPOSED, SURE]] = len(links) + len(self.sure), len(links), len(self.sure)
        found[[IN_SURE, IN_POSSIBLE]] = len(links & self.sure), len(links & self.possible)
        found[[PLACE_IN_SURE, PLACE_IN_POSSIBLE]] = len(place & self.sure), len(place & self.possible)
        return found


def _link_places(first: int, second: int) -> Pairs:
    return {(a, b) for b, a in enumerate(find_places(second, first).tolist())}


def _within(span: Span, words: Sequence[Span]) -> list[int]:
    """Find the words of a span, as ``Words.within`` does."""
    touched = [at for at, word in enumerate(words) if word.start < span.stop and word.stop > span.start]
    inside = [at for at in touched if words[at].start >= span.start and words[at].stop <= span.stop]
    return inside or touched


def turn_documents(documents: Iterable[Document]) -> Iterator[Document]:
    """Give pairs of text and target the other way round, as a model of the other direction reads them."""

    def turn(span: Span) -> Span:
        return replace(span, where={"text": "target", "target": "text"}.get(span.where, span.where))

    for document in documents:
        said = document.annotation
        assert said is not None
        assert isinstance(document.label, str)
        links = tuple(
            replace(
                link,
                source=turn(link.source), target=turn(link.target), also=tuple(map(turn, link.also)),
                candidates=tuple(map(turn, link.candidates)), guesses=(),
            )
            for link in said.links
        )  # fmt: skip
        turned = replace(said, words=tuple(map(turn, said.words)), links=links)
        yield replace(document, text=document.label, label=document.text, annotation=turned)


@dataclass(frozen=True)
class _Side:
    """One of the two models: what its cross-attention chooses of the pairs that both have."""

    choices: Choices
    rows: NDArray[np.int64]  # of the pairs, in their order
    labels: Labels

    @property
    def direction(self) -> Direction:
        kinds = [place.kind for place in self.labels.places]
        layers = [layer for layer, kind in enumerate(kinds) if kind is Kind.CROSS]
        return Direction(Kind.CROSS, layers, BACKWARD, (0, 1), (OUTPUT, INPUT))

    def links(self, at: int, cell: tuple[int, ...], *, turned: bool) -> Pairs:
        """Give the links of a pair, as (word of the first text, word of the second)."""
        row = self.rows[at]
        asked = int(self.choices.sizes[(row, 0, *cell)])
        chosen = self.choices.chosen[(row, *cell)][: max(asked, 0)].tolist()
        return {(asker, answer) if turned else (answer, asker) for asker, answer in enumerate(chosen)}

    def reads(self, row: int, askers: int, answers: int) -> bool:
        """Tell whether all words of a pair have tokens of their own here."""
        sizes = self.choices.sizes[row][:, self.direction.layers].reshape(2, -1)
        return bool((sizes == np.array([[askers], [answers]])).any(1).all())


def symmetrise(
    gold: Mapping[int, GoldPair], found: tuple[Choices, Choices], labels: tuple[Labels, Labels], folds: int
) -> tuple[list[Row], int]:
    """Choose a head of either model, and score both and what becomes of them together.

    Heads are chosen for each fold of the documents, those of the first model, on the others. What becomes of
    them together is scored on the same fold, so that all pairs count; its errors are those of a ratio over
    documents, and take the heads for given.

    Args:
        gold: The pairs by their numbers, as the first model reads them.
        found: What the words of both models' targets choose.
        labels: What both models are called.
        folds: How many folds there are.

    Returns:
        The rows of a table, and how many pairs were left out, as not all words are there in both.
    """
    places = [{int(number): row for row, number in enumerate(one.numbers)} for one in found]
    sides = [_Side(one, np.zeros(0, np.int64), named) for one, named in zip(found, labels, strict=True)]
    kept = [
        number
        for number, pair in gold.items()
        if all(number in place for place in places)
        and sides[0].reads(places[0][number], pair.words[1], pair.words[0])
        and sides[1].reads(places[1][number], *pair.words)
    ]
    sides = [
        _Side(side.choices, np.array([place[number] for number in kept], np.int64), side.labels)
        for side, place in zip(sides, places, strict=True)
    ]
    names, clusters = found[0].names[sides[0].rows], found[0].clusters[sides[0].rows]
    rows: list[Row] = []
    chosen: list[Fitted] = []
    for side, turned in zip(sides, (False, True), strict=True):
        counts = _count_cells(side, [gold[number] for number in kept], turned=turned)
        gone = np.zeros(counts.shape[1:3], bool)
        for place in side.labels.absent:
            gone[place] = True
        fitted = fit_cells(RatioByBlock.of(counts, clusters, names), side.direction, gone, folds)
        name = REVERSE_HEAD if turned else HEAD
        direction = replace(side.direction, name=FORWARD) if turned else side.direction
        row = make_row(name, direction, fitted, len(kept), len(sides), side.labels)
        rows.append(replace(row, model=side.labels.model))
        chosen += [] if fitted is None else [fitted]
    if len(chosen) < len(sides):  # nothing could be chosen
        return rows, len(gold) - len(kept)
    together: dict[str, list[NDArray[np.float64]]] = {INTERSECTION: [], UNION: [], GROW_DIAG: []}
    fold_of = assign_folds(folds)[find_block(names)].tolist()
    for at, (number, fold) in enumerate(zip(kept, fold_of, strict=True)):
        forward, reverse = (
            side.links(at, fitted.cells[int(fitted.found.chosen[fold])], turned=turned)
            for side, fitted, turned in zip(sides, chosen, (False, True), strict=True)
        )
        both, either = forward & reverse, forward | reverse
        grown = grow_diag(forward, reverse)
        for name, links in ((INTERSECTION, both), (UNION, either), (GROW_DIAG, grown)):
            together[name].append(gold[number].count(links))
    for name, counts in together.items():
        rates, _ = find_rates([Ratio.of(np.stack(counts), clusters)])
        models = " + ".join(one.model for one in labels)
        rows.append(Row(name, "both", Kind.CROSS, len(kept), rates=rates[0], model=models))
    return rows, len(gold) - len(kept)


def _count_cells(side: _Side, gold: Sequence[GoldPair], *, turned: bool) -> NDArray[np.float64]:
    """Count for every cell what is right, (pair, layer, head, way, number)."""
    shape = side.choices.chosen.shape[1:-1]
    counts = np.full((len(gold), *shape, CUT + 1), np.nan)
    for at, pair in enumerate(gold):
        for cell in np.ndindex(shape):
            if side.choices.sizes[(side.rows[at], 0, *cell)] > 0:
                counts[(at, *cell)] = pair.count(side.links(at, cell, turned=turned), turned=turned)
    return counts
