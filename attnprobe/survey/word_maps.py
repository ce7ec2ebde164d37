"""From blocks of attention to attention between words, a byte a cell, and questions about gold links."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from attnprobe.attention.kinds import Kind
from attnprobe.attention.layout import Layout
from attnprobe.corpus.batch import Batch
from attnprobe.model.reading.capture import Piece
from attnprobe.statistics.questions import Questions, questions_of
from attnprobe.statistics.rules import LinkTask
from attnprobe.statistics.statistic import Statistic
from attnprobe.sums.base import Arrays, Sum, add_prefix, select_prefix
from attnprobe.sums.links import FAR

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
#: The largest code of a cell, which stands for attention 1.
LAST_CODE = 255
#: Numbers that are decoded at a time, so that they stay in the cache.
CHUNK = 1 << 18


def encode(attention: Tensor) -> Tensor:
    """Code attention, 0 to 1, in a byte: round(255 sqrt(a)), which is finer the smaller it is.

    The square of the code over 255 is off by at most sqrt(a) / 255 + 4e-6, and by a third of that on average.

    >>> encode(torch.tensor([0.0, 0.05, 1.0])).tolist()
    [0, 57, 255]
    """
    return (attention.clamp(0, 1).sqrt() * LAST_CODE).round().to(torch.uint8)


@dataclass(frozen=True)
class WordQuestions(Sum):
    """Questions to words of a batch about others, the attention between these, and who answers rightly."""

    codes: NDArray[np.uint8]  # (question, candidate, feature) from who is asked, then to it; see ``encode``
    present: Bools  # (question, candidate) which candidates there are
    right: Bools  # (question, candidate) which of them are right
    document: Ints  # (question,) the name of the document
    heads: Bools  # (question, feature) whether each head finds a right answer
    rules: Bools  # (question, rule) whether each rule does
    chance: NDArray[np.float64]  # (question,) the share of right candidates; 0 where the link names none
    entry: Ints  # (entry,) a question that counts for a label
    label: NDArray[np.str_]  # (entry,) that label
    left_out: Ints  # links that were not asked, see ``Questions.left_out``

    def __len__(self) -> int:
        return len(self.right)

    def read(self, which: Ints, precision: torch.dtype) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
        """Yield attention (question, candidate, feature), 0 for no candidate, with what is present and right.

        As many questions come at a time as stay in the cache.
        """
        number = max(1, CHUNK // max(1, self.codes[:1].size))
        for part in np.split(which, range(number, len(which), number)) if len(which) else ():
            codes, present, right = (
                torch.from_numpy(of[part]) for of in (self.codes, self.present, self.right)
            )
            yield codes.to(precision).div_(LAST_CODE).square_(), present, right


@dataclass(frozen=True)
class AskedCorpus(Sum):
    """The questions of all batches, which add up in their order."""

    batches: tuple[WordQuestions, ...]

    def arrays(self) -> dict[str, NDArray[Any]]:
        arrays = {"batches": np.array(len(self.batches))}
        for number, batch in enumerate(self.batches):
            arrays |= add_prefix(str(number), batch.arrays())
        return arrays

    @classmethod
    def from_arrays(cls, arrays: Arrays, **_: Any) -> Self:
        numbers = range(int(arrays["batches"]))
        return cls(tuple(WordQuestions.from_arrays(select_prefix(arrays, str(one))) for one in numbers))


def read_word_maps(p: Tensor, spans: Tensor, query: int = 0) -> Tensor:
    """Add attention between tokens up to attention between words; results of further queries add to it.

    ``p`` (batch, head, query, key) is of some queries of each sequence, from ``query`` on; ``spans`` (batch,
    word, 2) are the first token of each word, and the one behind its last.

    Returns:
        (batch, head, word, word) from the first word to the second, in float64: the sum over the tokens of
        the second of the sum over the queries of the first that are there, divided by its number of tokens.
    """
    batch, heads, queries, _ = p.shape
    words = spans.shape[1]
    spans = spans.to(p.device)
    sums = torch.nn.functional.pad(p.double().nan_to_num(0).cumsum(-1), (1, 0))
    ends = spans.mT[:, None, None].expand(batch, heads, queries, 2, words)
    to = sums.gather(3, ends[..., 1, :]) - sums.gather(3, ends[..., 0, :])
    place = torch.arange(query, query + queries, device=p.device)
    inside = (place >= spans[..., :1]) & (place < spans[..., 1:])
    size = (spans[..., 1] - spans[..., 0]).clamp_min(1)
    return (inside.double() / size[..., None])[:, None] @ to


class WordScorer:
    """Watches one batch at a time, and puts attention between the words of its questions together."""

    def __init__(self, statistic: Statistic, computed: Sequence[Sequence[int | None]]) -> None:
        """Read the questions of a statistic, see ``ask_words``, in the heads that each layer computes."""
        self._statistic = statistic
        self._columns = [[at for at, head in enumerate(layer) if head is not None] for layer in computed]

    def begin(self, batch: Batch) -> None:
        self._batch, self._layer = batch, 0
        self._questions: Questions | None = None
        self._maps: Tensor | None = None
        self._codes: list[Tensor] = []
        self._hits: list[Tensor] = []

    def take(self, layer: int, _: Kind, layout: Layout, piece: Piece) -> None:
        """Take a block of a layer; ``layout`` is that of the whole batch."""
        if self._questions is None:
            questions = self._questions = self._statistic.function(layout)
            self._set_words(questions)
        if layer != self._layer:
            self._close_layer()
            self._layer = layer
        rows = slice(piece.sequence, piece.sequence + len(piece.probabilities))
        maps = read_word_maps(piece.probabilities, self._spans[rows], piece.query)
        if self._maps is None:
            self._maps = maps.new_zeros(len(self._batch), *maps.shape[1:])
        self._maps[rows] += maps

    def finish(self) -> AskedCorpus:
        """Close the last layer, and give the questions of the batch with attention and answers."""
        self._close_layer()
        questions = self._questions
        assert questions is not None  # as there is a layer
        names = np.array([label for label, *_ in questions.keys] or [""], np.str_)
        # What counts for links at a distance counts for all of its label, too.
        once = np.array([key[-1] != FAR for key in questions.keys], bool)[questions.entries[:, 1]]
        entry, key, _ = questions.entries[once].T
        documents = self._batch.names
        batch = WordQuestions(
            torch.cat(self._codes, 3).flatten(2).numpy(),
            self._present.numpy(),
            self._right.numpy(),
            documents[questions.rows.sequence[questions.row]],
            torch.cat(self._hits, 2).flatten(1).numpy(),
            questions.guesses,
            questions.chance,
            entry,
            names[key],
            questions.left_out,
        )
        return AskedCorpus((batch,))

    def _set_words(self, questions: Questions) -> None:
        """Set the spans of all words that questions are about, and who is asked, present and right."""
        rows, row = questions.rows, questions.row
        of_span = np.full(len(rows.spans), -1)
        for sequence, (first, stop) in zip(rows.sequence, rows.candidates, strict=True):
            of_span[first:stop] = sequence
        spans = np.concatenate([np.c_[rows.sequence, rows.queries], np.c_[of_span, rows.spans]])
        words, places = np.unique(spans, axis=0, return_inverse=True)
        # Words are numbered within each sequence; spans that are no candidates come first, and have none.
        begins = np.searchsorted(words[:, 0], np.arange(len(self._batch) + 1))
        numbers = np.arange(len(words)) - begins[words[:, 0]]
        sequence, number, ends = words[begins[0] :, 0], numbers[begins[0] :], words[begins[0] :, 1:]
        most = int(number.max(initial=0)) + 1
        self._spans = torch.zeros(len(self._batch), most, 2, dtype=torch.int64)
        self._spans[sequence, number] = torch.from_numpy(ends)
        asker, answer = np.split(numbers[places.ravel()], [len(rows)])  # a column in NumPy 2.0.0
        (first, stop), itself = rows.candidates[row].T, rows.itself[row]
        candidate = first[:, None] + np.arange((stop - first).max(initial=0))
        present = (candidate < stop[:, None]) & ((candidate < itself[:, :1]) | (candidate >= itself[:, 1:]))
        right = replace(questions, choices=candidate).guesses & present
        self._present, self._right = torch.from_numpy(present), torch.from_numpy(right)
        answers = answer[np.where(present, candidate, 0)] if len(answer) else candidate
        where = rows.sequence[row], asker[row], answers
        self._sequence, self._asker, self._answers = map(torch.from_numpy, where)

    def _close_layer(self) -> None:
        """Code the attention between words of the layer that ends, and keep which heads are right."""
        assert self._maps is not None
        maps = self._maps.cpu()[:, self._columns[self._layer]].permute(0, 2, 3, 1)
        self._maps = None
        sequence, i, j = self._sequence[:, None], self._asker[:, None], self._answers
        attention = torch.stack([maps[sequence, i, j], maps[sequence, j, i]], 2)
        attention = attention.where(self._present[..., None, None], 0)
        self._codes.append(encode(attention))
        self._hits.append(choose_words(attention, self._present, self._right))


def ask_words(task: LinkTask) -> Statistic:
    """Ask for attention between the words of links, both ways."""
    # Who is asked is the source: a dependent has one head, and a head may have several dependents.
    task = replace(task, backward="")

    def find_questions(layout: Layout) -> Questions:
        # Attention is read both ways, so that in a decoder, too, all words may be the answer.
        return questions_of(replace(layout, causal=False), task)

    return Statistic("word_maps", "share", find_questions, scope="links", sums=AskedCorpus)


def choose_words(attention: Tensor, present: Tensor, right: Tensor) -> Tensor:
    """Tell whether the most attended candidate of each head is right; the first of a tie.

    ``attention`` is (question, candidate, 2, head), from who is asked and to it. Gives (question, 2, head).
    """
    if not attention.numel():
        return right.new_zeros(len(attention), *attention.shape[2:])
    best = attention.where(present[..., None, None], -1).argmax(1)
    return right.gather(1, best.flatten(1)).view(best.shape)
