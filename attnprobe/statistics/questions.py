"""From the annotations of a batch to flat arrays: who is asked, and what would be right."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from attnprobe.attention.annotation import TokenAnnotation, TokenLink, TokenSpan
from attnprobe.statistics.moved_links import move_links
from attnprobe.statistics.rules import (
    INPUT,
    NONE,
    OUTPUT,
    Answerer,
    Asking,
    Ends,
    Words,
    choose_by_rules,
    list_labels,
)
from attnprobe.sums.link_counts import FAR

if TYPE_CHECKING:
    from attnprobe.attention.layout import Layout
    from attnprobe.corpus.batch import Strata
    from attnprobe.kernels.words import Ints, Rows


#: A label, the name of a direction and, where a decoder beside an encoder is asked, at which position.
Key = tuple[str, ...]
#: Where such a decoder is asked, and how many places before it reads a word.
_POSITIONS = ((OUTPUT, 1), (INPUT, 0))
#: Where every other token is asked.
_ONLY = (("", 0),)
#: Behind every token.
_ALL = 1 << 30


@dataclass(frozen=True)
class Questions:
    """What is asked of every head about the links of a batch, in one kind of attention.

    Attributes:
        rows: Who is asked; several questions may share a row.
        row: (question,) its row.
        right: (answer, 2) candidates that are right, as first and the one behind the last.
        answers: (question, 2) where its right answers are among ``right``.
        rules: What heads are compared with.
        keys: What questions count for; those of links at a distance end in ``FAR``.
        entries: (entry, 3) a question, its key, and the sequence it lies in.
        choices: (question, rule) what each rule chooses, by numbers of candidates; -1 where it says nothing.
        chance: (question,) the share of its candidates that are right; 0 where the link names none.
        left_out: Questions not asked: both ends are the same tokens, a decoder sees no answer, every
            candidate is right.
    """

    rows: Rows
    row: Ints
    right: Ints
    answers: Ints
    rules: tuple[str, ...]
    keys: tuple[Key, ...]
    entries: Ints
    choices: Ints
    chance: NDArray[np.float64]
    left_out: Ints

    def hits(self, chosen: Ints) -> NDArray[np.bool_]:
        """Tell which questions are answered rightly, (question, head), by what each row chose (row, head)."""
        return self._right(chosen[self.row])

    @property
    def guesses(self) -> NDArray[np.bool_]:
        """Tell which questions each rule answers rightly, (question, rule)."""
        return self._right(self.choices)

    def _right(self, chosen: Ints) -> NDArray[np.bool_]:
        if not len(self.row):
            return np.zeros((0, chosen.shape[1]), bool)
        times = self.answers[:, 1] - self.answers[:, 0]
        answer = np.repeat(chosen, times, 0)
        inside = (answer >= self.right[:, :1]) & (answer < self.right[:, 1:])
        return np.logical_or.reduceat(inside, self.answers[:, 0], 0)


def part_by_stratum(asked: Questions, strata: Strata) -> Questions:
    """Let questions count by group of documents, whose name begins each key."""
    question, key, sequence = asked.entries.T
    number = len(strata.names)
    there, place = np.unique(key * number + strata.of[sequence], return_inverse=True)
    keys = tuple((strata.names[one % number], *asked.keys[one // number]) for one in there.tolist())
    return replace(asked, keys=keys, entries=np.stack([question, place, sequence], 1))


def questions_of(layout: Layout, asking: Asking, *, moved: bool = False) -> Questions:
    """Share of gold links whose other end is the word that a head attends to most.

    Attention to a word is the sum over its tokens, attention from a word the mean over its tokens. The answer
    is the most attended word other than the one that is asked, or, where the link names candidates, the most
    attended candidate; the first of a tie. Words that have all their tokens in common are one word. In a
    decoder, only links are asked whose answer comes before the word that is asked.

    A decoder beside an encoder reads each token one place after it predicts it. Its words are asked twice:
    where they are predicted, which are the positions whose next token belongs to the word, and where they are
    read.

    A control asks for ``moved`` links, see ``move_links``.

    Limits: 0 to 1.

    Source: Clark et al. (2019), section 4; Kobayashi et al. (2020), section 5, and Chen et al. (2020) for the
    two positions of a decoder.
    """
    found = _Collected(asking, layout)
    for sequence, said in enumerate(layout.annotations):
        if said is not None and said.links:
            found.ask(sequence, move_links(said) if moved else said)
    return found.questions()


class _Collected:
    def __init__(self, asking: Asking, layout: Layout) -> None:
        self._asking, self._causal = asking, layout.causal
        self._positions = _POSITIONS if layout.shifted else _ONLY
        self._ahead = not (layout.causal or layout.shifted)
        self._spans: list[Ends] = []
        self._rows: list[tuple[int, ...]] = []
        self._asked: list[int] = []
        self._right: list[Ends] = []
        self._answers: list[Ends] = []
        self._keys: dict[Key, int] = {}
        self._entries: list[tuple[int, int, int]] = []
        self._choices: list[Ints] = []
        self._chance: list[float] = []
        self._same = self._unseen = self._certain = 0

    def ask(self, sequence: int, said: TokenAnnotation) -> None:
        asking = Words(said.words, said.second, said.forms, said.parts_of_speech)
        crossed = said.keys is not None
        answering = asking
        if said.keys is not None:
            answering = Words(said.keys, forms=said.key_forms, parts_of_speech=said.key_parts_of_speech)
        first = len(self._spans)
        self._spans += answering.ends
        #: Of who was asked already, the row and where its candidates are.
        known: dict[tuple[TokenSpan, tuple[TokenSpan, ...], str], Ends] = {}
        answerers: list[Answerer] = []
        for link in said.links:
            labels = list_labels(link)
            for direction, forward in self._asking.directions(link):
                asker, *right = (
                    (link.source, link.target, *link.also) if forward else (link.target, link.source)
                )
                place = asking.within(asker) if not said.same else _other_side(asker, said, answering)
                own = NONE if crossed and not said.same else place
                if link.candidates:
                    side, at = Words(link.candidates), len(self._spans)
                    inside = not crossed and (asker.start, asker.stop) in side.ends
                    self_ = side.within(asker) if inside else NONE
                else:
                    side, at, self_ = answering, first, own
                found = [
                    (span, ends)
                    for span in right
                    if (ends := side.within(span)) != NONE and not _in(ends, self_)
                ]
                if not found:
                    self._same += 1
                    continue
                in_sight = asker.stop - self._positions[0][1] if self._causal else None
                if in_sight is not None:
                    found = [(span, ends) for span, ends in found if side.ends[ends[1] - 1][1] <= in_sight]
                    if not found:
                        self._unseen += 1
                        continue
                # Candidates are numbered among themselves.
                words = [answering.within(span) if link.candidates else ends for span, ends in found]
                far = _are_far(asker, place, [span for span, _ in found], words, said)
                choices = side.choices(self_, in_sight) if link.candidates else None
                chance = _find_chance(choices, [ends for _, ends in found])
                if chance == 1:
                    self._certain += 1
                    continue
                for position, before in self._positions:
                    who = (asker, link.candidates, position)
                    row, at = known.setdefault(who, (len(self._rows), at))
                    if row == len(self._rows):
                        if link.candidates and at == len(self._spans):
                            self._spans += side.ends
                        who_asks = (sequence, asker.start - before, asker.stop - before)
                        candidates = (at, at + len(side.ends), at + self_[0], at + self_[1])
                        self._rows.append((*who_asks, *candidates))
                    name = (direction, position) if position else (direction,)
                    self._chance += [chance]
                    self._count(
                        sequence, labels, name, row, [(a + at, b + at) for _, (a, b) in found], far=far
                    )
                    answerers.append(
                        Answerer(
                            place,
                            own,
                            answering.text_of(words[0][0]),
                            sight=_ALL if in_sight is None else in_sight,
                            first=first,
                            candidates=None if choices is None else _by_word(choices, side, answering, at),
                            guesses=_guesses(link, side, choices, at) if link.guesses else (),
                        )
                    )
        home = answering if said.same else asking
        self._choices.append(choose_by_rules(self._asking, home, answering, answerers, ahead=self._ahead))

    def _count(
        self,
        sequence: int,
        labels: Sequence[str],
        name: tuple[str, ...],
        row: int,
        answers: list[Ends],
        *,
        far: bool,
    ) -> None:
        question = len(self._asked)
        self._asked.append(row)
        self._answers.append((len(self._right), len(self._right) + len(answers)))
        self._right += answers
        keys = self._keys
        for label in labels:
            self._entries.append((question, keys.setdefault((label, *name), len(keys)), sequence))
            if far and self._asking.rules:  # a control is asked about no rules, and about no distances
                self._entries.append((question, keys.setdefault((label, *name, FAR), len(keys)), sequence))

    def questions(self) -> Questions:
        from attnprobe.kernels.words import Rows

        rows = _array(self._rows, 7)
        return Questions(
            Rows(rows[:, 0], rows[:, 1:3], rows[:, 3:5], rows[:, 5:7], _array(self._spans, 2)),
            np.array(self._asked, np.int64),
            _array(self._right, 2),
            _array(self._answers, 2),
            self._asking.rules,
            tuple(self._keys),
            _array(self._entries, 3),
            np.concatenate([np.zeros((0, len(self._asking.rules)), np.int64), *self._choices]),
            np.array(self._chance, np.float64),
            np.array([self._same, self._unseen, self._certain], np.int64),
        )


def _find_chance(choices: set[int] | None, answers: list[Ends]) -> float:
    """Give the share of candidates that are right: 0 where a link names none, 1 where any choice is right."""
    if choices is None:
        return 0.0
    wrong = choices.difference(*(range(*ends) for ends in answers))
    return 1 - len(wrong) / len(choices) if wrong else 1.0


def _by_word(choices: set[int], side: Words, answering: Words, at: int) -> dict[int, int]:
    """Number candidates by their first words; the first of several counts."""
    found = {}
    for candidate in sorted(choices):
        first, stop = answering.within(TokenSpan(*side.ends[candidate]))
        if first < stop:
            found.setdefault(first, at + candidate)
    return found


def _guesses(link: TokenLink, side: Words, choices: set[int] | None, at: int) -> list[tuple[str, int]]:
    ends = ((rule, side.within(guess)) for rule, guess in link.guesses)
    return [
        (rule, first + at)
        for rule, (first, stop) in ends
        if first < stop and (choices is None or first in choices)
    ]


def _other_side(asker: TokenSpan, said: TokenAnnotation, answering: Words) -> Ends:
    """Find the asker's words among the keys, where these are the same words by their numbers."""
    assert said.keys is not None
    numbers = range(min(len(said.words), len(said.keys)))
    inside = [n for n in numbers if asker.start <= said.words[n].start and said.words[n].stop <= asker.stop]
    ends = [answering.within(said.keys[number]) for number in inside]
    return (min(first for first, _ in ends), max(stop for _, stop in ends)) if ends else NONE


def _are_far(
    asker: TokenSpan, place: Ends, answers: list[TokenSpan], words: list[Ends], said: TokenAnnotation
) -> bool:
    """Tell whether a word (where none is known, a token) lies between the asker and each of the answers."""
    shift = 0
    if said.keys is not None:
        if not said.same:
            return False
        shift = 1  # a decoder reads the same text one place later
    elif said.second and (asker.start >= said.second) != (answers[0].start >= said.second):
        return False
    for span, ends in zip(answers, words, strict=True):
        one, other = place, ends
        if NONE in (one, other):
            one, other = (asker.start - shift, asker.stop - shift), (span.start, span.stop)
        if max(other[0] - one[1], one[0] - other[1]) < 1:
            return False
    return True


def _in(ends: Ends, others: Ends) -> bool:
    return others[0] <= ends[0] and ends[1] <= others[1]


def _array(values: list, columns: int) -> Ints:  # type: ignore[type-arg]
    return np.array(values, np.int64).reshape(len(values), columns)
