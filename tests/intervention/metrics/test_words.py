"""Entities against seqeval, and answers against what SQuAD's own script, evaluate-v2.0.py, gives."""

import warnings

import numpy as np
import pytest

from attnprobe.intervention.objectives.classification import count_entities
from attnprobe.intervention.objectives.question_answering import answer_f1, exact_match

metrics = pytest.importorskip("seqeval.metrics")


@pytest.mark.parametrize(
    ("predicted", "gold", "counts"),
    [
        ("B-A I-A O", "B-A I-A O", (1, 1, 1)),
        ("B-A O O", "B-A I-A O", (0, 1, 1)),
        ("I-A I-A O", "B-A I-A O", (1, 1, 1)),  # an I after O begins an entity
        ("B-A B-A O", "B-A I-A O", (0, 2, 1)),
        ("B-A I-B O", "B-A I-A O", (0, 2, 1)),
        ("B-A I-A O B-B", "B-B I-B O B-B", (1, 2, 2)),
        ("O O", "O O", (0, 0, 0)),
        ("S-A B-B E-B", "S-A B-B E-B", (2, 2, 2)),
        ("[PAD] B-A [CLS]", "O B-A O", (1, 1, 1)),  # of no scheme
        ("B I O", "B I I", (0, 1, 1)),
    ],
)
def test_counts(predicted: str, gold: str, counts: tuple[int, int, int]):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert count_entities(predicted.split(), gold.split()) == counts


def test_f1_of_all_texts_is_that_of_seqeval():
    draw = np.random.default_rng(0)
    names = np.array(["O", "O", "B-PER", "I-PER", "B-LOC", "I-LOC"])
    gold = [draw.choice(names, draw.integers(1, 12)).tolist() for _ in range(40)]
    predicted = [[one if draw.random() < 0.8 else str(draw.choice(names)) for one in text] for text in gold]
    right, *named = np.sum([count_entities(*pair) for pair in zip(predicted, gold, strict=True)], 0)
    assert 2 * right / sum(named) == pytest.approx(metrics.f1_score(gold, predicted))


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


@pytest.mark.parametrize(("predicted", "answers", "exact", "f1"), KNOWN)
def test_known_answers(predicted: str, answers: list[str], exact: bool, f1: float):
    assert exact_match(predicted, answers) == exact
    assert answer_f1(predicted, answers) == pytest.approx(f1)
