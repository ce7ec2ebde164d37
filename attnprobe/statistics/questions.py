"""From the annotations of a batch to flat arrays: who is asked, and what would be right."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from attnprobe.attention.tokens import TokenAnnotation, TokenLink, TokenSpan
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
from attnprobe.sums.documents import splitmix64
from attnprobe.sums.links import FAR, Key

if TYPE_CHECKING:
    from attnprobe.attention.layout import Layout
    from attnprobe.corpus.batch import Groups
    from attnprobe.kernels.words import Ints, Rows


#: Where a decoder beside an encoder is asked, and how many places before it reads a word; and all others.
_POSITIONS, _ONLY = ((OUTPUT, 1), (INPUT, 0)), (("", 0),)
#: Behind every token.
_ANYWHERE = 1 << 30


@dataclass(frozen=True)
class Questions:
    """What is asked of every head about the links of a batch, in one kind of attention.

    ``left_out`` counts questions that are not asked, as both ends are the same tokens, a decoder sees no
    answer, or every candidate is right; of alignments, the first are pairs that were cut.
    """

    rows: Rows
    row: Ints  # (question,) its row, which several may share
    right: Ints  # (answer, 2) candidates that are right: the first and the one behind the last
    answers: Ints  # (question, 2) where its right answers are among these
    rules: tuple[str, ...]
    keys: tuple[Key, ...]  # what questions count for; those of links at a distance end in ``FAR``
    entries: Ints  # (entry, 3) a question, its key, and the sequence it lies in
    choices: Ints  # (question, rule) the candidate that each rule chooses; -1 for none
    chance: NDArray[np.float64]  # (question,) the share of candidates that are right, if the link names some
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


def part_by_group(questions: Questions, groups: Groups) -> Questions:
    """Return questions whose keys begin with the name of their group of documents."""
    question, key, sequence = questions.entries.T
    number = len(groups.names)
    pairs, place = np.unique(key * number + groups.of[sequence], return_inverse=True)
    keys = tuple((groups.names[pair % number], *questions.keys[pair // number]) for pair in pairs.tolist())
    return replace(questions, keys=keys, entries=np.stack([question, place, sequence], 1))


class QuestionBuilder:
    """Collects the questions of a batch."""

    def __init__(self) -> None:
        self.spans: list[Ends] = []
        self.rows: list[tuple[int, ...]] = []
        self.choices: list[Ints] = []
        self.left_out = [0, 0, 0]
        self._questions: list[tuple[int, int, int]] = []
        self._right: list[Ends] = []
        self._chance: list[float] = []
        self._keys: dict[Key, int] = {}
        self._entries: list[tuple[int, int, int]] = []

    def offer(self, spans: Sequence[Ends]) -> int:
        """Append candidates, and give the number of the first."""
        self.spans += spans
        return len(self.spans) - len(spans)

    def ask(
        self, sequence: int, row: int, right: Sequence[Ends], keys: Sequence[Key], chance: float = 0.0
    ) -> None:
        """Append a question to a row: ``right`` are its right candidates, if any; it counts for keys."""
        places = [self._keys.setdefault(key, len(self._keys)) for key in keys]
        self._entries += [(len(self._questions), place, sequence) for place in places]
        self._questions.append((row, len(self._right), len(self._right) + max(1, len(right))))
        self._right += right or [NONE]
        self._chance.append(chance)

    def build(self, rules: tuple[str, ...]) -> Questions:
        from attnprobe.kernels.words import Rows

        rows, questions = make_array(self.rows, 7), make_array(self._questions, 3)
        return Questions(
            Rows(rows[:, 0], rows[:, 1:3], rows[:, 3:5], rows[:, 5:7], make_array(self.spans, 2)),
            questions[:, 0],
            make_array(self._right, 2),
            questions[:, 1:],
            rules,
            tuple(self._keys),
            make_array(self._entries, 3),
            np.concatenate([np.zeros((0, len(rules)), np.int64), *self.choices]),
            np.array(self._chance, np.float64),
            np.array(self.left_out, np.int64),
        )


def make_array(values: Sequence[Sequence[int]], columns: int) -> Ints:
    """Make an array (row, column) of rows, of which there may be none."""
    return np.array(values, np.int64).reshape(len(values), columns)


def questions_of(layout: Layout, task: LinkTask, *, moved: bool = False) -> Questions:
    """Share of gold links whose other end is the word that the head attends to most.

    Attention to a word is the sum over its tokens, attention from a word the mean over its tokens. The answer
    is the most attended word other than the query word, or, if the link names candidates, the most attended
    candidate; of a tie, the first. Words that share all their tokens are one word. In a decoder, only links
    count whose answer comes before the query word.

    The decoder of an encoder-decoder model reads each token one position after it predicts it. Its words are
    scored twice: at the positions where they are predicted, whose next token belongs to the word, and where
    they are read.

    The control scores ``moved`` links, see ``move_links``.

    Limits: 0 to 1.

    Source: Clark et al. (2019), section 4; Kobayashi et al. (2020), section 5, and Chen et al. (2020) for the
    two positions of a decoder.
    """
    builder = QuestionBuilder()
    for sequence, annotation in enumerate(layout.annotations):
        if annotation is not None and annotation.links:
            _ask_links(builder, task, layout, sequence, move_links(annotation) if moved else annotation)
    return builder.build(task.rules)


def _read_sides(annotation: TokenAnnotation) -> tuple[Words, Words]:
    """Read the words that ask, and those that answer: the same but in cross-attention."""
    words = Words(annotation.words, annotation.second, annotation.forms, annotation.parts_of_speech)
    if annotation.keys is None:
        return words, words
    return words, Words(annotation.keys, 0, annotation.key_forms, annotation.key_parts_of_speech)


def _ask_links(
    builder: QuestionBuilder, task: LinkTask, layout: Layout, sequence: int, annotation: TokenAnnotation
) -> None:
    """Append the questions about the links of a sequence to ``builder``, or count why they are left out."""
    positions = _POSITIONS if layout.shifted else _ONLY
    asking, answering = _read_sides(annotation)
    crossed, first = annotation.keys is not None, builder.offer(answering.ends)
    # The words that may be chosen, or the candidates that links name, and the number of the first.
    offered: dict[tuple[TokenSpan, ...], tuple[Words, int]] = {(): (answering, first)}
    rows: dict[tuple[TokenSpan, tuple[TokenSpan, ...], str], int] = {}
    for_rules: list[RuleQuestion] = []
    directed = [(link, *direction) for link in annotation.links for direction in task.directions(link)]
    for link, direction, forward in directed:
        asker, *spans = (link.source, link.target, *link.also) if forward else (link.target, link.source)
        if link.candidates not in offered:
            words = Words(link.candidates)
            offered[link.candidates] = words, builder.offer(words.ends)
        words, begin = offered[link.candidates]
        place = _find_asker(annotation, asking, answering, asker)
        among_words = itself = NONE if crossed and not annotation.same else place
        if link.candidates:
            itself = NONE if crossed or (asker.start, asker.stop) not in words.ends else words.within(asker)
        sight = asker.stop - positions[0][1] if layout.causal else _ANYWHERE
        named = _list_open(words, itself, sight) if link.candidates else None
        right, chance, missing = _find_right(words, spans, itself, sight, named)
        if missing is not None:
            builder.left_out[missing] += 1
            continue
        by_words = right if words is answering else [(span, answering.within(span)) for span, _ in right]
        places = [(answering.within(TokenSpan(*words.ends[one])), one) for one in reversed(named or ())]
        guesses = [(name, words.within(span)) for name, span in link.guesses]
        open_ = range(len(words.ends)) if named is None else named
        rule_question = RuleQuestion(
            place,
            among_words,
            answering.text_of(by_words[0][1][0]),
            sight,
            first,
            None if named is None else {at[0]: begin + one for at, one in places if at != NONE},
            [(name, begin + ends[0]) for name, ends in guesses if ends != NONE and ends[0] in open_],
        )
        far = _are_far(annotation, asker, place, by_words)
        # A control is asked about no rules, and about no distances.
        ends_of_keys = ((), (FAR,)) if far and task.rules else ((),)
        for position, before in positions:
            row = rows.setdefault((asker, link.candidates, position), len(builder.rows))
            if row == len(builder.rows):
                ends = begin, begin + len(words.ends), begin + itself[0], begin + itself[1]
                builder.rows.append((sequence, asker.start - before, asker.stop - before, *ends))
            way = (direction, position) if position else (direction,)
            keys = [(label, *way, *end) for label in list_labels(link) for end in ends_of_keys]
            numbers = [(start + begin, stop + begin) for _, (start, stop) in right]
            builder.ask(sequence, row, numbers, keys, chance)
            for_rules.append(rule_question)
    home = answering if annotation.same else asking
    ahead = not (layout.causal or layout.shifted)
    builder.choices.append(choose_by_rules(task, home, answering, for_rules, ahead=ahead))


def _list_open(words: Words, itself: Ends, sight: int) -> list[int]:
    """List the words within the sight of who asks, but those that are the asker itself."""
    seen = [number for number, (_, stop) in enumerate(words.ends) if stop <= sight]
    return [number for number in seen if not itself[0] <= number < itself[1]]


def _find_right(
    words: Words, spans: Sequence[TokenSpan], itself: Ends, sight: int, named: Sequence[int] | None
) -> tuple[list[tuple[TokenSpan, Ends]], float, int | None]:
    """Find which spans are right answers in sight, with their words.

    Beside these are the share of ``named`` candidates that are right, and, if there is nothing to ask, the
    place of the reason in ``Questions.left_out``.
    """
    others = [
        (span, ends)
        for span in spans
        if (ends := words.within(span)) != NONE and not (itself[0] <= ends[0] and ends[1] <= itself[1])
    ]
    right = [(span, ends) for span, ends in others if words.ends[ends[1] - 1][1] <= sight]
    chance = 0.0
    if named is not None:
        wrong = set(named).difference(*(range(*ends) for _, ends in right))
        chance = 1 - len(wrong) / max(1, len(named))
    missing = 0 if not others else 1 if not right else 2 if chance == 1 else None
    return right, chance, missing


def _find_asker(annotation: TokenAnnotation, asking: Words, answering: Words, asker: TokenSpan) -> Ends:
    """Find the range of the asker's words; by numbers of keys where a decoder reads the same text."""
    if annotation.keys is None or not annotation.same:
        return asking.within(asker)
    words = zip(annotation.words, annotation.keys, strict=False)
    inside = [key for word, key in words if asker.start <= word.start and word.stop <= asker.stop]
    ends = [answering.within(key) for key in inside] or [NONE]
    return min(first for first, _ in ends), max(stop for _, stop in ends)


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
    pairs = [
        ((asker.start - shift, asker.stop - shift), (span.start, span.stop))
        if NONE in (place, words)
        else (place, words)
        for span, words in answers
    ]
    return all(theirs[0] > ours[1] or ours[0] > theirs[1] for ours, theirs in pairs)


