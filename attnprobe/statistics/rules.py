"""What is asked about gold links, and simple rules that answer: they choose from the words that a head may.

A rule always answers, as a head does: where it aims at a word that can't be chosen, or at none, it chooses
the nearest that can; of two that are as near, the earlier.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from attnprobe.attention.annotation import TokenLink, TokenSpan
from attnprobe.corpus.sources.document import SEVERAL

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


def offsets_to(furthest: int) -> tuple[str, ...]:
    """Name fixed offsets, in words, as rules that answer a link.

    >>> offsets_to(1)
    ('-1', '0', '1')
    """
    return tuple(str(offset) for offset in range(-furthest, furthest + 1))


OFFSETS = offsets_to(FURTHEST)

#: The universal parts of speech (de Marneffe et al. 2021).
PARTS_OF_SPEECH = (
    "ADJ", "ADP", "ADV", "AUX", "CCONJ", "DET", "INTJ", "NOUN", "NUM", "PART", "PRON", "PROPN", "PUNCT",
    "SCONJ", "SYM", "VERB", "X",
)  # fmt: skip
#: The rules that go by them: the nearest of each, then the nearest before and after who asks.
OF_PARTS_OF_SPEECH = (
    *(f"nearest {part}" for part in PARTS_OF_SPEECH),
    *(f"{part} before" for part in PARTS_OF_SPEECH),
    *(f"{part} after" for part in PARTS_OF_SPEECH),
)


@dataclass(frozen=True)
class LinkTask:
    """Which questions are asked of a link, and the rules that heads are compared with.

    Attributes:
        forward: What it is called when the source looks for the target.
        backward: What it is called when the target looks for the source; empty where that is not asked.
        rules: What heads are compared with: fixed offsets, then rules that have a name, and last those that
            go by parts of speech, if any.
        label: What a label is called: the column of a table.
        noun: What a label is called in a sentence, where that is another word than the column's.
        least: So many rules, the first ones, a head has to beat for its role; all of them by default.
    """

    forward: str
    backward: str
    rules: tuple[str, ...]
    label: str
    noun: str = ""
    least: int | None = None

    @cached_property
    def offsets(self) -> tuple[int, ...]:
        return tuple(int(rule) for rule in self.rules if rule.lstrip("-").isdecimal())

    @property
    def named(self) -> tuple[str, ...]:
        return self.rules[len(self.offsets) :]

    @cached_property
    def by_parts(self) -> bool:
        return self.rules[-len(OF_PARTS_OF_SPEECH) :] == OF_PARTS_OF_SPEECH

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


def list_labels(link: TokenLink) -> Sequence[str]:
    """Name what a link counts for: each of its labels, and all."""
    return [ALL, *(part for part in dict.fromkeys(link.label.split(SEVERAL)) if part not in {"", ALL})]


#: The first of a range, and the one behind its last.
Ends = tuple[int, int]
#: Nothing, as a range.
NONE: Ends = (0, 0)


_PLACES = {part: place for place, part in enumerate(PARTS_OF_SPEECH)}


class Words:
    """The words of one side of a sequence, each once, in their order.

    Attributes:
        ends: The first token of each word, and the one behind its last.
        second: The number of the first word of the second of two texts; 0 where there is one text.
        forms: Numbers that are equal where words are spelled alike; empty where that is not known.
        parts: Places of parts of speech in ``PARTS_OF_SPEECH``, -1 for any other; empty where none is known.
    """

    def __init__(
        self,
        words: Sequence[TokenSpan],
        second: int = 0,
        forms: Sequence[int] = (),
        parts_of_speech: Sequence[str] = (),
    ) -> None:
        """Number words; ``second`` is the position at which the second of two texts begins."""
        self.ends: list[Ends] = sorted({(word.start, word.stop) for word in words})
        self._place = {ends: place for place, ends in enumerate(self.ends)}
        self.second = sum(start < second for start, _ in self.ends) if second else 0
        self.forms: Ints = self._order(words, forms)
        places = [_PLACES.get(part, -1) for part in parts_of_speech]
        self.parts: Ints = self._order(words, places)

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
        first = bisect_left(self.ends, (span.start, span.start))
        there = [
            at
            for at in range(first, bisect_left(self.ends, (span.stop, span.stop)))
            if self.ends[at][1] <= span.stop
        ] or [at for at, (start, stop) in enumerate(self.ends) if start < span.stop and stop > span.start]
        return (there[0], there[-1] + 1) if there else NONE

    def choices(self, own: Ends, in_sight: int | None) -> set[int]:
        """Tell which words could be chosen: not the asker's own, and none behind its sight."""
        seen = (at for at, (_, stop) in enumerate(self.ends) if in_sight is None or stop <= in_sight)
        return {at for at in seen if not own[0] <= at < own[1]}


SAME_TEXT, SAME_CONTEXT, SAME_LEFT_CONTEXT = "same text", "same context", "same left context"
SAME_PLACE = "same relative place"
FIRST = "first"
#: So many pairs of a question and a word are looked at at once.
_AT_ONCE = 1 << 20
#: Where a word is that can't be reached.
_FAR = 1 << 30


