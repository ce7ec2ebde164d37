"""Means over examples, McNemar's test and the paired t, against scipy and by hand."""

import math

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from attnprobe.intervention.metrics.mean import Mean

ACCURACY = Mean("accuracy", "share", higher_is_better=True)
LOSS = Mean("loss", "nats", higher_is_better=False)


def drawn(seed: int, number: int = 40) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    draw = np.random.default_rng(seed)
    theirs = draw.gamma(2.0, size=number)
    return theirs + draw.normal(0.1, 0.5, number), theirs


@pytest.mark.parametrize("seed", range(5))
def test_paired_t(seed: int):
    ours, theirs = drawn(seed)
    found = LOSS.compare({"loss": ours, "accuracy": theirs}, {"loss": theirs, "accuracy": ours})
    expected = stats.ttest_1samp(ours - theirs, 0)
    assert found.p == pytest.approx(expected.pvalue, rel=1e-9)
    assert found.delta == pytest.approx(np.mean(ours) - np.mean(theirs))
    assert found.error == pytest.approx(stats.sem(ours - theirs))
    assert LOSS.score({"loss": ours}) == pytest.approx(sum(ours) / 40)
    assert LOSS.standard_error({"loss": ours}) == pytest.approx(stats.sem(ours))


def mcnemar(better: int, worse: int) -> float:
    """Twice the smaller tail of a fair coin, 1 at most."""
    number = better + worse
    tail = sum(math.comb(number, k) for k in range(min(better, worse) + 1)) / 2**number
    return min(1.0, 2 * tail)


@pytest.mark.parametrize(("better", "worse"), [(0, 1), (3, 3), (1, 9), (12, 4), (0, 20), (7, 8)])
@pytest.mark.parametrize("dtype", [bool, np.float32, np.int64])
def test_mcnemar(better: int, worse: int, dtype: type):
    theirs = np.array([0] * better + [1] * worse + [0] * 5 + [1] * 13).astype(dtype)
    ours = np.array([1] * better + [0] * worse + [0] * 5 + [1] * 13).astype(dtype)
    found = ACCURACY.compare({"accuracy": ours}, {"accuracy": theirs})
    assert found.p == pytest.approx(mcnemar(better, worse), rel=1e-9)
    assert found.p == pytest.approx(stats.binomtest(worse, better + worse).pvalue, rel=1e-9)
    assert found.delta == pytest.approx((better - worse) / len(ours))
    apart = ours.astype(float) - theirs.astype(float)
    number = len(apart)
    assert found.error == pytest.approx(np.sqrt(((apart - apart.mean()) ** 2).sum() / (number - 1) / number))


def test_share_of_tokens_is_no_yes_or_no():
    """Accuracies between 0 and 1, as of several masks, take the t test."""
    ours, theirs = np.array([0.5, 1, 0, 1, 0.25, 1]), np.array([1, 1, 1, 1, 0.5, 0])
    found = ACCURACY.compare({"accuracy": ours}, {"accuracy": theirs})
    assert found.p == pytest.approx(stats.ttest_rel(ours, theirs).pvalue)
    assert found.p != pytest.approx(mcnemar(1, 3))


def test_nothing_changed():
    values = drawn(0)[0]
    found = LOSS.compare({"loss": values}, {"loss": values})
    assert (found.delta, found.error, found.p) == (0, 0, 1)


def test_all_changed_alike():
    values = np.arange(5.0)
    found = LOSS.compare({"loss": values + 2}, {"loss": values})
    assert (found.delta, found.error, found.p) == (2, 0, 0)


def test_all_changed_alike_but_for_rounding():
    """Rounding is no spread to divide by, and nothing to warn about."""
    values = np.random.default_rng(0).random(10)
    found = LOSS.compare({"loss": values + 0.1}, {"loss": values})
    assert found.delta == pytest.approx(0.1)
    assert found.p < 1e-12


def test_one_example():
    one, other = np.array([2.0]), np.array([3.0])
    found = LOSS.compare({"loss": one}, {"loss": other})
    assert found.delta == -1
    assert math.isnan(found.error)
    assert math.isnan(found.p)
    assert math.isnan(LOSS.standard_error({"loss": one}))
    assert LOSS.compare({"loss": one}, {"loss": one}).p == 1


def test_untested():
    found = Mean("similarity", "cosine", higher_is_better=True, tested=False).compare(
        {"similarity": np.array([0.9, 0.8, 1.0])}, {"similarity": np.ones(3)}
    )
    assert found.delta == pytest.approx(-0.1)
    assert found.error == pytest.approx(0.1 / np.sqrt(3))
    assert math.isnan(found.p)


def test_float32_is_averaged_in_float64():
    values = np.full(3_000_000, 0.1, np.float32)
    assert LOSS.score({"loss": values}) == pytest.approx(float(np.float32(0.1)), rel=1e-12)


@pytest.mark.parametrize("metric", [LOSS, ACCURACY])
def test_p_under_the_null(metric: Mean):
    draw, p = np.random.default_rng(7), []
    for _ in range(400):
        pair = draw.normal(size=(2, 30)) if metric is LOSS else draw.random((2, 200)) < 0.5
        p.append(metric.compare(*({metric.name: side} for side in pair)).p)
    assert 0.02 < np.mean(np.array(p) <= 0.05) < 0.085
    assert 0.4 < np.mean(p) < 0.62
