"""Entities that labels spell out: the examples of conlleval and seqeval."""

import warnings

import numpy as np
import pytest

from attnprobe.intervention.metrics.counts import count_entities, has_entities

metrics = pytest.importorskip("seqeval.metrics")


@pytest.mark.parametrize(
    ("said", "gold", "counts"),
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
def test_counts(said: str, gold: str, counts: tuple[int, int, int]):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert count_entities(said.split(), gold.split()) == counts


def test_f1_of_all_texts_is_that_of_seqeval():
    draw = np.random.default_rng(0)
    names = np.array(["O", "O", "B-PER", "I-PER", "B-LOC", "I-LOC"])
    gold = [draw.choice(names, draw.integers(1, 12)).tolist() for _ in range(40)]
    said = [[one if draw.random() < 0.8 else str(draw.choice(names)) for one in text] for text in gold]
    right, predicted, there = np.sum([count_entities(*pair) for pair in zip(said, gold, strict=True)], 0)
    assert 2 * right / (predicted + there) == pytest.approx(metrics.f1_score(gold, said))


def test_has_entities():
    assert has_entities(["O", "B-PER"])
    assert has_entities(["I-MISC"])
    assert has_entities(["S-LOC", "O"])
    assert not has_entities(["NOUN", "VERB", "SYM", "INTJ", "O", "X", "IN", "EX", "BES", "-LRB-"])
