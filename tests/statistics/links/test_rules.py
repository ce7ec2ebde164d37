"""Simple rules beside heads: what each of them chooses, and that chance alone seldom beats them."""

from dataclasses import fields, replace
from types import SimpleNamespace

import numpy as np
import pytest
from block_parts import build_uniform_block

import attnprobe
from attnprobe.attention.kinds import number_layers
from attnprobe.attention.layout import Layout
from attnprobe.attention.tokens import TokenAnnotation, TokenLink, TokenSpan
from attnprobe.corpus.batch import Batch
from attnprobe.statistics.best_heads import LinkCondition
from attnprobe.statistics.links import LINKS_TASK, score_best_head
from attnprobe.statistics.links import SYNTAX_TASK as SYNTAX
from attnprobe.statistics.questions import questions_of
from attnprobe.statistics.rules import (
    ALL,
    COREFERENCE_TASK,
    FIRST,
    OF_PARTS_OF_SPEECH,
    PARTS_OF_SPEECH,
    SAME_CONTEXT,
    SAME_LEFT_CONTEXT,
    SAME_PLACE,
    SAME_TEXT,
)
from attnprobe.survey.finder import QuestionIndex, count_layers
from attnprobe.table.builder import Labels


def spans(number, first=1):
    return tuple(TokenSpan(at, at + 1) for at in range(first, first + number))


def ask(annotation, task=LINKS_TASK, *, causal=False):
    tokens = build_uniform_block(80).layout.keys
    other = tokens if annotation.keys is None else build_uniform_block(80).layout.keys
    return questions_of(Layout(tokens, other, causal=causal, annotations=(annotation,)), task)


def chosen(questions, rule):
    """Give the place of the word that a rule chooses, for each question."""
    return [int(questions.rows.spans[one][0]) for one in questions.choices[:, LINKS_TASK.rules.index(rule)]]


def agreeing(words, at, others, place, step):
    """How many neighbours of two words are alike, going one way."""
    number = 0
    while 0 <= at + step * (number + 1) < len(words) and 0 <= place + step * (number + 1) < len(others):
        if words[at + step * (number + 1)] != others[place + step * (number + 1)]:
            break
        number += 1
    return number


def by_definition(rule, words, at, others, choices):
    """Choose by a rule, with loops: among numbers of words of ``other``, for word ``at`` of ``one``."""

    def near(place):
        return (abs(place - at), place)

    same = [place for place in choices if others[place] == words[at]]
    if rule == SAME_TEXT or not same:
        return min(same or choices, key=near)

    def context(place):
        ways = (-1, 1) if rule == SAME_CONTEXT else (-1,)
        return sum(agreeing(words, at, others, place, step) for step in ways)

    return min(same, key=lambda place: (-context(place), near(place)))


@pytest.mark.parametrize("rule", [SAME_TEXT, SAME_CONTEXT, SAME_LEFT_CONTEXT])
@pytest.mark.parametrize("causal", [False, True])
def test_words_of_the_same_text(rule, causal):
    random = np.random.default_rng(0)
    for _ in range(20):
        letters = random.integers(0, 3, 14).tolist()
        words = spans(len(letters))
        links = [TokenLink(a, b, "x") for a, b in zip(words[1:], words[:-1], strict=True)]
        questions = ask(TokenAnnotation(words, tuple(links), forms=tuple(letters)), causal=causal)
        askers = [int(questions.rows.queries[row, 0]) - 1 for row in questions.row]
        expected = []
        for at in askers:
            choices = [word for word in range(14) if word != at and (not causal or word < at)]
            # A decoder does not know what comes behind the word.
            known = SAME_LEFT_CONTEXT if causal and rule == SAME_CONTEXT else rule
            expected.append(by_definition(known, letters, at, letters, choices) + 1)
        assert chosen(questions, rule) == expected


def test_the_same_place_of_another_text():
    """Of five words and of eight, both ways: the middle of a word falls into a word."""
    words = spans(13)
    links = [TokenLink(words[at], words[5], "x") for at in range(5)]
    links += [TokenLink(words[at], words[0], "x") for at in range(5, 13)]
    questions = ask(TokenAnnotation(words, tuple(links), second=words[5].start))
    askers = [int(questions.rows.queries[row, 0]) - 1 for row in questions.row]
    expected = [5 + int((at + 0.5) / 5 * 8) if at < 5 else int((at - 5 + 0.5) / 8 * 5) for at in askers]
    assert chosen(questions, SAME_PLACE) == [at + 1 for at in expected]


def test_who_wrote_the_links_may_say_what_a_rule_chooses():
    words = spans(6)
    guesses = (("same head word", words[1]),)
    link = TokenLink(words[5], words[1], "x", (words[0], words[1], words[3]), guesses=guesses)
    questions = ask(TokenAnnotation(words, (link,)), COREFERENCE_TASK)
    for rule, word in (("same head word", 1), (FIRST, 0)):
        (choice,) = questions.choices[:, COREFERENCE_TASK.rules.index(rule)]
        assert tuple(questions.rows.spans[choice]) == words[word]


