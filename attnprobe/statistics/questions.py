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
    Ends,
    LinkTask,
    RuleQuestion,
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


def part_by_stratum(questions: Questions, strata: Strata) -> Questions:
    """Let questions count by group of documents, whose name begins each key."""
    question, key, sequence = questions.entries.T
    number = len(strata.names)
    pairs, place = np.unique(key * number + strata.of[sequence], return_inverse=True)
    keys = tuple((strata.names[pair % number], *questions.keys[pair // number]) for pair in pairs.tolist())
    return replace(questions, keys=keys, entries=np.stack([question, place, sequence], 1))


def questions_of(layout: Layout, task: LinkTask, *, moved: bool = False) -> Questions:
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
    collector = _Collector(task, layout)
    for sequence, annotation in enumerate(layout.annotations):
        if annotation is not None and annotation.links:
            collector.ask(sequence, move_links(annotation) if moved else annotation)
    return collector.questions()


@dataclass(frozen=True)
class _Sides:
    """The words of a sequence that ask, and those that answer: the same ones but in cross-attention."""

    annotation: TokenAnnotation
    asking: Words
    answering: Words

    @classmethod
    def of(cls, annotation: TokenAnnotation) -> _Sides:
        words = Words(annotation.words, annotation.second, annotation.forms, annotation.parts_of_speech)
        if annotation.keys is None:
            return cls(annotation, words, words)
        keys = Words(annotation.keys, 0, annotation.key_forms, annotation.key_parts_of_speech)
        return cls(annotation, words, keys)

    @property
    def crossed(self) -> bool:
        return self.annotation.keys is not None

    def place(self, asker: TokenSpan) -> Ends:
        """Find the words of who asks; among the keys where these are the same words by their numbers."""
        words, keys = self.annotation.words, self.annotation.keys
        if keys is None or not self.annotation.same:
            return self.asking.within(asker)
        inside = [
            number
            for number, (word, _) in enumerate(zip(words, keys, strict=False))
            if asker.start <= word.start and word.stop <= asker.stop
        ]
        ends = [self.answering.within(keys[number]) for number in inside]
        return (min(first for first, _ in ends), max(stop for _, stop in ends)) if ends else NONE

    def are_far(self, asker: TokenSpan, place: Ends, answers: Sequence[tuple[TokenSpan, Ends]]) -> bool:
        """Tell whether a word lies between the asker and each of the answers, given with their words.

        Where no word is known, it is a token.
        """
        annotation, shift = self.annotation, 0
        if self.crossed:
            if not annotation.same:
                return False
            shift = 1  # a decoder reads the same text one place later
        elif annotation.second and (asker.start >= annotation.second) != (
            answers[0][0].start >= annotation.second
        ):
            return False
        for span, words in answers:
            ours, theirs = place, words
            if NONE in (ours, theirs):
                ours, theirs = (asker.start - shift, asker.stop - shift), (span.start, span.stop)
            if max(theirs[0] - ours[1], ours[0] - theirs[1]) < 1:
                return False
        return True


class _Collector:
    """Collects the questions of a batch, sequence by sequence."""

    def __init__(self, task: LinkTask, layout: Layout) -> None:
        self._task, self._causal = task, layout.causal
        self._positions = _POSITIONS if layout.shifted else _ONLY
        self._ahead = not (layout.causal or layout.shifted)
        self._spans: list[Ends] = []
        self._rows: list[tuple[int, ...]] = []
        self._row: list[int] = []
        self._right: list[Ends] = []
        self._answers: list[Ends] = []
        self._keys: dict[Key, int] = {}
        self._entries: list[tuple[int, int, int]] = []
        self._choices: list[Ints] = []
        self._chance: list[float] = []
        self._same = self._unseen = self._certain = 0

    def ask(self, sequence: int, annotation: TokenAnnotation) -> None:
        """Ask about the links of a sequence."""
        sides, first = _Sides.of(annotation), len(self._spans)
        self._spans += sides.answering.ends
        #: Of candidates that links name, their words, and where these begin among the spans.
        offered: dict[tuple[TokenSpan, ...], tuple[Words, int]] = {(): (sides.answering, first)}
        rows: dict[tuple[TokenSpan, tuple[TokenSpan, ...], str], int] = {}
        rule_questions: list[RuleQuestion] = []
        for link in annotation.links:
            if link.candidates not in offered:
                offered[link.candidates] = Words(link.candidates), len(self._spans)
                self._spans += offered[link.candidates][0].ends
            words, begin = offered[link.candidates]
            labels = list_labels(link)
            for direction, forward in self._task.directions(link):
                asker, *answers = (
                    (link.source, link.target, *link.also) if forward else (link.target, link.source)
                )
                place = sides.place(asker)
                among_words = NONE if sides.crossed and not annotation.same else place
                asker_among = among_words
                if link.candidates:
                    inside = not sides.crossed and (asker.start, asker.stop) in words.ends
                    asker_among = words.within(asker) if inside else NONE
                sight = asker.stop - self._positions[0][1] if self._causal else _ALL
                right = self._find_right(answers, words, asker_among, sight)
                candidates = words.choices(asker_among, sight) if link.candidates else None
                chance = _find_chance(candidates, [ends for _, ends in right])
                self._certain += chance == 1 and bool(right)
                if chance == 1 or not right:
                    continue
                if link.candidates:  # which are numbered among themselves
                    by_words = [(span, sides.answering.within(span)) for span, _ in right]
                else:
                    by_words = right
                far = sides.are_far(asker, place, by_words)
                rule_question = RuleQuestion(
                    place,
                    among_words,
                    sides.answering.text_of(by_words[0][1][0]),
                    sight,
                    first,
                    None if candidates is None else _by_word(candidates, words, sides.answering, begin),
                    _read_guesses(link, words, candidates, begin),
                )
                for position, before in self._positions:
                    row = rows.setdefault((asker, link.candidates, position), len(self._rows))
                    if row == len(self._rows):
                        ends = (
                            begin,
                            begin + len(words.ends),
                            begin + asker_among[0],
                            begin + asker_among[1],
                        )
                        self._rows.append((sequence, asker.start - before, asker.stop - before, *ends))
                    self._chance.append(chance)
                    name = (direction, position) if position else (direction,)
                    answer_spans = [(start + begin, stop + begin) for _, (start, stop) in right]
                    self._count(sequence, labels, name, row, answer_spans, far=far)
                    rule_questions.append(rule_question)
        home = sides.answering if annotation.same else sides.asking
        self._choices.append(
            choose_by_rules(self._task, home, sides.answering, rule_questions, ahead=self._ahead)
        )

    def _find_right(
        self, answers: Sequence[TokenSpan], words: Words, asker_among: Ends, sight: int
    ) -> list[tuple[TokenSpan, Ends]]:
        """Find the answers among the words that may be chosen; count the question as left out if none is."""
        right = [
            (span, ends)
            for span in answers
            if (ends := words.within(span)) != NONE
            and not (asker_among[0] <= ends[0] and ends[1] <= asker_among[1])
        ]
        if not right:
            self._same += 1
            return []
        seen = [(span, ends) for span, ends in right if words.ends[ends[1] - 1][1] <= sight]
        self._unseen += not seen
        return seen

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
        question = len(self._row)
        self._row.append(row)
        self._answers.append((len(self._right), len(self._right) + len(answers)))
        self._right += answers
        keys = self._keys
        for label in labels:
            self._entries.append((question, keys.setdefault((label, *name), len(keys)), sequence))
            if far and self._task.rules:  # a control is asked about no rules, and about no distances
                self._entries.append((question, keys.setdefault((label, *name, FAR), len(keys)), sequence))

    def questions(self) -> Questions:
        from attnprobe.kernels.words import Rows

        rows = _array(self._rows, 7)
        return Questions(
            Rows(rows[:, 0], rows[:, 1:3], rows[:, 3:5], rows[:, 5:7], _array(self._spans, 2)),
            np.array(self._row, np.int64),
            _array(self._right, 2),
            _array(self._answers, 2),
            self._task.rules,
            tuple(self._keys),
            _array(self._entries, 3),
            np.concatenate([np.zeros((0, len(self._task.rules)), np.int64), *self._choices]),
            np.array(self._chance, np.float64),
            np.array([self._same, self._unseen, self._certain], np.int64),
        )


def _find_chance(candidates: set[int] | None, answers: list[Ends]) -> float:
    """Give the share of candidates that are right: 0 where a link names none, 1 where any choice is right."""
    if candidates is None:
        return 0.0
    wrong = candidates.difference(*(range(*ends) for ends in answers))
    return 1 - len(wrong) / len(candidates) if wrong else 1.0


def _by_word(candidates: set[int], words: Words, answering: Words, at: int) -> dict[int, int]:
    """Number candidates by their first words; the first of several counts."""
    numbers = {}
    for candidate in sorted(candidates):
        first, stop = answering.within(TokenSpan(*words.ends[candidate]))
        if first < stop:
            numbers.setdefault(first, at + candidate)
    return numbers


def _read_guesses(
    link: TokenLink, words: Words, candidates: set[int] | None, at: int
) -> list[tuple[str, int]]:
    ends = ((rule, words.within(guess)) for rule, guess in link.guesses)
    return [
        (rule, first + at)
        for rule, (first, stop) in ends
        if first < stop and (candidates is None or first in candidates)
    ]


def _array(values: list, columns: int) -> Ints:  # type: ignore[type-arg]
    return np.array(values, np.int64).reshape(len(values), columns)
