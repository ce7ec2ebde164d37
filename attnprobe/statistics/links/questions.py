"""From the annotations of a batch to flat arrays: who is asked, and what would be right."""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from attnprobe.attention.annotation import TokenAnnotation, TokenLink, TokenSpan
from attnprobe.attention.layout import Layout
from attnprobe.kernels.words import Ints, Rows
from attnprobe.statistics.links.asking import FURTHEST, Asking, labels_of

#: A label and the name of a direction.
Key = tuple[str, str]
_Ends = tuple[int, int]
#: Nothing, as a range.
_NONE = (0, 0)


@dataclass(frozen=True)
class Questions:
    """What is asked of every head about the links of a batch, in one kind of attention.

    Attributes:
        rows: Who is asked; several questions may share a row.
        row: (question,) its row.
        right: (answer, 2) candidates that are right, as first and the one behind the last.
        answers: (question, 2) where its right answers are among ``right``.
        rules: What heads are compared with.
        keys: What questions count for.
        entries: (entry, 3) a question, the key that it counts for, and the sequence it lies in.
        guessed: (guess, 2) a question, and a rule that answers it rightly.
        left_out: Questions that were not asked: because both ends of the link are the same tokens, because a
            decoder sees no right answer from there, because every candidate that it sees is right.
    """

    rows: Rows
    row: Ints
    right: Ints
    answers: Ints
    rules: tuple[str, ...]
    keys: tuple[Key, ...]
    entries: Ints
    guessed: Ints
    left_out: Ints

    def hits(self, chosen: Ints) -> NDArray[np.bool_]:
        """Tell which questions are answered rightly, (question, head), by what each row chose (row, head)."""
        if not len(self.row):
            return np.zeros((0, chosen.shape[1]), bool)
        times = self.answers[:, 1] - self.answers[:, 0]
        answer = np.repeat(chosen[self.row], times, 0)
        inside = (answer >= self.right[:, :1]) & (answer < self.right[:, 1:])
        return np.logical_or.reduceat(inside, self.answers[:, 0], 0)


def questions_of(layout: Layout, asking: Asking) -> Questions:
    """Share of gold links whose other end is the word that a head attends to most.

    Attention to a word is the sum over its tokens, attention from a word the mean over its tokens. The answer
    is the most attended word other than the one that is asked, or, where the link names candidates, the most
    attended candidate; the first of a tie. Words that have all their tokens in common are one word. In a
    decoder, only links are asked whose answer comes before the word that is asked.

    Limits: 0 to 1.

    Source: Clark et al. (2019), section 4.
    """
    found = _Collected(asking, causal=layout.causal)
    for sequence, said in enumerate(layout.annotations):
        if said is not None and said.links:
            found.ask(sequence, said)
    return found.questions()


class _Words:
    """The words of one side of a sequence, each once, in their order.

    Attributes:
        ends: The first token of each word, and the one behind its last.
        begins: For each word, the number of the first word of its text; of two texts that are read together,
            words count from the beginning of either.
    """

    def __init__(self, words: Sequence[TokenSpan], second: int = 0) -> None:
        self.ends: list[_Ends] = sorted({(word.start, word.stop) for word in words})
        self._place = {ends: place for place, ends in enumerate(self.ends)}
        first = sum(start < second for start, _ in self.ends)  # all of them, where there is one text
        self.begins = [first if second and start >= second else 0 for start, _ in self.ends]

    def within(self, span: TokenSpan) -> _Ends:
        """Find the words of a span: the one that is the span, else those that lie in it, or touch it."""
        place = self._place.get((span.start, span.stop))
        if place is not None:
            return place, place + 1
        first = bisect_left(self.ends, (span.start, span.start))
        there = [
            at
            for at in range(first, bisect_left(self.ends, (span.stop, span.stop)))
            if self.ends[at][1] <= span.stop
        ] or [at for at, (start, stop) in enumerate(self.ends) if start < span.stop and stop > span.start]
        return (there[0], there[-1] + 1) if there else _NONE

    def choices(self, own: _Ends, in_sight: int | None) -> set[int]:
        """Tell which of the words could be chosen: none of the asker's own, and none that it does not see.

        Args:
            own: The words that are the asker itself.
            in_sight: Words that end behind this token are not seen; None where all are.
        """
        seen = (at for at, (_, stop) in enumerate(self.ends) if in_sight is None or stop <= in_sight)
        return {at for at in seen if not own[0] <= at < own[1]}


