"""What is asked about gold links, and simple rules that answer: they choose from the words that a head may.

A rule always answers, as a head does: where it aims at a word that can't be chosen, or at none, it chooses
the nearest that can; of two that are as near, the earlier.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from attnprobe.attention.tokens import TokenLink, TokenSpan
from attnprobe.corpus.document import SEVERAL

if TYPE_CHECKING:
    from attnprobe.kernels.words import Ints


Bools = NDArray[np.bool_]

#: The label that stands for all links together.
ALL = "all"
#: Where a decoder beside an encoder is asked: where it predicts a word, or a place later, where it reads it.
OUTPUT, INPUT = "output", "input"
#: A fixed offset looks so many words far at most, where dependencies are asked for.
FURTHEST = 10
#: The rule behind all others: any of the candidates that a link names.
CHANCE = "chance"
SAME_TEXT, SAME_CONTEXT, SAME_LEFT_CONTEXT = "same text", "same context", "same left context"
SAME_PLACE = "same relative place"
FIRST = "first"
#: Fixed offsets, in words, are rules too.
OFFSETS = tuple(map(str, range(-FURTHEST, FURTHEST + 1)))
#: The universal parts of speech (de Marneffe et al. 2021).
PARTS_OF_SPEECH = (
    "ADJ", "ADP", "ADV", "AUX", "CCONJ", "DET", "INTJ", "NOUN", "NUM", "PART", "PRON", "PROPN", "PUNCT",
    "SCONJ", "SYM", "VERB", "X",
)  # fmt: skip
_PLACES = {part: place for place, part in enumerate(PARTS_OF_SPEECH)}
#: The rules that go by them: the nearest of each, then the nearest before and after who asks.
OF_PARTS_OF_SPEECH = (
    *(f"nearest {part}" for part in PARTS_OF_SPEECH),
    *(f"{part} before" for part in PARTS_OF_SPEECH),
    *(f"{part} after" for part in PARTS_OF_SPEECH),
)


@dataclass(frozen=True)
class LinkTask:
    """Which questions are asked of a link, and the rules that heads are compared with."""

    forward: str  # the name of the direction in which the source looks for the target
    backward: str  # the same of the target, where it is asked too
    rules: tuple[str, ...]  # fixed offsets, then those that have a name, last those by parts of speech
    label: str  # the column that names a label
    least: int | None = None  # so many rules, the first ones, a head has to beat for its role

    @cached_property
    def offsets(self) -> tuple[int, ...]:
        return tuple(int(rule) for rule in self.rules if rule.lstrip("-").isdecimal())

    @cached_property
    def named(self) -> tuple[str, ...]:
        """The rules that have a name, those by parts of speech among them."""
        return self.rules[len(self.offsets) :]

    def name_of(self, rule: int) -> str:
        """Name a rule by its place: "offset +1", "same text"; chance is behind the last."""
        if rule < len(self.offsets):
            return f"offset {self.offsets[rule]:+d}"
        return self.rules[rule] if rule < len(self.rules) else CHANCE

    def best_rule(self, right: NDArray[Any]) -> int:
        """Choose the rule with most right answers (rule,); of equals the nearest offset, then the earlier."""
        offsets = self.offsets[: len(right)]
        order = sorted(range(len(offsets)), key=lambda place: abs(offsets[place]))
        return max([*order, *range(len(order), len(right))], key=lambda rule: right[rule])

    def directions(self, link: TokenLink) -> Iterator[tuple[str, bool]]:
        """Name the questions that are asked of a link, and say whether the source is who is asked."""
        if link.asks != "backward":
            yield self.forward, True
        # Candidates are answers to the source's question, and nobody named any to the target's.
        if link.asks != "forward" and self.backward and not link.candidates:
            yield self.backward, False


#: As the guesses of links name them.
_GUESSES = (
    *("nearest", "same last word", "same head word", "same string", FIRST),
    *("nearest pronoun", "nearest proper", "nearest nominal"),
)
_RULES = (
    *map(str, range(-48, 49)),
    *(SAME_TEXT, SAME_CONTEXT, SAME_LEFT_CONTEXT, SAME_PLACE),
    *OF_PARTS_OF_SPEECH,
)
SYNTAX_TASK = LinkTask(
    "dependent_to_head",
    "head_to_dependent",
    (*OFFSETS, SAME_TEXT, *OF_PARTS_OF_SPEECH),
    label="relation",
    least=len(OFFSETS),
)
COREFERENCE_TASK = LinkTask("mention_to_antecedent", "", _GUESSES, label="mention", least=2)
LINKS_TASK = LinkTask("source_to_target", "target_to_source", _RULES, label="label")


def list_labels(link: TokenLink) -> Sequence[str]:
    """Name what a link counts for: each of its labels, and all."""
    return [ALL, *(part for part in dict.fromkeys(link.label.split(SEVERAL)) if part not in {"", ALL})]


#: The first of a range, and the one behind its last.
Ends = tuple[int, int]
#: Nothing, as a range.
NONE: Ends = (0, 0)


class Words:
    """The words of one side of a sequence, each once, in their order."""

    def __init__(
        self,
        words: Sequence[TokenSpan],
        second: int = 0,
        forms: Sequence[int] = (),
        parts_of_speech: Sequence[str] = (),
    ) -> None:
        self.ends: list[Ends] = sorted({(word.start, word.stop) for word in words})
        self._place = {ends: place for place, ends in enumerate(self.ends)}
        #: The number of the first word of the second of two texts; 0 where there is one text.
        self.second = sum(start < second for start, _ in self.ends) if second else 0
        #: Numbers that are equal where words are spelled alike, and places in ``PARTS_OF_SPEECH``, -1 for any
        #: other; empty where nothing is known.
        self.forms: Ints = self._order(words, forms)
        self.parts: Ints = self._order(words, [_PLACES.get(part, -1) for part in parts_of_speech])

    def _order(self, words: Sequence[TokenSpan], numbers: Sequence[int]) -> Ints:
        known = {(word.start, word.stop): number for word, number in zip(words, numbers, strict=False)}
        return np.array([known[ends] for ends in self.ends] if numbers else [], np.int64)

    def text_of(self, word: int) -> Ends:
        """Give the range of the words of the text that a word lies in."""
        behind = bool(self.second) and word >= self.second
        return (self.second, len(self.ends)) if behind else (0, self.second or len(self.ends))

    def within(self, span: TokenSpan) -> Ends:
        """Find the words of a span: the one that is the span, else those in it, or that touch it."""
        place = self._place.get((span.start, span.stop))
        if place is not None:
            return place, place + 1
        touching = [
            at for at, (start, stop) in enumerate(self.ends) if start < span.stop and stop > span.start
        ]
        inside = [at for at in touching if span.start <= self.ends[at][0] and self.ends[at][1] <= span.stop]
        there = inside or touching
        return (there[0], there[-1] + 1) if there else NONE


# What rules choose

#: So many pairs of a question and a word are looked at at once.
_AT_ONCE = 1 << 20
#: Where a word is that can't be reached.
_UNREACHABLE = 1 << 30
#: By the name of a rule: how much a word speaks for another that is spelled alike, (asker, answer).
_Scores = Mapping[str, "Ints"]


class RuleQuestion(NamedTuple):
    """What a rule is told of a question."""

    place: Ends  # the words of the asker, among those of its side
    itself: Ends  # the same among those that answer, if they are
    text: Ends  # the words of the text in which the answer lies
    sight: int  # the last token that the asker sees lies before this one
    first: int  # the number of the first word that answers, among the spans of all sequences
    candidates: Mapping[int, int] | None  # by their first words: their numbers among those spans
    guesses: Sequence[tuple[str, int]]  # what comes with the link, by name; the first of a name counts


def choose_by_rules(
    task: LinkTask, home: Words, answering: Words, questions: Sequence[RuleQuestion], *, ahead: bool
) -> Ints:
    """Let every rule choose for the questions about a sequence, asked by words of home, answered by others.

    Gives (question, rule) numbers among the spans of all sequences; -1 where a rule says nothing. Who asks
    knows what comes behind it, ``ahead``, but in a decoder.
    """
    choices = np.full((len(questions), len(task.rules)), -1, np.int64)
    if home.ends and answering.ends and task.rules:
        alike = np.zeros((len(home.ends), len(answering.ends)), bool)  # if nobody knows
        if len(home.forms) and len(answering.forms):
            alike = home.forms[:, None] == answering.forms
        scores: _Scores = {}
        if SAME_CONTEXT in task.rules:
            left = _count_runs(alike, home.second, answering.second)
            behind = -home.second % len(home.ends), -answering.second % len(answering.ends)
            right = _count_runs(alike[::-1, ::-1], *behind)[::-1, ::-1] * ahead
            scores = {SAME_LEFT_CONTEXT: left, SAME_CONTEXT: left + right}
        step = max(1, _AT_ONCE // len(answering.ends))
        for start in range(0, len(questions), step):
            part = slice(start, start + step)
            choices[part] = _Rules(questions[part], (home, answering), alike, scores).choose(task)
    for row, question in enumerate(questions):
        guesses = dict(reversed(question.guesses))
        for rule, name in enumerate(task.named, len(task.offsets)) if guesses else ():
            # Some sources name no words but those that are asked. Their first rule is the nearest candidate.
            if name in guesses or choices[row, rule] < 0:
                choices[row, rule] = guesses.get(name, question.guesses[0][1])
    return choices


def _count_runs(alike: Bools, row_of_second: int, column_of_second: int) -> Ints:
    """Count for each two words (asker, answer) how many words just before both are alike, within a text."""
    runs = np.zeros(alike.shape, np.int64)
    for row in range(1, len(runs)):
        runs[row, 1:] = (runs[row - 1, :-1] + 1) * alike[row - 1, :-1] * (row != row_of_second)
        runs[row, column_of_second : column_of_second + 1] = 0
    return runs


class _Rules:
    """Rules that answer some questions about a sequence, each by a function (question, choice)."""

    def __init__(
        self, questions: Sequence[RuleQuestion], sides: tuple[Words, Words], alike: Bools, scores: _Scores
    ) -> None:
        home, answering = sides
        self._questions, self._parts, self._scores = questions, answering.parts, scores
        place, itself, self._text, self._home = (
            np.array(ends, np.int64)
            for ends in zip(
                *((one.place, one.itself, one.text, home.text_of(one.place[0])) for one in questions),
                strict=True,
            )
        )
        self._words = words = np.arange(len(answering.ends))
        self._elsewhere = (itself[:, 1] <= itself[:, 0]) | (self._home[:, 0] != self._text[:, 0])
        stops = np.array([stop for _, stop in answering.ends])
        self._open = (words >= self._text[:, :1]) & (words < self._text[:, 1:])
        self._open &= stops <= np.array([question.sight for question in questions])[:, None]
        self._open &= (words < itself[:, :1]) | (words >= itself[:, 1:])
        for row, question in enumerate(questions):
            if question.candidates is not None:
                self._open[row] = False
                self._open[row, list(question.candidates)] = True
        self._nearest_open = _find_nearest(self._open)
        self._asker = place[:, 0]
        self._alike = self._open & alike[self._asker]
        # Where the words of the asker are among those that answer: of two texts, at the same number.
        self._place = place - self._home[:, :1] + self._text[:, :1]

    def choose(self, task: LinkTask) -> Ints:
        by_parts = task.rules[-1:] == OF_PARTS_OF_SPEECH[-1:]
        names = task.named[: -len(OF_PARTS_OF_SPEECH)] if by_parts else task.named
        chosen = [self._at_offsets(task.offsets), *map(self._by_name, names)]
        if by_parts:
            chosen.append(self._by_part_of_speech())
        words = np.concatenate(chosen, 1)
        numbers = words + np.array([question.first for question in self._questions])[:, None]
        for row, question in enumerate(self._questions):
            if question.candidates is not None:
                number = np.zeros(len(self._words), np.int64)
                number[list(question.candidates)] = list(question.candidates.values())
                numbers[row] = number[words[row]]
        nowhere = np.array([question.place == NONE for question in self._questions])
        return np.where((words < 0) | nowhere[:, None], -1, numbers)

    def _at_offsets(self, offsets: Sequence[int]) -> Ints:
        steps = np.array(offsets, np.int64)  # in words from the ends of the asker
        chosen = self._nearest_to(np.where(steps > 0, self._place[:, 1:] - 1, self._place[:, :1]) + steps)
        # A word itself is no answer, and the offset that aims at it would be another name for its neighbour.
        free = np.array([question.candidates is None for question in self._questions])
        chosen[(free & ~self._elsewhere)[:, None] & (steps == 0)] = -1
        return chosen

    def _by_name(self, rule: str) -> Ints:
        if rule == FIRST:
            return np.where(self._open.any(1), self._open.argmax(1), -1)[:, None]
        if rule == SAME_PLACE:  # at the same share of the length of another text
            (begin, end), (first, last) = self._home.T, self._text.T
            share = (self._place[:, 0] - first + 0.5) / np.maximum(end - begin, 1)
            aimed = first + np.floor(share * (last - first)).astype(np.int64)
            return np.where(self._elsewhere[:, None], self._nearest_to(aimed[:, None]), -1)
        nearest = self._nearest_to(self._place[:, :1])
        if rule != SAME_TEXT and rule not in self._scores:
            return nearest
        # Of the words that are spelled as the asker is, that with the highest score; the nearest of a tie.
        distance = self._words - self._place[:, :1]
        rank = -2 * np.abs(distance) - (distance > 0)
        if rule in self._scores:
            rank += self._scores[rule][self._asker] * (2 * len(self._words) + 2)
        best = np.where(self._alike, rank, -_UNREACHABLE).argmax(1)[:, None]
        return np.where(self._alike.any(1, keepdims=True), best, nearest)

    def _by_part_of_speech(self) -> Ints:
        """Choose the nearest word of each part of speech, then the nearest before and after the asker.

        Where there is none on one side it is the one on the other, and where there is none the nearest word.
        In another text than the asker's, and where no part of speech is known, nothing is chosen.
        """
        shape = len(self._questions), len(PARTS_OF_SPEECH) + 1  # the last place is for all other words
        before, after = (np.full(shape, -1, np.int64) for _ in range(2))
        if not len(self._parts) or self._elsewhere.all():
            return np.concatenate([before[:, 1:]] * 3, 1)
        start, stop = self._place[:, :1], self._place[:, 1:]
        # Of words that are written to one place, the last one stays.
        row, word = np.nonzero(self._open & (self._words < start))
        before[row, self._parts[word]] = word
        row, word = (part[::-1] for part in np.nonzero(self._open & (self._words >= stop)))
        after[row, self._parts[word]] = word
        before, after = before[:, :-1], after[:, :-1]
        nearest = np.where((before >= 0) & ((after < 0) | (start - before <= after - start)), before, after)
        nearest = np.where(nearest < 0, self._nearest_to(start), nearest)
        chosen = [nearest, *(np.where(side < 0, nearest, side) for side in (before, after))]
        return np.where(self._elsewhere[:, None], -1, np.concatenate(chosen, 1))

    def _nearest_to(self, aimed: Ints) -> Ints:
        return np.take_along_axis(self._nearest_open, aimed.clip(0, len(self._words) - 1), 1)


def _find_nearest(open_: Bools) -> Ints:
    """Find the open word nearest to each word, (question, word): the earlier of two, -1 where none is."""
    words = np.arange(open_.shape[1])
    before = np.maximum.accumulate(np.where(open_, words, -_UNREACHABLE), 1)
    behind = np.minimum.accumulate(np.where(open_, words, _UNREACHABLE)[:, ::-1], 1)[:, ::-1]
    nearest = np.where(words - before <= behind - words, before, behind)
    return np.where(open_.any(axis=1, keepdims=True), nearest, -1)
