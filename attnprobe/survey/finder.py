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
from attnprobe.sums.link_counts import Counts, LinkCounts, order_keys


class Choices:
    """What every row of some questions chooses, in one layer; queries may come by in several blocks."""

    def __init__(self, rows: Rows, heads: int) -> None:
        self._rows = rows
        self._open: dict[int, Tensor] = {}
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
            rows.sequence - sequence, np.stack([begins, ends], 1), rows.candidates, rows.own, rows.spans
        )
        self.chosen[whole] = find_most_attended(probabilities, here.select(whole))
        if (parts := np.flatnonzero(there & ~whole)).size:
            mass = add_up_queries(probabilities, here.select(there & ~whole))
            for place, row in enumerate(parts.tolist()):
                before = self._open.pop(row, None)
                self._open[row] = mass[place] if before is None else before + mass[place]
            self._answer(query + queries)

    def _answer(self, reached: int) -> None:
        done = [row for row in self._open if self._rows.queries[row, 1] <= reached]
        if done:
            mass = torch.stack([self._open.pop(row) for row in done])
            rows = np.zeros(len(self._rows), bool)
            rows[done] = True
            order = np.argsort(done)  # rows come in their order
            self.chosen[rows] = choose_candidates(mass[torch.from_numpy(order)], self._rows.select(rows))


class QuestionIndex:
    """The questions of a batch in one kind of attention, sorted by what they count for and by sequence."""

    def __init__(self, questions: Questions, batch: Batch) -> None:
        self.questions = questions
        # By name, so that a document is in the same block in whatever job it is read.
        block = find_block(batch.members if batch.names is None else batch.names)
        order = np.lexsort((questions.entries[:, 2], questions.entries[:, 1]))
        self._question, key, sequence = questions.entries[order].T
        # A run is what a key is asked in one sequence.
        self._starts = np.flatnonzero(np.diff(key, prepend=-1) | np.diff(sequence, prepend=-1))
        self.size = np.diff(self._starts, append=len(order))
        self.key, where = key[self._starts], sequence[self._starts]
        self.block = block[where]
        #: (run, rule) how many questions of a run each rule answers rightly.
        self.guesses = _sum_runs(questions.guesses[self._question].astype(np.int64), self._starts)
        #: (run,) how many would be answered rightly by chance.
        self.chance = _sum_runs(questions.chance[self._question], self._starts)

    def hits(self, chosen: Ints) -> Ints:
        hits = self.questions.hits(chosen)[self._question]
        return _sum_runs(hits.astype(np.int64), self._starts)


def _sum_runs(values: NDArray[Any], starts: Ints) -> NDArray[Any]:
    return np.add.reduceat(values, starts, 0) if len(starts) else values[:0]


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
    places = [np.array([place[key] for key in index.questions.keys], np.int64) for index in indices]
    for kind, index in enumerate(indices):
        counts.left_out[:] += index.questions.left_out
        key = places[kind][index.key]
        np.add.at(counts.asked[:, kind], (key, index.block), index.size)
        np.add.at(counts.chance[:, kind], (key, index.block), index.chance)
        run, rule = np.nonzero(index.guesses)
        cells = key[run], rule, index.block[run]
        np.add.at(counts.guessed[:, kind], cells, index.guesses[run, rule])
    for layer, (index, chosen) in enumerate(layers):
        columns = [column for column, head in enumerate(computed[layer]) if head is not None]
        there = [head for head in computed[layer] if head is not None]
        if there:
            _add(counts.hits, layer, places[kinds[layer]][index.key], there, index, chosen[:, columns])
    return counts


def _add(
    whole: Counts, layer: int, key: Ints, heads: Sequence[int], index: QuestionIndex, found: Ints
) -> None:
    """Add what some heads answer rightly to the counts (key, layer, head, block)."""
    _, layers, number, blocks = whole.shape
    place = ((key * layers + layer)[:, None] * number + np.array(heads)) * blocks + index.block[:, None]
    # Of one axis and one type, numpy adds at once what it otherwise adds number by number.
    np.add.at(whole.reshape(-1), place.ravel(), index.hits(found).astype(whole.dtype).ravel())


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
            heads = piece.probabilities.shape[1]
            self.layers.append((index, Choices(index.questions.rows, heads)))
        self.layers[layer][1].take(piece.probabilities, piece.sequence, piece.query)

    def finish(self) -> LinkCounts:
        layers = [(index, choices.chosen) for index, choices in self.layers]
        return count_layers(layers, self._heads, self._computed)
