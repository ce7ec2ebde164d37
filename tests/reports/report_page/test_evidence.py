"""Examples of roles, against maps in which it is known where a head looks."""

import numpy as np
import pytest

from attnprobe.attention.kinds import Kind
from attnprobe.reports.report_page.evidence import (
    find_examples,
    list_relations,
    measure_clearness,
)
from attnprobe.reports.report_page.measures import Heads
from attnprobe.survey.tokens import Maps, SequenceAttention, Side
from attnprobe.table.head_table import HeadTable
from attnprobe.table.table import Column

WORDS = ["[CLS]", "the", "dog", "<b>ran", "."]


def side(words):
    return Side(tuple(words), tuple(words), np.zeros(len(words), bool))


def sequence(words, *maps):
    """Make a sentence in one layer, with a map for each head."""
    rows = np.array([maps], np.float32)
    return SequenceAttention(
        "m", (" ".join(words),),
        (Maps(Kind.ENCODER, (0,), rows, side(words), side(words), np.ones((1, len(maps)), bool)),),
    )  # fmt: skip


def look(size, offset, share):
    """Make a map in which each token gives a share to the one at an offset, where there is one."""
    rows = np.full((size, size), (1 - share) / (size - 1))
    for query in range(size):
        rows[query, query + offset if 0 <= query + offset < size else query] = share
    return rows


def make_table(*rows):
    names = ("layer", "head", "role", "value", "value_se", "nearest", "nearest_value", "nearest_threshold")
    cells = [(0, head, *row) for head, row in enumerate(rows)]
    data = dict(zip(names, map(list, zip(*cells, strict=True)), strict=True))
    return HeadTable("roles of heads", [Column(name) for name in names], data)


def heads(number):
    return Heads([("", 0, head) for head in range(number)])


NONE = (None, None, None)


def test_the_strongest_head_in_its_clearest_sentence():
    table = make_table(
        ("previous", 0.6, 0.01, *NONE), ("previous", 0.9, 0.02, *NONE), ("offset +2", 0.7, 0.1, *NONE)
    )
    faint, clear = look(5, -1, 0.5), look(5, -1, 0.95)
    clear[3] = [0.01, 0.01, 0.96, 0.01, 0.01]
    seen = [
        sequence(WORDS, clear, faint, look(5, 2, 0.3)),  # the weaker head is clear here
        sequence(WORDS, faint, clear, look(5, 2, 0.6)),
        sequence(WORDS[:2], look(2, -1, 0.9), look(2, -1, 0.9), look(2, 1, 0.9)),  # too short for an offset
    ]
    previous, offset = find_examples(heads(3), table, seen)
    assert (previous.role, previous.head, previous.sentence) == ("previous", 1, 1)
    assert previous.value == "0.9 \u00b1 0.02"
    assert (previous.origin, previous.target, previous.share) == ("<b>ran", "dog", "0.96")
    marks = {word.text: word.mark for word in previous.words}
    assert marks == {"[CLS]": "", "the": "", "dog": "to", "<b>ran": "from", ".": ""}
    assert (offset.role, offset.sentence, offset.origin, offset.target) == ("offset +2", 1, "[CLS]", "dog")


@pytest.mark.parametrize("offset", [-2, -1, 0, 1, 3])
def test_an_offset_is_a_mean_over_tokens_that_have_one_there(offset):
    rows = np.random.default_rng(offset + 5).dirichlet(np.ones(6), 6)
    role = {-1: "previous", 0: "self", 1: "next"}.get(offset, f"offset {offset:+d}")
    score, link = measure_clearness(rows, role)
    there = np.diagonal(rows, offset)
    assert score == pytest.approx(there.mean())
    assert rows[link] == there.max()
    assert link[1] - link[0] == offset


