"""Overlap and exact match of answers: what SQuAD's own script, evaluate-v2.0.py, gives."""

import pytest

from attnprobe.intervention.metrics.counts import answer_f1, exact_match, normalise_answer

#: Worked out by hand from the definitions: shared words twice, over the words of both.
KNOWN = [
    ("Denver Broncos", ["Denver Broncos", "The Denver Broncos"], True, 1),
    ("the  denver broncos.", ["Denver Broncos"], True, 1),
    ("Broncos", ["Denver Broncos"], False, 2 / 3),
    ("Denver Denver Broncos", ["Broncos Denver"], False, 4 / 5),
    ("Carolina", ["Denver", "Carolina Panthers of the south"], False, 2 / 5),
    ("a", ["Denver"], False, 0),
    ("", ["Denver"], False, 0),
    ("", [], True, 1),
    ("Denver", [], False, 0),
    ("the", [], True, 1),
    ("an", ["the", "a"], True, 1),
    ("x", ["the", "x"], True, 1),
    ("theatre", ["heatre"], False, 0),
    ("10 000", ["10,000"], False, 0),
    ("it's", ["its"], True, 1),
]


@pytest.mark.parametrize(("said", "answers", "exact", "f1"), KNOWN)
def test_known_answers(said: str, answers: list[str], exact: bool, f1: float):
    assert exact_match(said, answers) == exact
    assert answer_f1(said, answers) == pytest.approx(f1)


def test_normalised():
    assert normalise_answer("The (big)  A-team, an apple's\tcore") == "big ateam apples core"
