"""From blocks of attention to attention between words, a byte a cell, and questions about gold links."""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from threading import local
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray

from attnprobe.attention.kinds import Kind
from attnprobe.corpus.batch import Batch
from attnprobe.errors import AttnprobeError
from attnprobe.kernels.probing import LAST_CODE, Ints, WordQuestions, choose_words, read_word_maps
from attnprobe.kernels.words import Rows
from attnprobe.model.reading.routing import Piece
from attnprobe.statistics.questions import Questions, questions_of
from attnprobe.statistics.rules import Ends, LinkTask
from attnprobe.sums.base import Arrays, Sum, add_prefix, select_prefix
from attnprobe.sums.link_counts import FAR


@dataclass(frozen=True)
class AskedWords:
    """The questions of a batch, with what heads and rules say to them.

    Attributes:
        asked: The questions, and attention between the words.
        document: (question,) the name of the document.
        heads: (question, ...) bits: whether each head finds a right answer, first head by head by attention
            from who is asked, then by attention to it.
        rules: (question, ...) bits: whether each rule does.
        chance: (question,) the share of its candidates that are right; 0 where the link names none.
        entry: (entry,) a question that counts for a label.
        label: (entry,) that label.
        left_out: Links that were not asked, see ``Questions.left_out``.
    """

    asked: WordQuestions
    document: Ints
    heads: NDArray[np.uint8]
    rules: NDArray[np.uint8]
    chance: NDArray[np.float64]
    entry: Ints
    label: NDArray[np.str_]
    left_out: Ints

    def __len__(self) -> int:
        return len(self.asked)

    def read_heads(self) -> NDArray[np.bool_]:
        """Read which heads find a right answer, (question, feature)."""
        return np.unpackbits(self.heads, 1, self.asked.features).astype(bool)

    def read_rules(self, rules: int) -> NDArray[np.bool_]:
        return np.unpackbits(self.rules, 1, rules).astype(bool)

    def arrays(self) -> dict[str, NDArray[Any]]:
        own = {one.name: getattr(self, one.name) for one in fields(self) if one.name != "asked"}
        return add_prefix("asked", vars(self.asked)) | own

    @classmethod
    def from_arrays(cls, arrays: Arrays) -> "AskedWords":
        own = {one.name: arrays[one.name] for one in fields(cls) if one.name != "asked"}
        return cls(WordQuestions(**select_prefix(arrays, "asked")), **own)


@dataclass(frozen=True)
class AskedCorpus(Sum):
    """The questions of all batches, which add up in their order; a byte a head and pair of words."""

    batches: tuple[AskedWords, ...]

    def arrays(self) -> dict[str, NDArray[Any]]:
        found = {"batches": np.array(len(self.batches))}
        for number, batch in enumerate(self.batches):
            found |= add_prefix(str(number), batch.arrays())
        return found

    @classmethod
    def from_arrays(cls, arrays: Arrays, **_: Any) -> Self:
        numbers = range(int(arrays["batches"]))
        return cls(tuple(AskedWords.from_arrays(select_prefix(arrays, str(one))) for one in numbers))


