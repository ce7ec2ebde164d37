"""From blocks of attention to counts of gold links that heads answer rightly."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from attnprobe.attention.kinds import Kind
from attnprobe.attention.layout import Layout
from attnprobe.corpus.batch import Batch
from attnprobe.kernels.words import Ints, Rows, add_up_queries, choose_candidates, find_most_attended
from attnprobe.model.reading.routing import Piece
from attnprobe.statistics.questions import Questions, part_by_stratum
from attnprobe.statistics.statistic import Statistic
from attnprobe.sums.documents import find_block
from attnprobe.sums.link_counts import LinkCounts, order_keys


class Choices:
    """What every row of some questions chooses, in one layer; queries may come by in several blocks."""

    def __init__(self, rows: Rows, heads: int) -> None:
        self._rows = rows
        self._open: dict[int, Tensor] = {}  # the rows of which some queries have come by
        self.chosen: Ints = np.full((len(rows), heads), -1, np.int64)

    def take(self, probabilities: Tensor, sequence: int, query: int) -> None:
        """Take a block (batch, head, query, key) that begins with a sequence and a query."""
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
    """The questions of a batch in one kind of attention, sorted by what they count for.

    Attributes:
        questions: What is asked.
        key: (cell,) the place of a key.
        block: (cell,) the block of documents in which the key is asked.
        number: (cell,) how many questions count for both.
    """

    def __init__(self, questions: Questions, batch: Batch) -> None:
        self.questions = questions
        question, key, sequence = questions.entries.T
        # By name, so that a document is in the same block in whatever job it is read.
        block = find_block(batch.members if batch.names is None else batch.names)[sequence]
        order = np.lexsort((block, key))
        self._question, key, block = question[order], key[order], block[order]
        self._starts = np.flatnonzero(np.diff(key, prepend=-1) | np.diff(block, prepend=-1))
        self.key, self.block = key[self._starts], block[self._starts]
        self.number = np.diff(self._starts, append=len(order))

    def add_up(self, values: NDArray[Any]) -> NDArray[Any]:
        """Add up numbers of questions, (question, ...), cell by cell."""
        values = values[self._question]
        return np.add.reduceat(values, self._starts, 0) if len(self._starts) else values


def count_layers(
    layers: Sequence[tuple[QuestionIndex, Ints]],
    heads: int,
    computed: Sequence[Sequence[int | None]],
) -> LinkCounts:
    """Put the counts of all layers of a batch together.

    Args:
        layers: For each, what was asked there and what each row chose (row, head).
        heads: Heads of a layer, removed ones included.
        computed: For each layer, the heads that it computes.
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
        """Ask what a statistic asks of layers whose heads are given; see ``count_layers``."""
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
            if self._batch.strata is not None:
                questions = part_by_stratum(questions, self._batch.strata)
            self._indices[kind] = QuestionIndex(questions, self._batch)
        index = self._indices[kind]
        if layer == len(self.layers):
            self.layers.append((index, Choices(index.questions.rows, piece.probabilities.shape[1])))
        self.layers[layer][1].take(piece.probabilities, piece.sequence, piece.query)

    def finish(self) -> LinkCounts:
        layers = [(index, choices.chosen) for index, choices in self.layers]
        return count_layers(layers, self._heads, self._computed)
