"""Scores of the confusion matrix, one example at a time."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import pearsonr

from attnprobe.intervention.metrics.counts import Confusion, f1, matthews
from attnprobe.sums.inference import FEWEST, PermutationTest

Ints = NDArray[np.int64]
FUNCTIONS = {"mcc": matthews, "f1": f1}


def drawn(seed: int, classes: int, number: int = 60, skill: float = 0.6) -> tuple[Ints, Ints, Ints]:
    """Labels, and two predictions that are better than chance."""
    draw = np.random.default_rng(seed)
    label = draw.choice(classes, number, p=draw.dirichlet(np.full(classes, 4.0)))

    def guess() -> Ints:
        return np.where(draw.random(number) < skill, label, draw.integers(classes, size=number))

    return label, guess(), guess()


def mcc_by_hand(label: Ints, guess: Ints, classes: int) -> float:
    """Gorodkin's R_K: the correlation of the indicator matrices, summed over classes."""
    x, y = np.eye(classes)[guess], np.eye(classes)[label]
    x, y = x - x.mean(0), y - y.mean(0)
    below = np.sqrt((x * x).sum() * (y * y).sum())
    return float((x * y).sum() / below) if below > 1e-9 else 0.0


def f1_by_hand(label: Ints, guess: Ints, classes: int) -> float:
    """From precision and recall."""
    each = []
    for kind in range(classes) if classes > 2 else [1]:
        hits = sum(1 for a, b in zip(label, guess, strict=True) if a == b == kind)
        named, there = int((guess == kind).sum()), int((label == kind).sum())
        if named + there == 0:
            each += [] if classes > 2 else [0.0]
        elif hits == 0:
            each.append(0.0)
        else:
            precision, recall = hits / named, hits / there
            each.append(2 * precision * recall / (precision + recall))
    return sum(each) / len(each)


BY_HAND = {"mcc": mcc_by_hand, "f1": f1_by_hand}


def metric(name: str, classes: int, seed: int = 0, most: int = FEWEST) -> Confusion:
    return Confusion(name, FUNCTIONS[name], classes, PermutationTest(seed, most))


def outcome(label: Ints, guess: Ints) -> dict[str, Any]:
    return {"label": label.astype(np.float64), "prediction": guess.astype(np.float32)}


@pytest.mark.parametrize("name", ["mcc", "f1"])
@pytest.mark.parametrize("classes", [2, 3, 5])
@pytest.mark.parametrize("number", [2, 7, 60])
def test_score(name: str, classes: int, number: int):
    for seed in range(8):
        label, guess, _ = drawn(seed, classes, number)
        found = metric(name, classes).score(outcome(label, guess))
        wanted = BY_HAND[name](label, guess, classes) if len(set(label)) > 1 else float("nan")
        assert found == pytest.approx(wanted, abs=1e-12, nan_ok=True)


@pytest.mark.parametrize("seed", range(5))
def test_two_classes(seed: int):
    label, guess, _ = drawn(seed, 2)
    tp, tn = int((label & guess).sum()), int(((1 - label) & (1 - guess)).sum())
    fp, fn = int(((1 - label) & guess).sum()), int((label & (1 - guess)).sum())
    mcc = (tp * tn - fp * fn) / np.sqrt(float((tp + fp) * (tp + fn) * (tn + fp) * (tn + fn)))
    assert metric("mcc", 2).score(outcome(label, guess)) == pytest.approx(mcc)
    assert metric("mcc", 2).score(outcome(label, guess)) == pytest.approx(pearsonr(label, guess)[0])
    assert metric("f1", 2).score(outcome(label, guess)) == pytest.approx(2 * tp / (2 * tp + fp + fn))


@pytest.mark.parametrize("name", ["mcc", "f1"])
@pytest.mark.parametrize("classes", [2, 3, 5])
def test_jackknife(name: str, classes: int):
    label, ours, theirs = drawn(3, classes, 35)
    score, number = BY_HAND[name], len(label)

    def spread(values: list[float]) -> float:
        return float(np.sqrt((number - 1) / number * np.square(values - np.mean(values)).sum()))

    kept = [np.arange(number) != example for example in range(number)]
    one = [score(label[rest], ours[rest], classes) for rest in kept]
    other = [score(label[rest], theirs[rest], classes) for rest in kept]
    found = metric(name, classes)
    assert found.standard_error(outcome(label, ours)) == pytest.approx(spread(one), rel=1e-9)
    compared = found.compare(outcome(label, ours), outcome(label, theirs))
    assert compared.error == pytest.approx(spread(np.subtract(one, other)), rel=1e-9)
    assert compared.delta == pytest.approx(score(label, ours, classes) - score(label, theirs, classes))


@pytest.mark.parametrize(
    ("name", "classes", "seed"), [("mcc", 2, 1), ("f1", 2, 2), ("mcc", 3, 3), ("f1", 5, 4)]
)
def test_exchange(name: str, classes: int, seed: int):
    """Exchange the predictions of each example with probability 1/2, a thousand times."""
    label, ours, theirs = drawn(seed, classes, 40)
    found = metric(name, classes).compare(outcome(label, ours), outcome(label, theirs))
    score, draw, rounds, as_large = BY_HAND[name], np.random.default_rng(99), 1000, 0
    for _ in range(rounds):
        swap = draw.random(40) < 0.5
        one, other = np.where(swap, theirs, ours), np.where(swap, ours, theirs)
        apart = score(label, one, classes) - score(label, other, classes)
        as_large += abs(apart) >= abs(found.delta) - 1e-12
    expected = as_large / rounds
    assert 0.02 < expected < 0.98
    assert found.p == pytest.approx(expected, abs=4 * np.sqrt(expected * (1 - expected) / rounds) + 0.003)


def test_exchange_of_few_is_exact():
    """Three examples differ: one of eight exchanges, and its mirror image, differ as much."""
    label = np.array([0, 1] * 10)
    ours, theirs = label.copy(), label.copy()
    theirs[:3] = 1 - theirs[:3]
    found = metric("mcc", 2).compare(outcome(label, ours), outcome(label, theirs))
    assert found.p == pytest.approx(2 / 8, abs=0.02)


def test_p_under_the_null():
    p = []
    for seed in range(300):
        label, ours, theirs = drawn(seed, 3, 80)
        p.append(metric("mcc", 3, seed, 199).compare(outcome(label, ours), outcome(label, theirs)).p)
    assert 0.02 < np.mean(np.array(p) <= 0.05) < 0.09
    assert 0.44 < np.mean(p) < 0.58


@pytest.mark.parametrize("name", ["mcc", "f1"])
def test_pseudovalues_are_of_the_score_without_one(name: str):
    label, guess, _ = drawn(5, 3, 30)
    one = metric(name, 3)
    found = one.pseudovalues(outcome(label, guess))
    score = BY_HAND[name]
    for place in range(30):
        rest = np.arange(30) != place
        without = score(label[rest], guess[rest], 3)
        assert found[place] == pytest.approx(30 * score(label, guess, 3) - 29 * without)
    assert one.standard_error(outcome(label, guess)) == pytest.approx(found.std(ddof=1) / np.sqrt(30))