def by_part_of_speech(rule, parts, at, choices):
    """Choose by a rule that goes by parts of speech, with loops."""

    def near(place):
        return (abs(place - at), place)

    first, second = rule.split()
    part = second if first == "nearest" else first
    of_part = [place for place in choices if parts[place] == part]
    side = [
        place for place in of_part if first == "nearest" or (place < at if second == "before" else place > at)
    ]
    return min(side or of_part or choices, key=near)


@pytest.mark.parametrize("task", [LINKS_TASK, SYNTAX])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("chosen_from", [None, 5])
def test_parts_of_speech(task, causal, chosen_from):
    """The nearest word of each, on either side, of all words that may be chosen."""
    random = np.random.default_rng(5)
    tags = [*PARTS_OF_SPEECH[:4], "NN", ""]
    checked = 0
    for _ in range(8):
        parts = random.choice(tags, 11).tolist()
        words, links, open_ = spans(11), [], []
        for at in range(11):
            others = [one for one in range(11) if one != at]
            if chosen_from:
                others = sorted(random.choice(others, chosen_from, replace=False).tolist())
            sources = tuple(words[one] for one in others) if chosen_from else ()
            links.append(TokenLink(words[at], words[others[0]], "x", sources, asks="forward"))
            open_.append([one for one in others if not causal or one < at])
        questions = ask(
            TokenAnnotation(words, tuple(links), parts_of_speech=tuple(parts)), task, causal=causal
        )
        askers = [int(questions.rows.queries[row, 0]) - 1 for row in questions.row]
        for question, at in enumerate(askers):
            for rule in OF_PARTS_OF_SPEECH:
                choice = questions.choices[question, task.rules.index(rule)]
                expected = by_part_of_speech(rule, parts, at, open_[at])
                assert int(questions.rows.spans[choice][0]) - 1 == expected, (rule, parts, at)
                checked += 1
    assert checked > 1000


def test_what_a_reaction_copies_is_found_by_its_context():
    """Left and right of an arrow stand the same atoms, many of them alike, at distances that vary."""
    random = np.random.default_rng(2)
    rows = []
    for _ in range(30):
        left = random.choice(list("CNO"), random.integers(12, 30)).tolist()
        start = random.integers(0, len(left) - 10)
        text = " ".join([*left, ">>", *left[start : start + 10]])
        places = [[2 * at, 2 * at + 1] for at in range(len(left))]
        behind = 2 * len(left) + 3
        links = [
            {
                "source": [behind + 2 * at, behind + 2 * at + 1],
                "target": places[start + at],
                "label": "atom",
                "candidates": places,
            }
            for at in range(10)
        ]
        rows.append({"text": text, "links": links})
    table = attnprobe.links("demo", rows)
    assert table.data["baseline_rule"] == [SAME_CONTEXT]
    assert table.data["baseline_offset"] == [None]
    assert table["baseline"][0] > 0.7


def p_of_chance(random, task, sentences=60, heads=6, models=8):
    """Give the p of the best head of some models that look anywhere, against the best rule, on random
    links."""
    annotations = []
    for _ in range(sentences):
        words = spans(random.integers(4, 12))
        number = len(words)
        ends = [(at, (at + random.integers(1, number)) % number) for at in range(number)]
        annotations.append(TokenAnnotation(words, tuple(TokenLink(words[a], words[b], "x") for a, b in ends)))
    features = build_uniform_block(16).layout.keys
    tokens = replace(
        features,
        **{
            name.name: getattr(features, name.name).repeat(sentences, 1)
            for name in fields(features)
            if name.name != "mixed"
        },
    )
    questions = questions_of(Layout(tokens, tokens, annotations=tuple(annotations)), task)
    rows, shape = questions.rows, (len(questions.rows), heads * models)
    number = np.diff(rows.candidates, axis=1) - np.diff(rows.itself, axis=1)
    choice = rows.candidates[:, :1] + (random.random(shape) * number).astype(int)
    choice += choice >= rows.itself[:, :1]
    counting = QuestionIndex(
        questions, Batch({}, tokens, np.arange(sentences), SimpleNamespace(names=np.arange(sentences)))
    )
    tally = count_layers([(counting, choice)], shape[1], [range(shape[1])])
    condition = LinkCondition(ALL, task.forward, None, [0], [(ALL, task.forward)])
    for model in range(models):
        gone = {(0, head) for head in range(shape[1]) if head // heads != model}
        labels = Labels("m", "d", {}, number_layers(("encoder",)), removed=gone)
        yield score_best_head(tally, condition, task, labels, 1)["p"]


def test_false_alarms():
    """Heads that look anywhere are rarely ahead of the best rule by chance.

    When an offset that pointed outside of the sentence counted as wrong, they were in one of seven draws.
    """
    random = np.random.default_rng(3)
    p = np.array([one for _ in range(20) for one in p_of_chance(random, SYNTAX)])
    assert (p < 0.05).mean() < 0.05
    assert (p < 0.25).mean() < 0.25
