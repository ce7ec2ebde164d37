"""What a pruning curve says of itself: paired, corrected, and with what it can't tell."""

import numpy as np
import pytest

from attnprobe.intervention.metrics.mean import Mean
from attnprobe.intervention.metrics.metric import Comparison
from attnprobe.intervention.pruning.differences import Differences, from_random, from_whole
from attnprobe.intervention.pruning.headline import Curve, notes
from attnprobe.sums.significance import adjust

REMOVED = [0, 10, 20, 30, 40]


def differences(deltas, errors, p):
    return Differences.of([Comparison(*step) for step in zip(deltas, errors, p, strict=True)])


NAN = float("nan")
NO_CHANCE = differences([NAN] * 5, [NAN] * 5, [NAN] * 5)


def said(scores, deltas, errors, p, chance=NO_CHANCE, higher=True, random=(), n=400):
    metric = Mean("accuracy" if higher else "loss", higher_is_better=higher)
    curve = Curve(metric, np.array([scores, *random]), np.full(5, 0.02), REMOVED, n)
    return notes(curve, differences([NAN, *deltas], [NAN, *errors], [NAN, *p]), chance)


def test_the_first_significant_loss_ends_it():
    """An unpaired error of .02 would hide .015 with a paired error of .004."""
    first, caution, loss = said(
        [0.9, 0.899, 0.885, 0.8, 0.5], [-0.001, -0.015, -0.1, -0.4], [0.002, 0.004, 0.01, 0.02],
        [0.6, 0.0006, 1e-9, 1e-9],
    )  # fmt: skip
    assert first == (
        "With up to 10 of 40 heads removed, accuracy is not significantly worse than the whole model's 0.9 "
        "(paired over 400 examples, adjusted p < 0.05)."
    )
    assert "n = 400, a difference below 0.0039 would not show" in caution
    assert loss == (
        "With 20 heads removed, accuracy is worse by 0.015 (standard error 0.004, adjusted p = "
        f"{adjust([0.6, 0.0006, 1e-9, 1e-9])[1]:.2g})."
    )


def test_at_the_first_step():
    (loss,) = said([0.9, 0.8, 0.7, 0.6, 0.5], [-0.1, -0.2, -0.3, -0.4], [0.01] * 4, [1e-9] * 4)
    assert loss.startswith("With 10 heads removed, the first step, accuracy is worse by 0.1 ")


def test_a_better_score_does_not_end_it():
    first, *_ = said([0.5, 0.6, 0.7, 0.8, 0.4], [0.1, 0.2, 0.3, -0.1], [0.01] * 4, [1e-9] * 4)
    assert first.startswith("With up to 30 of 40 heads")


def test_of_a_loss_more_is_worse():
    first, _, loss = said([1, 0.9, 1.5, 2, 3], [-0.1, 0.5, 1, 2], [0.01] * 4, [1e-9] * 4, higher=False)
    assert first.startswith("With up to 10 of 40 heads removed, loss")
    assert loss.startswith("With 20 heads removed, loss is worse by 0.5 ")


def test_never():
    first, caution = said([0.9] * 5, [0.0, -0.01, 0.01, -0.02], [0.05] * 4, [1, 0.9, 0.9, 0.8], n=12)
    assert first.startswith("With up to 40 of 40 heads")
    assert "n = 12, a difference below 0.098" in caution


def test_what_can_not_be_tested():
    (note,) = said([1, 0.9, 0.8, 0.7, 0.6], [-0.1, -0.2, -0.3, -0.4], [0.01] * 4, [NAN] * 4)
    assert note == (
        "accuracy can't be tested against the whole model's 1; with 20 of 40 heads removed it is 0.8."
    )
    assert said([1, NAN, 0.8, 0.7, 0.6], [0] * 4, [0] * 4, [1] * 4) == ["accuracy is undefined at some step."]


def test_chance():
    chance = differences([NAN, 0.1, 0.2, -0.3, NAN], [NAN, 0.01, 0.5, 0.01, NAN], [NAN, 1e-6, 0.7, 1e-6, NAN])
    random = [[0.9, 0.7, 0.5, 0.9, 0.5], [0.9, 0.7, 0.9, 0.9, 0.5]]
    *_, note = said([0.9, 0.8, 0.7, 0.6, 0.5], [-0.1] * 4, [0.01] * 4, [1e-9] * 4, chance, random=random)
    assert note == (
        "Of the 3 steps between no head and all heads removed, the order by criterion is significantly "
        "better than the mean of 2 random orders at 1, significantly worse at 1, and better than every "
        "random order at 1."
    )
    assert (
        "better than the random order at"
        in said([0.9, 0.8, 0.7, 0.6, 0.5], [-0.1] * 4, [0.01] * 4, [1e-9] * 4, chance, random=random[:1])[-1]
    )


def test_one_step_between():
    chance = differences([NAN, 0.1, NAN], [NAN, 0.01, NAN], [NAN, 1e-6, NAN])
    scores = np.array([[0.9, 0.8, 0.5], [0.9, 0.7, 0.5]])
    whole = differences([NAN, -0.1, -0.4], [NAN, 0.01, 0.01], [NAN, 1e-9, 1e-9])
    metric = Mean("accuracy", higher_is_better=True)
    *_, note = notes(Curve(metric, scores, np.full(3, 0.02), [0, 20, 40], 400), whole, chance)
    assert note.startswith("Of the 1 step between no head and all heads removed, the order by criterion is")


@pytest.mark.parametrize("against", ["whole", "random"])
def test_under_the_null_p_is_uniform(against):
    """Orders that change nothing but by chance: 5 % of the tests are below .05, 5 % of curves after Holm."""
    draw, metric, p, lowest = np.random.default_rng(0), Mean("loss", higher_is_better=False), [], []
    for _ in range(1500):
        base = draw.normal(size=60)
        outcomes = [[{"loss": base + draw.normal(size=60)} for _ in range(5)] for _ in range(4)]
        if against == "whole":
            found = from_whole(metric, outcomes[0], {"loss": base + draw.normal(size=60)})
            p.append(found.p[1])
        else:
            found = from_random(metric, outcomes[0], outcomes[1:])
            p += found.p[1:4].tolist()
        lowest.append(np.nanmin(found.adjusted))
    assert np.mean(np.array(p) < 0.05) == pytest.approx(0.05, abs=0.015)
    assert np.mean(np.array(lowest) < 0.05) < 0.065
