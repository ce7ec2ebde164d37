"""From blocks of attention to counts of gold links that heads answer rightly."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from attnprobe.attention.block import AttentionBlock
from attnprobe.attention.kinds import Kind
from attnprobe.attention.layout import Layout
from attnprobe.corpus.batch import Batch
from attnprobe.kernels.words import Ints, Rows, add_up_queries, choose_candidates, find_most_attended
from attnprobe.model.reading.capture import Piece
from attnprobe.statistics.alignment import (
    BACKWARD,
    FORWARD,
    RATES,
    SURE,
    WORDS,
    ask_alignment,
    compute_rates,
)
from attnprobe.statistics.questions import Questions, part_by_group
from attnprobe.statistics.rules import INPUT, OUTPUT
from attnprobe.statistics.statistic import Statistic
from attnprobe.sums.documents import find_block
from attnprobe.sums.links import Key, LinkCounts, Links, order_keys
from attnprobe.table.sequence import Alignment, AlignmentDirection, Maps


class Choices:
    """The choices of each row of some questions in one layer, whose queries may come in several blocks."""

    def __init__(self, rows: Rows, heads: int) -> None:
        self._rows = rows
        self._open: dict[int, Tensor] = {}  # the rows of which some queries have come by
        self.chosen: Ints = np.full((len(rows), heads), -1, np.int64)

    def take(self, probabilities: Tensor, sequence: int, query: int) -> None:
        """Choose for the rows that end in a block (batch, head, query, key) from a sequence and query on."""
        rows, (batch, _, queries, _) = self._rows, probabilities.shape
        there = (rows.sequence >= sequence) & (rows.sequence < sequence + batch)
        begins = np.maximum(rows.queries[:, 0], query) - query
        ends = np.minimum(rows.queries[:, 1], query + queries) - query
        there &= begins < ends
        whole = there & (ends - begins == rows.queries[:, 1] - rows.queries[:, 0])
        here = Rows(
            rows.sequence - sequence, np.stack([begins, ends], 1), rows.candidates, rows.itself, rows.spans
        )
        self.chosen[whole] = find_most_attended(probabilities, here.select(whole))
        if not (parts := there & ~whole).any():
            return
        every = add_up_queries(probabilities, here.select(parts))
        for row, mass in zip(np.flatnonzero(parts).tolist(), every, strict=True):
            self._open[row] = self._open[row] + mass if row in self._open else mass
        if done := sorted(row for row in self._open if rows.queries[row, 1] <= query + queries):
            mass = torch.stack([self._open.pop(row) for row in done])
            self.chosen[done] = choose_candidates(mass, rows.select(np.isin(np.arange(len(rows)), done)))


class QuestionIndex:
    """The questions of a batch in one kind of attention, sorted by what they count for: a key in a block."""

    def __init__(self, questions: Questions, batch: Batch) -> None:
        self.questions = questions
        question, key, sequence = questions.entries.T
        # By name, so that a document is in the same block in whatever job it is read.
        block = find_block(batch.names)[sequence]
        order = np.lexsort((block, key))
        self._question, key, block = question[order], key[order], block[order]
        self._starts = np.flatnonzero(np.diff(key, prepend=-1) | np.diff(block, prepend=-1))
        self.key, self.block = key[self._starts], block[self._starts]  # of each cell
        self.number = np.diff(self._starts, append=len(order))  # of questions that count for it

    def add_up(self, values: NDArray[Any]) -> NDArray[Any]:
        """Add up values of questions, (question, ...), cell by cell."""
        values = values[self._question]
        return np.add.reduceat(values, self._starts, 0) if len(self._starts) else values


def count_layers(
    layers: Sequence[tuple[QuestionIndex, Ints]],
    heads: int,
    computed: Sequence[Sequence[int | None]],
) -> LinkCounts:
    """Count each head's right answers in a batch, from the questions and choices (row, head) of each layer.

    ``heads`` is the number of heads of a layer, removed ones included; ``computed`` lists those it computes.
    """
    indices = list(dict.fromkeys(index for index, _ in layers))
    keys = order_keys(key for index in indices for key in index.questions.keys)
    place = {key: at for at, key in enumerate(keys)}
    kinds = [indices.index(index) for index, _ in layers]
    counts = LinkCounts.empty(keys, kinds, heads, len(indices[0].questions.rules))
    places = []
    for kind, index in enumerate(indices):
        questions = index.questions
        places.append(np.array([place[key] for key in questions.keys], np.int64)[index.key])
        cells = places[kind], kind, index.block
        counts.left_out[:] += questions.left_out
        counts.number[cells] = index.number
        counts.chance[cells] = index.add_up(questions.chance)
        counts.guessed[places[kind], kind, :, index.block] = index.add_up(questions.guesses.astype(np.int64))
    for layer, (index, chosen) in enumerate(layers):
        hits = index.add_up(index.questions.hits(chosen).astype(np.int64))
        for column, head in enumerate(computed[layer]):
            if head is not None:
                counts.hits[places[kinds[layer]], layer, head, index.block] = hits[:, column]
    return counts


class LinkScorer:
    """Watches one batch at a time, and counts what heads find of its gold links."""

    def __init__(self, statistic: Statistic, heads: int, computed: Sequence[Sequence[int | None]]) -> None:
        """Score the questions of a statistic in layers whose heads are given; see ``count_layers``."""
        self._statistic, self._heads, self._computed = statistic, heads, computed

    def begin(self, batch: Batch) -> None:
        self._batch = batch
        self._indices: dict[Kind, QuestionIndex] = {}
        self.layers: list[tuple[QuestionIndex, Choices]] = []

    def take(self, layer: int, kind: Kind, layout: Layout, piece: Piece) -> None:
        """Take a block of a layer; ``layout`` is that of the whole batch."""
        if kind not in self._indices:
            ask: Any = self._statistic.function
            questions: Questions = ask(layout)
            if self._batch.groups is not None:
                questions = part_by_group(questions, self._batch.groups)
            self._indices[kind] = QuestionIndex(questions, self._batch)
        index = self._indices[kind]
        if layer == len(self.layers):
            self.layers.append((index, Choices(index.questions.rows, piece.probabilities.shape[1])))
        self.layers[layer][1].take(piece.probabilities, piece.sequence, piece.query)

    def finish(self) -> LinkCounts:
        layers = [(index, choices.chosen) for index, choices in self.layers]
        return count_layers(layers, self._heads, self._computed)


# The gold alignment of one pair of texts: how far the heads of a map find it

#: Names of the ways in which a pair of texts is asked: across, the target asks the text.
_NAMES = {
    (BACKWARD, OUTPUT): "where the decoder predicts a word",
    (BACKWARD, INPUT): "where the decoder reads a word",
    (BACKWARD,): "from the second text to the first",
    (FORWARD,): "from the first text to the second",
}


def align_maps(maps: Maps, layout: Layout) -> Maps:
    """Return maps of one sequence with their gold alignment; as they are if they hold no two whole texts."""
    gold = ask_alignment(layout)
    ways = [key[1:] for key in gold.keys if key[0] == WORDS]
    if not ways:
        return maps
    blocks = [AttentionBlock(torch.from_numpy(rows)[None], layout).restricted() for rows in maps.rows]
    chosen = np.stack([find_most_attended(block.probabilities, gold.rows) for block in blocks])
    right = np.stack([gold.hits(layer) for layer in chosen])  # (layer, question, head)
    every = tuple(_rate_direction(gold, way, right, maps.kept) for way in ways)
    # In cross-attention both ways ask of the same words; a map shows them where they are read.
    shown = ways[-1:] if layout.crossed else ways
    sure = {cell for way in shown for cell in _list_cells(gold, (SURE, *way))}
    cells = [cell for way in shown for cell in _list_cells(gold, (WORDS, *way))]
    asking, answers = np.array(cells, np.int64).reshape(-1, 2).T
    queries, spans = (
        [(start, stop) for start, stop in ends.tolist()] for ends in (gold.rows.queries, gold.rows.spans)
    )
    links = tuple((queries[row], spans[answer], (row, answer) in sure) for row, answer in cells)
    hits = (chosen[:, asking] == answers[:, None]).transpose(0, 2, 1) & maps.kept[..., None]
    return replace(maps, alignment=Alignment(links, every, hits))


def _find_questions(gold: Questions, key: Key) -> NDArray[np.int64]:
    place = gold.keys.index(key) if key in gold.keys else -1
    return gold.entries[gold.entries[:, 1] == place, 0]


def _list_cells(gold: Questions, key: Key) -> list[tuple[int, int]]:
    """List the rows and the right candidates of some questions."""
    return [
        (int(gold.row[question]), first)
        for question in _find_questions(gold, key)
        for first, stop in gold.right[slice(*gold.answers[question])].tolist()
        if first < stop
    ]


def _rate_direction(
    gold: Questions, way: Key, right: NDArray[np.bool_], kept: NDArray[np.bool_]
) -> AlignmentDirection:
    """Compute the rates of all heads in one direction, as tables have them."""
    words, sure = (_find_questions(gold, (label, *way)) for label in (WORDS, SURE))
    links = [Links(np.array([len(of)]), right[:, of].sum(1)[..., None]) for of in (words, sure)]
    computed = compute_rates(*links)
    rates = np.stack([computed[name] for name in RATES], -1)
    hits, number = links[1].hits[..., 0].astype(np.float64), np.full(kept.shape, float(len(sure)))
    hits[~kept] = number[~kept] = rates[~kept] = np.nan
    return AlignmentDirection(_NAMES[way], hits, number, rates)


def find_best_head(maps: Maps) -> tuple[int, int]:
    """Find the head of the least error rate in any direction: the place of its layer, and its number."""
    assert maps.alignment is not None
    rates = np.stack([way.rates[..., 0] for way in maps.alignment.directions])
    least = np.where(np.isnan(rates), np.inf, rates).min(0)
    return divmod(int(least.argmin()), least.shape[1])