def test_a_delimiter_is_the_token_that_all_look_at():
    rows = np.random.default_rng(3).dirichlet(np.ones(5), 5)
    rows[:, 2] += 2
    rows /= rows.sum(1, keepdims=True)
    score, (query, key) = measure_clearness(rows, "delimiter")
    assert (key, score) == (2, pytest.approx(rows[:, 2].mean()))
    assert query != 2
    assert rows[query, 2] == max(rows[other, 2] for other in (0, 1, 3, 4))
    assert measure_clearness(rows, "sink")[1][1] == 0
    link = measure_clearness(rows, "syntactic: det")[1]
    apart = rows - np.eye(5) * 9
    assert apart[link] == apart.max()


def test_roles_of_random_tokens_and_none_have_no_example():
    table = make_table(*((role, 0.9, 0.1, *NONE) for role in ("induction", "broad", "mixed")))
    assert find_examples(heads(3), table, [sequence(WORDS, *[look(5, -1, 0.9)] * 3)]) == []
    table = make_table(("previous", None, None, *NONE), ("previous", 0.9, None, *NONE))
    assert find_examples(heads(2), table, []) == []
    (one,) = find_examples(heads(2), table, [sequence(WORDS, *[look(5, -1, 0.9)] * 2)])
    assert (one.head, one.value) == (1, "0.9")


def test_a_role_about_words_is_shown_by_words():
    rows = np.full((5, 5), 0.1)
    rows[3] = [0.7, 0.02, 0.2, 0.05, 0.03]
    rows[2] = [0.1, 0.05, 0.1, 0.05, 0.7]
    special = np.array([True, False, False, False, False])
    one = Side(tuple(WORDS), tuple(WORDS), special)
    maps = Maps(Kind.ENCODER, (0,), np.array([[rows]], np.float32), one, one, np.ones((1, 1), bool))
    table = make_table(("syntactic: det", 0.6, 0.1, *NONE))
    (found,) = find_examples(heads(1), table, [SequenceAttention("m", ("x",), (maps,))])
    assert (found.origin, found.target) == ("<b>ran", "dog")
    bare = Side(("[CLS]", "."), ("[CLS]", "."), np.array([True, False]))
    nothing = Maps(
        Kind.ENCODER, (0,), np.full((1, 1, 2, 2), 0.5, np.float32), bare, bare, np.ones((1, 1), bool)
    )
    assert find_examples(heads(1), table, [SequenceAttention("m", ("x",), (nothing,))]) == []


def test_relations_are_listed_by_their_gain_and_starred_by_adjusted_p():
    columns = ["relation", "direction", "n", "layer", "head", "accuracy", "accuracy_se", "baseline",
               "baseline_rule", "gain", "gain_se", "p", "p_adjusted"]  # fmt: skip
    rows = [
        ("det", "head_to_dependent", 20, 0, 1, 0.5, 0.1, 0.4, "offset -1", 0.1, 0.02, 0.01, 0.2),
        ("<obj>", "dependent_to_head", 30, 0, 2, 0.75, 0.05, 0.25, "nearest VERB", 0.5, 0.03, 0.001, 0.04),
        ("amod", "dependent_to_head", 30, 0, 0, 0.1, 0.05, 0.25, "", -0.15, 0.03, None, None),
        ("nsubj", "dependent_to_head", 3, None, None, None, None, None, None, None, None, None, None),
    ]
    data = dict(zip(columns, map(list, zip(*rows, strict=True)), strict=True))
    found = list_relations(heads(3), HeadTable("syntax", [Column(name) for name in columns], data))
    assert [one.name for one in found] == [
        "<obj>, dependent to head",
        "det, head to dependent",
        "amod, dependent to head",
    ]
    assert found[0] == (
        "<obj>, dependent to head", 2, "30", "0.75 \u00b1 0.05", "0.25 (nearest VERB)",
        "0.5 \u00b1 0.03", True,
    )  # fmt: skip
    assert [one.significant for one in found] == [True, False, False]  # p alone is none that counts
