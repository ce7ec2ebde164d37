"""From the annotations of a batch to flat arrays: who is asked, and what would be right."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from attnprobe.attention.annotation import TokenAnnotation, TokenLink, TokenSpan
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
from attnprobe.sums.link_counts import FAR, Key

if TYPE_CHECKING:
    from attnprobe.attention.layout import Layout
    from attnprobe.corpus.batch import Strata
    from attnprobe.kernels.words import Ints, Rows


#: Where a decoder beside an encoder is asked, and how many places before it reads a word; and all others.
_POSITIONS, _ONLY = ((OUTPUT, 1), (INPUT, 0)), (("", 0),)
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
        answer = np.repeat(chosen, self.answers[:, 1] - self.answers[:, 0], 0)
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


def _read_sides(annotation: TokenAnnotation) -> tuple[Words, Words]:
    """Read the words that ask, and those that answer: the same ones but in cross-attention."""
    words = Words(annotation.words, annotation.second, annotation.forms, annotation.parts_of_speech)
    if annotation.keys is None:
        return words, words
    return words, Words(annotation.keys, 0, annotation.key_forms, annotation.key_parts_of_speech)


class _Collector:
    """Collects the questions of a batch, sequence by sequence."""

    def __init__(self, task: LinkTask, layout: Layout) -> None:
        self._task, self._causal = task, layout.causal
        self._positions = _POSITIONS if layout.shifted else _ONLY
        self._ahead = not (layout.causal or layout.shifted)
        self._spans, self._right, self._answers = list[Ends](), list[Ends](), list[Ends]()
        self._rows, self._entries = list[tuple[int, ...]](), list[tuple[int, int, int]]()
        self._row, self._chance = list[int](), list[float]()
        self._keys: dict[Key, int] = {}
        self._choices: list[Ints] = []
        self._same = self._unseen = self._certain = 0

    def ask(self, sequence: int, annotation: TokenAnnotation) -> None:
        """Ask about the links of a sequence."""
        asking, answering = _read_sides(annotation)
        first = len(self._spans)
        self._spans += answering.ends
        #: The words that may be chosen, or the candidates that links name, and where they begin among spans.
        offered: dict[tuple[TokenSpan, ...], tuple[Words, int]] = {(): (answering, first)}
        rows: dict[tuple[TokenSpan, tuple[TokenSpan, ...], str], int] = {}
        for_rules: list[RuleQuestion] = []
        for link, direction, asker, answers in self._list_questions(annotation):
            if link.candidates not in offered:
                offered[link.candidates] = Words(link.candidates), len(self._spans)
                self._spans += offered[link.candidates][0].ends
            words, begin = offered[link.candidates]
            place = _find_asker(annotation, asking, answering, asker)
            among_words = NONE if annotation.keys is not None and not annotation.same else place
            itself = among_words
            if link.candidates:
                inside = annotation.keys is None and (asker.start, asker.stop) in words.ends
                itself = words.within(asker) if inside else NONE
            sight = asker.stop - self._positions[0][1] if self._causal else _ALL
            right = self._find_right(answers, words, itself, sight)
            if not right:
                continue
            candidates, chance = None, 0.0
            if link.candidates:
                candidates = _list_open(words, itself, sight)
                wrong = set(candidates).difference(*(range(*ends) for _, ends in right))
                chance = 1 - len(wrong) / len(candidates)
            if chance == 1:
                self._certain += 1
                continue
            by_words = [(span, answering.within(span)) for span, _ in right]
            rule_question = RuleQuestion(
                place,
                among_words,
                answering.text_of(by_words[0][1][0]),
                sight,
                first,
                None if candidates is None else _number_by_word(candidates, words, answering, begin),
                _read_guesses(link, words, candidates, begin),
            )
            far = _are_far(annotation, asker, place, by_words)
            for position, before in self._positions:
                row = rows.setdefault((asker, link.candidates, position), len(self._rows))
                if row == len(self._rows):
                    ends = begin, begin + len(words.ends), begin + itself[0], begin + itself[1]
                    self._rows.append((sequence, asker.start - before, asker.stop - before, *ends))
                key = (direction, position) if position else (direction,)
                self._count(sequence, list_labels(link), key, far=far)
                self._row.append(row)
                self._chance.append(chance)
                self._answers.append((len(self._right), len(self._right) + len(right)))
                self._right += [(start + begin, stop + begin) for _, (start, stop) in right]
                for_rules.append(rule_question)
        home = answering if annotation.same else asking
        self._choices.append(choose_by_rules(self._task, home, answering, for_rules, ahead=self._ahead))

    def _list_questions(
        self, annotation: TokenAnnotation
    ) -> Iterator[tuple[TokenLink, str, TokenSpan, Sequence[TokenSpan]]]:
        """List each link with the name of a direction, who is asked and what is right."""
        for link in annotation.links:
            for direction, forward in self._task.directions(link):
                if forward:
                    yield link, direction, link.source, (link.target, *link.also)
                else:
                    yield link, direction, link.target, (link.source,)

    def _find_right(
        self, answers: Sequence[TokenSpan], words: Words, itself: Ends, sight: int
    ) -> list[tuple[TokenSpan, Ends]]:
        """Find the answers among the words that may be chosen; count the question as left out if none is."""
        right = [
            (span, ends)
            for span in answers
            if (ends := words.within(span)) != NONE and not (itself[0] <= ends[0] and ends[1] <= itself[1])
        ]
        seen = [(span, ends) for span, ends in right if words.ends[ends[1] - 1][1] <= sight]
        self._same += not right
        self._unseen += bool(right) and not seen
        return seen

    def _count(self, sequence: int, labels: Sequence[str], key: Key, *, far: bool) -> None:
        """Let the next question count for labels, and for their links at a distance if it is one."""
        # A control is asked about no rules, and about no distances.
        for label in labels:
            for end in ((), (FAR,)) if far and self._task.rules else ((),):
                place = self._keys.setdefault((label, *key, *end), len(self._keys))
                self._entries.append((len(self._row), place, sequence))

    def questions(self) -> Questions:
        from attnprobe.kernels.words import Rows

        rows = make_array(self._rows, 7)
        return Questions(
            Rows(rows[:, 0], rows[:, 1:3], rows[:, 3:5], rows[:, 5:7], make_array(self._spans, 2)),
            np.array(self._row, np.int64),
            make_array(self._right, 2),
            make_array(self._answers, 2),
            self._task.rules,
            tuple(self._keys),
            make_array(self._entries, 3),
            np.concatenate([np.zeros((0, len(self._task.rules)), np.int64), *self._choices]),
            np.array(self._chance, np.float64),
            np.array([self._same, self._unseen, self._certain], np.int64),
        )


def make_array(values: Sequence[Sequence[int]], columns: int) -> Ints:
    """Make an array (row, column) of rows, of which there may be none."""
    return np.array(values, np.int64).reshape(len(values), columns)


def _find_asker(annotation: TokenAnnotation, asking: Words, answering: Words, asker: TokenSpan) -> Ends:
    """Find the words of who asks; among the keys where these are the same words by their numbers."""
    if annotation.keys is None or not annotation.same:
        return asking.within(asker)
    ends = [
        answering.within(key)
        for word, key in zip(annotation.words, annotation.keys, strict=False)
        if asker.start <= word.start and word.stop <= asker.stop
    ]
    return (min(first for first, _ in ends), max(stop for _, stop in ends)) if ends else NONE


def _are_far(
    annotation: TokenAnnotation, asker: TokenSpan, place: Ends, answers: Sequence[tuple[TokenSpan, Ends]]
) -> bool:
    """Tell whether a word lies between the asker and each of the answers, given with their words.

    Where no word is known, it is a token.
    """
    second = annotation.second
    across = bool(second) and (asker.start >= second) != (answers[0][0].start >= second)
    if across or (annotation.keys is not None and not annotation.same):
        return False
    shift = annotation.keys is not None  # a decoder reads the same text one place later
    for span, words in answers:
        ours, theirs = place, words
        if NONE in (ours, theirs):
            ours, theirs = (asker.start - shift, asker.stop - shift), (span.start, span.stop)
        if max(theirs[0] - ours[1], ours[0] - theirs[1]) < 1:
            return False
    return True


def _list_open(words: Words, itself: Ends, sight: int) -> list[int]:
    """List the candidates that may be chosen: not the asker, and none behind its sight."""
    seen = [place for place, (_, stop) in enumerate(words.ends) if stop <= sight]
    return [place for place in seen if not itself[0] <= place < itself[1]]


def _number_by_word(candidates: Sequence[int], words: Words, answering: Words, begin: int) -> dict[int, int]:
    """Number candidates by their first words; the first of several counts."""
    numbers: dict[int, int] = {}
    for candidate in candidates:
        first, stop = answering.within(TokenSpan(*words.ends[candidate]))
        if first < stop:
            numbers.setdefault(first, begin + candidate)
    return numbers


def _read_guesses(
    link: TokenLink, words: Words, candidates: Sequence[int] | None, begin: int
) -> list[tuple[str, int]]:
    ends = ((rule, words.within(guess)) for rule, guess in link.guesses)
    return [
        (rule, begin + first)
        for rule, (first, stop) in ends
        if first < stop and (candidates is None or first in candidates)
    ]


# A control: the same links between other words, of which a head can know no more than where they stand


def move_links(annotation: TokenAnnotation) -> TokenAnnotation:
    """Move each link of a sequence to other words of the same text, at the same distance.

    Both ends move by the same number of words, drawn from all but 0 that leave them in their texts. So a head
    that looks at a place finds as many links of each label as before, and one that knows what words are to
    one another does not. Where a link names candidates, as many of them as were right are drawn instead. A
    link that can't be moved is left out. Draws depend on words and ends alone, so that jobs agree.

    References:
        Hewitt and Liang (2019), Designing and interpreting probes with control tasks, on selectivity.
    """
    queries, keys = _read_sides(annotation)
    seed = sum(annotation.forms) + len(annotation.words)
    links = []
    for link in annotation.links:
        if link.candidates:
            draws = [_mix(seed, link.source.start, place) for place in range(len(link.candidates))]
            drawn = [link.candidates[place] for place in np.argsort(np.array(draws, np.uint64))]
            moved = replace(link, target=drawn[0], also=tuple(drawn[1 : 1 + len(link.also)]), guesses=())
        elif link.asks == "backward":  # where the source is among the keys
            moved = _move(link, keys, queries, seed)
        else:
            moved = _move(link, queries, keys, seed)
        links.append(moved)
    return replace(annotation, links=tuple(link for link in links if link is not None))


def _move(link: TokenLink, home: Words, other: Words, seed: int) -> TokenLink | None:
    source, target = home.within(link.source), other.within(link.target)
    if NONE in (source, target):
        return None
    # From how far back to how far ahead both may move within their texts.
    text = other.text_of(target[0])
    rooms = (home.text_of(source[0]), source), (text, target)
    least = max(room[0] - ends[0] for room, ends in rooms)
    most = min(room[1] - ends[1] for room, ends in rooms)
    if most <= least:
        return None
    step = least + _mix(seed, source[0], target[0]) % (most - least)
    step += step >= 0  # not where it is
    also = (other.within(span) for span in link.also)
    kept = [ends for ends in also if ends != NONE and text[0] <= ends[0] + step and ends[1] + step <= text[1]]
    return replace(
        link,
        source=_span(home, source, step),
        target=_span(other, target, step),
        also=tuple(_span(other, ends, step) for ends in kept),
        guesses=(),
    )


def _span(words: Words, ends: Ends, step: int) -> TokenSpan:
    return TokenSpan(words.ends[ends[0] + step][0], words.ends[ends[1] - 1 + step][1])


_MASK = (1 << 64) - 1


def _mix(*numbers: int) -> int:
    """Mix numbers into one that looks random, the same in every run (splitmix64)."""
    mixed = 0
    for number in numbers:
        mixed = (mixed + number + 0x9E3779B97F4A7C15) & _MASK
        for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
            mixed = ((mixed ^ (mixed >> shift)) * factor) & _MASK
        mixed ^= mixed >> 31
    return mixed