# A control: the same links between other words, of which a head can know no more than where they stand


def move_links(annotation: TokenAnnotation) -> TokenAnnotation:
    """Move each link of a sequence to other words of the same text, at the same distance.

    Both ends move by the same number of words, drawn from all nonzero numbers that keep them in their texts.
    So a head that follows positions finds as many links of each label as before; a head that knows the
    relation does not. If a link names candidates, as many of them as were right are drawn instead. A link
    that can't be moved is left out. Draws depend on words and ends alone, so separate jobs agree. See Hewitt
    and Liang (2019), Designing and interpreting probes with control tasks, on selectivity.
    """
    queries, keys = _read_sides(annotation)
    seed = (sum(annotation.forms) + len(annotation.words)) % (1 << 64)
    links = []
    for link in annotation.links:
        if link.candidates:
            draws = _hash(seed, link.source.start, np.arange(len(link.candidates), dtype=np.uint64))
            drawn = [link.candidates[place] for place in np.argsort(draws)]
            moved = link._replace(target=drawn[0], also=tuple(drawn[1 : 1 + len(link.also)]), guesses=())
        elif link.asks == "backward":  # where the source is among the keys
            moved = _move_link(link, keys, queries, seed)
        else:
            moved = _move_link(link, queries, keys, seed)
        links.append(moved)
    return annotation._replace(links=tuple(link for link in links if link is not None))


def _move_link(link: TokenLink, home: Words, other: Words, seed: int) -> TokenLink | None:
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
    step = least + int(_hash(seed, source[0], target[0])[0]) % (most - least)
    step += step >= 0  # not where it is
    also = (other.within(span) for span in link.also)
    kept = [ends for ends in also if ends != NONE and text[0] <= ends[0] + step and ends[1] + step <= text[1]]
    return link._replace(
        source=_span(home, source, step),
        target=_span(other, target, step),
        also=tuple(_span(other, ends, step) for ends in kept),
        guesses=(),
    )


def _span(words: Words, ends: Ends, step: int) -> TokenSpan:
    return TokenSpan(words.ends[ends[0] + step][0], words.ends[ends[1] - 1 + step][1])


def _hash(*numbers: int | NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Hash numbers, or arrays of them, one after the other; alike in every run."""
    mixed = np.zeros(1, np.uint64)
    for number in numbers:
        mixed = splitmix64(mixed + np.asarray(number, np.uint64))
    return mixed