class WordRecorder(local):
    """Watches one batch at a time and puts attention between its words together; each thread has its own."""

    # Of a subclass of ``local``, the class is made anew for every thread.

    def __init__(self, task: LinkTask, kind: Kind, standing: NDArray[np.bool_]) -> None:
        """Record layers of one kind, with the heads that are ``standing`` (layer, head)."""
        # Who is asked is the source: a dependent has one head, and a head may have several dependents.
        self._task, self._kind = replace(task, backward=""), kind
        self._standing = [np.flatnonzero(row).tolist() for row in standing]
        present = [row or [0] for row in self._standing]  # a layer without heads computes its first
        self._columns = [
            [there.index(head) for head in row] for row, there in zip(self._standing, present, strict=True)
        ]

    def begin(self, batch: Batch) -> None:
        """Forget the last batch and expect this one."""
        self._batch, self._layer, self._place = batch, 0, 0
        self._questions: Questions | None = None
        self._maps: torch.Tensor | None = None

    def __call__(self, piece: Piece) -> None:
        """Take a block; pieces of a layer come together, layers in order."""
        if self._questions is None:
            self._prepare(piece)
        if piece.layer != self._layer:
            self._close_layer()
            self._layer = piece.layer
        if piece.layer >= len(self._standing):
            return  # counted, and refused where the batch ends
        batch = piece.probabilities.shape[0]
        some = slice(piece.sequence, piece.sequence + batch)
        found = read_word_maps(piece.probabilities, self._spans[some], piece.query)
        if self._maps is None:
            self._maps = found.new_zeros(len(self._batch), *found.shape[1:])
        self._maps[some] += found

    def finish(self) -> AskedWords:
        """Close the last layer and give what is asked of the batch."""
        if self._questions is None:
            raise AttnprobeError("no attention was read of a batch.")
        self._close_layer()
        if self._layer + 1 != len(self._standing):
            raise AttnprobeError(
                f"attention of {self._layer + 1} layers was read, and of {len(self._standing)} in the dry "
                "run; this model changes its layers with its input, which attnprobe can't tabulate."
            )
        asked, heads = self._questions, np.concatenate(self._hits, 1)
        names = np.array([label for label, *_ in asked.keys], np.str_)
        # What counts for links at a distance counts for all of its label, too.
        once = np.array([key[-1] != FAR for key in asked.keys], bool)[asked.entries[:, 1]]
        entry, key, _ = asked.entries[once].T
        documents = self._batch.members if self._batch.names is None else self._batch.names
        return AskedWords(
            WordQuestions(
                self._codes,
                self._cell,
                self._size,
                self._asker,
                self._starts,
                self._candidates,
                self._right,
            ),
            documents[self._sequence],
            np.packbits(np.concatenate([heads[..., 0], heads[..., 1]], 1), 1),
            np.packbits(asked.guesses, 1),
            asked.chance,
            entry,
            names[key] if len(key) else names[:0],
            asked.left_out,
        )

    def _prepare(self, piece: Piece) -> None:
        """Find the questions of the batch, and the words that they are about."""
        layout = self._batch.lay_out(self._kind, piece.queries, piece.probabilities.shape[3])
        # A probe reads attention both ways, so that in a decoder, too, all words may be the answer.
        asked = self._questions = questions_of(replace(layout, causal=False), self._task)
        rows, question = asked.rows, asked.row
        spans, number, places = find_words(rows, len(self._batch))
        sizes = np.array([len(some) for some in spans], np.int64)
        ends = np.concatenate([[0], np.cumsum(sizes**2)])
        self._spans = torch.zeros(len(spans), max(1, int(sizes.max(initial=0))), 2, dtype=torch.int64)
        for sequence, some in enumerate(spans):
            self._spans[sequence, : len(some)] = torch.tensor(some, dtype=torch.int64).reshape(-1, 2)
        word = torch.arange(self._spans.shape[1]) < torch.from_numpy(sizes)[:, None]
        self._cells = word[:, :, None] & word[:, None]
        asker = np.array(
            [number[at][tuple(ends)] for at, ends in zip(rows.sequence, rows.queries.tolist(), strict=True)],
            np.int64,
        )
        chosen: list[Ints] = []
        right: list[NDArray[np.bool_]] = []
        for at, (low, high) in zip(question, asked.answers, strict=True):
            among = np.arange(*rows.candidates[at])
            among = among[(among < rows.own[at, 0]) | (among >= rows.own[at, 1])]
            answers = asked.right[low:high]
            chosen.append(among)
            right.append(((among[:, None] >= answers[:, 0]) & (among[:, None] < answers[:, 1])).any(1))
        self._starts = np.concatenate([[0], np.cumsum([len(some) for some in chosen])]).astype(np.int64)
        self._candidates = places[np.concatenate([np.zeros(0, np.int64), *chosen])]
        self._right = np.concatenate([np.zeros(0, np.bool_), *right])
        self._sequence, self._asker = rows.sequence[question], asker[question]
        self._cell, self._size = ends[self._sequence], sizes[self._sequence]
        heads = sum(map(len, self._standing))
        self._codes = np.zeros((int(ends[-1]), heads), np.uint8)
        self._hits: list[NDArray[np.bool_]] = []

    def _close_layer(self) -> None:
        if self._maps is None or self._layer >= len(self._standing):
            return
        columns = self._columns[self._layer]
        maps, self._maps = self._maps.cpu()[:, columns], None
        codes = (maps.clamp(0, 1).sqrt() * LAST_CODE).round_().to(torch.uint8)
        there = slice(self._place, self._place + len(columns))
        self._codes[:, there] = codes.permute(0, 2, 3, 1)[self._cells].numpy()
        self._place += len(columns)
        given = maps.contiguous().numpy()
        self._hits.append(
            choose_words(given, self._sequence, self._asker, self._starts, self._candidates, self._right)
        )


def find_words(
    rows: Rows, sequences: int
) -> tuple[list[list[Ends]], list[dict[Ends, int]], NDArray[np.int32]]:
    """List the spans of tokens that are asked or are candidates, each once, in their order, by sequence.

    Returns:
        The spans of each sequence; their numbers there; the number of each of ``rows.spans``.
    """
    found: list[set[Ends]] = [set() for _ in range(sequences)]
    ranges = {
        (at, first, stop)
        for at, (first, stop) in zip(rows.sequence.tolist(), rows.candidates.tolist(), strict=True)
    }
    for at, (start, stop) in zip(rows.sequence.tolist(), rows.queries.tolist(), strict=True):
        found[at].add((start, stop))
    for at, first, stop in ranges:
        found[at].update((one, other) for one, other in rows.spans[first:stop].tolist())
    ordered = [sorted(some) for some in found]
    number = [{ends: place for place, ends in enumerate(some)} for some in ordered]
    places = np.zeros(len(rows.spans), np.int32)
    for at, first, stop in ranges:
        places[first:stop] = [number[at][one, other] for one, other in rows.spans[first:stop].tolist()]
    return ordered, number, places


def list_heads(standing: NDArray[np.bool_]) -> Sequence[tuple[int, int]]:
    """List the heads that are there, as layer and head, in the order of the columns of maps."""
    return [(int(layer), int(head)) for layer, head in zip(*np.nonzero(standing), strict=True)]