class _Collected:
    """Questions on the way to arrays."""

    def __init__(self, asking: Asking, *, causal: bool) -> None:
        self._asking, self._causal = asking, causal
        self._spans: list[_Ends] = []
        self._rows: list[tuple[int, ...]] = []
        self._asked: list[int] = []
        self._right: list[_Ends] = []
        self._answers: list[_Ends] = []
        self._keys: dict[Key, int] = {}
        self._entries: list[tuple[int, int, int]] = []
        self._guessed: list[tuple[int, int]] = []
        self._rules = {rule: place for place, rule in enumerate(asking.rules)}
        self._same = self._unseen = self._certain = 0

    def ask(self, sequence: int, said: TokenAnnotation) -> None:
        """Ask about the links of a sequence."""
        asking = _Words(said.words, said.second)
        crossed = said.keys is not None
        answering = asking if said.keys is None else _Words(said.keys)
        first = len(self._spans)
        self._spans += answering.ends
        #: Of who was asked already, the row and where its candidates are.
        known: dict[tuple[TokenSpan, tuple[TokenSpan, ...]], _Ends] = {}
        for link in said.links:
            for direction, forward in self._asking.directions(link):
                asker, *right = (
                    (link.source, link.target, *link.also) if forward else (link.target, link.source)
                )
                place = asking.within(asker) if not said.same else _other_side(asker, said, answering)
                own = _NONE if crossed and not said.same else place
                if link.candidates:
                    side, at = _Words(link.candidates), len(self._spans)
                    self_ = side.within(asker) if not crossed and _same(side, asker) else _NONE
                else:
                    side, at, self_ = answering, first, own
                found = [(span, side.within(span)) for span in right]
                found = [(span, ends) for span, ends in found if ends != _NONE and not _in(ends, self_)]
                if not found:
                    self._same += 1
                    continue
                in_sight = asker.stop if self._causal else None
                if in_sight is not None:
                    found = [(span, ends) for span, ends in found if side.ends[ends[1] - 1][1] <= in_sight]
                    if not found:
                        self._unseen += 1
                        continue
                answers = [ends for _, ends in found]
                if link.candidates and side.choices(self_, in_sight) <= _covered(answers):
                    self._certain += 1
                    continue
                row, at = known.setdefault((asker, link.candidates), (len(self._rows), at))
                if row == len(self._rows):
                    self._spans += side.ends if link.candidates else []
                    self._rows.append(
                        (
                            sequence,
                            asker.start,
                            asker.stop,
                            at,
                            at + len(side.ends),
                            at + self_[0],
                            at + self_[1],
                        )
                    )
                self._count(sequence, link, direction, row, [(a + at, b + at) for a, b in answers])
                if self._asking.by_offset and link.candidates:
                    self._guess_nearest(place, side, answering, side.choices(self_, in_sight), answers)
                elif self._asking.by_offset:
                    words = [answering.within(span) for span, _ in found]
                    self._guess_offsets(place, words, answering.begins, itself=own != _NONE)
                else:
                    self._guess_named(link, side, answers)

    def _count(self, sequence: int, link: TokenLink, direction: str, row: int, answers: list[_Ends]) -> None:
        question = len(self._asked)
        self._asked.append(row)
        self._answers.append((len(self._right), len(self._right) + len(answers)))
        self._right += answers
        for label in labels_of(link):
            key = self._keys.setdefault((label, direction), len(self._keys))
            self._entries.append((question, key, sequence))

    def _guess_offsets(
        self, place: _Ends, words: list[_Ends], begins: Sequence[int], *, itself: bool
    ) -> None:
        """Find the fixed offsets at which a word of a right answer stands, counted from the asker's ends.

        Of a pair of texts, word number k of the one stands at offset 0 from word number k of the other.
        """
        if place == _NONE:
            return
        question, last = len(self._asked) - 1, place[1] - 1
        found = set()
        for first, stop in words:
            for word in range(first, stop):
                offset = word - last if word > last else min(0, word - place[0])
                if itself and begins[word] != begins[place[0]]:
                    offset = word - begins[word] - (place[0] - begins[place[0]])
                if abs(offset) <= FURTHEST and not (itself and place[0] <= word <= last):
                    found.add(offset)
        self._guessed += [(question, offset + FURTHEST) for offset in sorted(found)]

    def _guess_nearest(
        self, place: _Ends, side: _Words, answering: _Words, choices: set[int], answers: list[_Ends]
    ) -> None:
        """Let each fixed offset choose the candidate nearest to its place; it has as many as a head has."""
        if place == _NONE or not answering.ends:
            return
        question, begins = len(self._asked) - 1, answering.begins
        right, mine = _covered(answers), begins[place[0]] if place[0] < len(begins) else 0
        where = []
        for candidate in sorted(choices):
            word = answering.within(TokenSpan(*side.ends[candidate]))[0]
            # Of a pair of texts, words count from the beginning of either.
            where.append((word if begins[word] == mine else word - begins[word] + mine, candidate))
        for offset in range(-FURTHEST, FURTHEST + 1):
            aimed = (place[1] - 1 if offset > 0 else place[0]) + offset
            chosen = min(where, key=lambda one: abs(one[0] - aimed))[1]
            if chosen in right:
                self._guessed.append((question, offset + FURTHEST))

    def _guess_named(self, link: TokenLink, side: _Words, answers: list[_Ends]) -> None:
        question = len(self._asked) - 1
        # Of a rule that names several, the first counts that no window has cut off.
        for rule, guess in dict(reversed(link.guesses)).items():
            ends = side.within(guess)
            if rule in self._rules and any(first <= ends[0] and ends[1] <= stop for first, stop in answers):
                self._guessed.append((question, self._rules[rule]))

    def questions(self) -> Questions:
        """Give what was collected as arrays."""
        rows = _array(self._rows, 7)
        return Questions(
            Rows(rows[:, 0], rows[:, 1:3], rows[:, 3:5], rows[:, 5:7], _array(self._spans, 2)),
            np.array(self._asked, np.int64),
            _array(self._right, 2),
            _array(self._answers, 2),
            self._asking.rules,
            tuple(self._keys),
            _array(self._entries, 3),
            _array(self._guessed, 2),
            np.array([self._same, self._unseen, self._certain], np.int64),
        )


def _other_side(asker: TokenSpan, said: TokenAnnotation, answering: _Words) -> _Ends:
    """Find the asker's words among the keys, where these are the same words by their numbers."""
    assert said.keys is not None
    numbers = range(min(len(said.words), len(said.keys)))
    inside = [n for n in numbers if asker.start <= said.words[n].start and said.words[n].stop <= asker.stop]
    ends = [answering.within(said.keys[number]) for number in inside]
    return (min(first for first, _ in ends), max(stop for _, stop in ends)) if ends else _NONE


def _same(side: _Words, asker: TokenSpan) -> bool:
    """Tell whether the asker is itself among the candidates."""
    return (asker.start, asker.stop) in side.ends


def _covered(answers: list[_Ends]) -> set[int]:
    return {place for first, stop in answers for place in range(first, stop)}


def _in(ends: _Ends, others: _Ends) -> bool:
    return others[0] <= ends[0] and ends[1] <= others[1]


def _array(values: list, columns: int) -> Ints:  # type: ignore[type-arg]
    return np.array(values, np.int64).reshape(len(values), columns)