class RuleQuestion(NamedTuple):
    """What a rule is told of a question.

    Attributes:
        place: The words of the asker, among those of its side.
        own: The same words among those that answer; none where it is not among them.
        text: The words of the text in which the answer lies.
        sight: The last token that the asker sees lies before this one.
        first: The number of the first word that answers, among the spans of all sequences.
        candidates: Of each candidate that may be chosen, its first word and its number among those spans.
        guesses: What rules that come with the link choose, each with its name; the first of a name counts.
    """

    place: Ends
    own: Ends
    text: Ends
    sight: int
    first: int
    candidates: Mapping[int, int] | None
    guesses: Sequence[tuple[str, int]]


def choose_by_rules(
    task: LinkTask, home: Words, answering: Words, questions: Sequence[RuleQuestion], *, ahead: bool
) -> Ints:
    """Let every rule choose for the questions about a sequence, asked by words of home, answered by others.

    Who asks knows what comes behind it, ``ahead``, but in a decoder.

    Returns:
        (question, rule) numbers among the spans of all sequences; -1 where a rule says nothing.
    """
    choices = np.full((len(questions), len(task.rules)), -1, np.int64)
    if not task.rules:
        return choices
    if words := len(answering.ends):
        step = max(1, _AT_ONCE // words)
        alike = _Alike(home, answering, ahead=ahead)
        names = task.named[: -len(OF_PARTS_OF_SPEECH)] if task.by_parts else task.named
        for start in range(0, len(questions), step):
            baselines = _Baselines(questions[start : start + step], home, answering, alike)
            chosen = [baselines.at_offsets(task.offsets), *map(baselines.by_name, names)]
            if task.by_parts:
                chosen.append(baselines.by_part_of_speech(answering.parts))
            choices[start : start + step] = baselines.number(np.concatenate(chosen, 1))
        choices[[question.place == NONE for question in questions]] = -1
    for row, question in enumerate(questions):
        if not question.guesses:
            continue
        guesses = dict(reversed(question.guesses))
        for rule, name in enumerate(task.named, len(task.offsets)):
            # Some sources name no words but those that are asked. Their first rule is the nearest candidate.
            if name in guesses or choices[row, rule] < 0:
                choices[row, rule] = guesses.get(name, question.guesses[0][1])
    return choices


class _Alike:
    """How far the words beside two words are spelled alike, (asker, answer)."""

    def __init__(self, home: Words, answering: Words, *, ahead: bool) -> None:
        self._ahead = ahead
        if len(home.forms) and len(answering.forms):
            self.words = home.forms[:, None] == answering.forms
        else:  # nobody knows
            self.words = np.zeros((len(home.ends), len(answering.ends)), bool)

    @cached_property
    def left(self) -> Ints:
        """How many of the words before the two are alike."""
        return _count_runs(self.words)

    @cached_property
    def right(self) -> Ints:
        """How many of those behind; none where they can't be known."""
        return _count_runs(self.words[::-1, ::-1])[::-1, ::-1] if self._ahead else np.zeros_like(self.left)


def _count_runs(alike: Bools) -> Ints:
    runs = np.zeros(alike.shape, np.int64)
    for row in range(1, len(runs)):
        runs[row, 1:] = (runs[row - 1, :-1] + 1) * alike[row - 1, :-1]
    return runs


class _Baselines:
    """Rules that answer some questions about a sequence, by numbers of words that answer."""

    def __init__(
        self, questions: Sequence[RuleQuestion], home: Words, answering: Words, alike: _Alike
    ) -> None:
        self._alike, self._words = alike, np.arange(len(answering.ends))
        self._begin = np.array([question.first for question in questions], np.int64)[:, None]
        place, own, self._text, self._home = (
            np.array(ends, np.int64).reshape(-1, 2)
            for ends in zip(
                *((one.place, one.own, one.text, home.text_of(one.place[0])) for one in questions),
                strict=True,
            )
        )
        self._elsewhere = (own[:, 1] <= own[:, 0]) | (self._home[:, 0] != self._text[:, 0])
        stops = np.array([stop for _, stop in answering.ends])
        words, sight = self._words, np.array([question.sight for question in questions])[:, None]
        self._open = (words >= self._text[:, :1]) & (words < self._text[:, 1:]) & (stops <= sight)
        self._open &= (words < own[:, :1]) | (words >= own[:, 1:])
        #: The questions whose links name candidates.
        self._offered = {
            row: one.candidates for row, one in enumerate(questions) if one.candidates is not None
        }
        for row, candidates in self._offered.items():
            self._open[row] = False
            self._open[row, list(candidates)] = True
        self._nearest = _find_nearest(self._open)
        self._first = np.minimum(place[:, 0], len(home.ends) - 1)
        # Where the words of the asker are among those that answer: of two texts, at the same number.
        self._place = place - self._home[:, :1] + self._text[:, :1]

    def at_offsets(self, offsets: Sequence[int]) -> Ints:
        """Choose what stands so many words from the ends of the asker, (question, offset)."""
        steps = np.array(offsets, np.int64)
        chosen = self._nearest_to(np.where(steps > 0, self._place[:, 1:] - 1, self._place[:, :1]) + steps)
        # A word itself is no answer, and the offset that aims at it would be another name for its neighbour.
        itself = ~self._elsewhere
        itself[list(self._offered)] = False
        chosen[itself[:, None] & (steps == 0)] = -1
        return chosen

    def by_name(self, rule: str) -> Ints:
        """Choose by a rule that has a name, (question, 1)."""
        if rule == SAME_TEXT:
            return self._alike_with_most(np.zeros_like(self._open, np.int64))
        if rule == SAME_CONTEXT:
            return self._alike_with_most(self._left() + self._right())
        if rule == SAME_LEFT_CONTEXT:  # as an induction head would
            return self._alike_with_most(self._left())
        if rule == FIRST:
            return np.where(self._open.any(1), self._open.argmax(1), -1)[:, None]
        if rule == SAME_PLACE:  # in another text, at the same share of its length
            (begin, end), (first, last) = self._home.T, self._text.T
            share = (self._place[:, 0] - first + 0.5) / np.maximum(end - begin, 1)
            aimed = first + np.floor(share * (last - first)).astype(np.int64)
            return np.where(self._elsewhere[:, None], self._nearest_to(aimed[:, None]), -1)
        return self._nearest_to(self._place[:, :1])

    def by_part_of_speech(self, parts: Ints) -> Ints:
        """Choose the nearest word of each part of speech, then the nearest before and after the asker.

        Where there is none on one side it is the one on the other, and where there is none the nearest word.
        In another text than the asker's, and where no part of speech is known, nothing is chosen.
        """
        number = len(PARTS_OF_SPEECH)
        if not len(parts) or self._elsewhere.all():
            return np.full((len(self._begin), 3 * number), -1, np.int64)
        # Of words that are written to one place, the last one stays; the last place is for all other words.
        before, after = (np.full((len(self._begin), number + 1), -1, np.int64) for _ in range(2))
        row, word = np.nonzero(self._open & (self._words < self._place[:, :1]))
        before[row, parts[word]] = word
        row, word = (part[::-1] for part in np.nonzero(self._open & (self._words >= self._place[:, 1:])))
        after[row, parts[word]] = word
        before, after = before[:, :-1], after[:, :-1]
        steps = self._place[:, :1] - before, after - self._place[:, :1]
        nearest = np.where((before >= 0) & ((after < 0) | (steps[0] <= steps[1])), before, after)
        nearest = np.where(nearest < 0, self._nearest_to(self._place[:, :1]), nearest)
        chosen = [nearest, *(np.where(side < 0, nearest, side) for side in (before, after))]
        return np.where(self._elsewhere[:, None], -1, np.concatenate(chosen, 1))

    def number(self, words: Ints) -> Ints:
        """Turn numbers of words (question, ...) into those of spans."""
        numbers = self._begin + words
        for row, candidates in self._offered.items():
            number = np.zeros(len(self._words), np.int64)
            number[list(candidates)] = list(candidates.values())
            numbers[row] = number[words[row]]
        return np.where(words < 0, -1, numbers)

    def _left(self) -> Ints:
        most = np.minimum((self._first - self._home[:, 0])[:, None], self._words - self._text[:, :1])
        return np.minimum(self._alike.left[self._first], np.maximum(most, 0))

    def _right(self) -> Ints:
        most = np.minimum((self._home[:, 1] - 1 - self._first)[:, None], self._text[:, 1:] - 1 - self._words)
        return np.minimum(self._alike.right[self._first], np.maximum(most, 0))

    def _alike_with_most(self, score: Ints) -> Ints:
        """Choose the word with the highest score that is spelled as the asker is; the nearest of a tie."""
        same = self._open & self._alike.words[self._first]
        distance = self._words - self._place[:, :1]
        rank = score * (2 * len(self._words) + 2) - 2 * np.abs(distance) - (distance > 0)
        best = np.where(same, rank, -_FAR).argmax(1)[:, None]
        return np.where(same.any(1, keepdims=True), best, self._nearest_to(self._place[:, :1]))

    def _nearest_to(self, aimed: Ints) -> Ints:
        return np.take_along_axis(self._nearest, aimed.clip(0, len(self._words) - 1), 1)


def _find_nearest(open_: Bools) -> Ints:
    """Find the open word nearest to each word, (question, word): the earlier of two, -1 where none is."""
    words = np.arange(open_.shape[1])
    before = np.maximum.accumulate(np.where(open_, words, -_FAR), 1)
    behind = np.minimum.accumulate(np.where(open_, words, _FAR)[:, ::-1], 1)[:, ::-1]
    nearest = np.where(words - before <= behind - words, before, behind)
    return np.where(open_.any(axis=1, keepdims=True), nearest, -1)
