"""Means over examples, McNemar's test and t, paired or over documents, against scipy and by hand."""

import math

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from attnprobe.intervention.metrics.mean import Mean
from attnprobe.intervention.metrics.metric import CLUSTER

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


def test_all_changed_alike_but_for_rounding():
    """Rounding is no spread to divide by, and nothing to warn about."""
    values = np.random.default_rng(0).random(10)
    found = LOSS.compare({"loss": values + 0.1}, {"loss": values})
    assert found.delta == pytest.approx(0.1)
    assert found.p < 1e-12


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


# Windows of documents


def documents(number: int, seed: int = 0, most: int = 9) -> NDArray[np.int64]:
    """Name the document of each example, -1 where it is the only one, in any order."""
    draw = np.random.default_rng(seed)
    sizes = draw.integers(1, most, number)
    names = np.where(sizes > 1, 1000 + 7 * np.arange(number), -1)
    return draw.permutation(np.repeat(names, sizes))


def jackknife(values: NDArray[np.float64], names: NDArray[np.int64]) -> tuple[float, int]:
    """Leave out a document at a time; give the standard error of the mean, and how many documents."""
    own = np.where(names < 0, -1 - np.arange(len(names)), names)
    kinds = sorted(set(own.tolist()))
    without = [np.mean([v for v, name in zip(values, own, strict=True) if name != kind]) for kind in kinds]
    number = len(kinds)
    return math.sqrt((number - 1) / number * sum((m - np.mean(values)) ** 2 for m in without)), number


def outcome(names: NDArray[np.int64], **numbers: NDArray[np.float64]) -> dict[str, NDArray[np.generic]]:
    return {**numbers, CLUSTER: names}


@pytest.mark.parametrize("number", [2, 5, 30])
@pytest.mark.parametrize("seed", range(3))
def test_t_over_documents(number: int, seed: int):
    names = documents(number, seed + 10)
    assert (names >= 0).any()
    ours, theirs = drawn(seed, len(names))
    found = LOSS.compare(outcome(names, loss=ours), outcome(names, loss=theirs))
    error, count = jackknife(ours - theirs, names)
    assert count == number
    assert found.delta == pytest.approx(np.mean(ours - theirs))
    assert found.error == pytest.approx(error, rel=1e-9)
    assert found.p == pytest.approx(2 * stats.t.sf(abs(found.delta) / error, number - 1), rel=1e-9)
    alone, _ = jackknife(ours, names)
    assert LOSS.standard_error(outcome(names, loss=ours)) == pytest.approx(alone, rel=1e-9)
    assert LOSS.score(outcome(names, loss=ours)) == pytest.approx(ours.mean())


def test_right_or_wrong_of_windows():
    """McNemar's coin flips are independent; windows of a document are not."""
    names = documents(12, 1)
    ours, theirs = (np.random.default_rng(5).random((2, len(names))) < 0.6).astype(np.float32)
    found = ACCURACY.compare(outcome(names, accuracy=ours), outcome(names, accuracy=theirs))
    error, _ = jackknife(ours.astype(float) - theirs, names)
    assert found.error == pytest.approx(error, rel=1e-9)
    assert found.p == pytest.approx(2 * stats.t.sf(abs(found.delta) / error, 11), rel=1e-9)


@pytest.mark.parametrize("metric", [LOSS, ACCURACY])
def test_p_of_documents_under_the_null(metric: Mean):
    """Windows of a document move together: p is uniform all the same, and taken one by one it is not."""
    draw, over_documents, one_by_one = np.random.default_rng(8), [], []
    for _ in range(600):
        places = np.repeat(np.arange(40), draw.integers(2, 8, 40))
        names, shared = 1000 + places, draw.normal(size=40)[places]
        if metric is LOSS:
            theirs = draw.gamma(2.0, size=len(names))
            ours = theirs + shared + draw.normal(size=len(names))
        else:
            theirs, ours = draw.random((2, len(names))) < 0.5 + 0.45 * np.tanh([-3 * shared, 3 * shared])
        one, other = ({metric.name: side} for side in (ours, theirs))
        over_documents.append(metric.compare(outcome(names, **one), other).p)
        one_by_one.append(metric.compare(one, other).p)
    assert 0.03 < np.mean(np.array(over_documents) <= 0.05) < 0.075
    assert 0.45 < np.mean(over_documents) < 0.55
    assert stats.kstest(over_documents, "uniform").pvalue > 0.01
    assert np.mean(np.array(one_by_one) <= 0.05) > 0.2
    assert stats.kstest(one_by_one, "uniform").pvalue < 1e-9
