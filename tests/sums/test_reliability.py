"""Reliability against halves drawn and ranked by scipy, and against what fresh samples say."""

import numpy as np
import pytest
from scipy.stats import spearmanr

from attnprobe.sums.reliability import split_half_reliability

HEADS = 72


def by_hand(values, documents, splits, seed):
    draw, names = np.random.default_rng(seed), np.unique(documents)
    found = []
    for _ in range(splits):
        first = names[draw.permutation(len(names))[: len(names) // 2]]
        inside = np.isin(documents, first)
        found.append(spearmanr(values[inside].mean(0), values[~inside].mean(0))[0])
    r = np.mean(found)
    return 2 * r / (1 + r) if r > 0 else r


@pytest.mark.parametrize("windows", [1, 3])
@pytest.mark.parametrize("signal", [0.0, 0.3, 2.0])
def test_by_definition(windows, signal):
    draw = np.random.default_rng(5)
    values = draw.normal(size=(41 * windows, HEADS)) + signal * draw.normal(size=HEADS)
    documents = draw.permutation(np.repeat(np.arange(41) * 7 + 3, windows))
    documents[:2] = documents[2]  # documents of several lengths
    found = split_half_reliability(values, documents, 20, 3)
    assert found == pytest.approx(by_hand(values, documents, 20, 3), abs=1e-12)


def test_ties():
    """Shares of few right answers are often equal."""
    draw = np.random.default_rng(6)
    values = (draw.random((30, HEADS)) < np.linspace(0.02, 0.3, HEADS)).astype(float)
    found = split_half_reliability(values, np.arange(30))
    assert found == pytest.approx(by_hand(values, np.arange(30), 20, 0), abs=1e-12)
    assert 0.3 < found < 1


@pytest.mark.parametrize(("signal", "number"), [(0.1, 100), (0.3, 60), (0.3, 400), (1.0, 60), (1.0, 400)])
def test_what_a_fresh_sample_says(signal, number):
    """Another sample of as many examples agrees with this one as the reliability says."""
    draw, said, true = np.random.default_rng(7), [], []
    for _ in range(40):
        mean = draw.normal(size=HEADS) * 0.3 * signal
        one, other = (mean + draw.normal(size=(number, HEADS)) for _ in range(2))
        said.append(split_half_reliability(one, np.arange(number)))
        true.append(spearmanr(one.mean(0), other.mean(0))[0])
    assert np.mean(said) == pytest.approx(np.mean(true), abs=0.06)


def test_windows_of_a_document_stay_together():
    """What all windows of a document have in common is no evidence for an order."""
    draw = np.random.default_rng(8)
    values = np.repeat(draw.normal(size=(20, HEADS)), 30, 0)
    documents = np.repeat(np.arange(20), 30)
    assert abs(split_half_reliability(values, documents)) < 0.3
    assert split_half_reliability(values, np.arange(600)) > 0.9  # as if windows were documents


def test_undefined():
    draw = np.random.default_rng(9)
    assert np.isnan(split_half_reliability(draw.normal(size=(3, HEADS)), np.arange(3)))
    assert np.isnan(split_half_reliability(draw.normal(size=(9, 2)), np.arange(9)))
    assert np.isnan(split_half_reliability(np.zeros((9, HEADS)), np.arange(9)))
    assert np.isnan(split_half_reliability(np.zeros((0, HEADS)), np.arange(0)))
    assert np.isfinite(split_half_reliability(draw.normal(size=(4, 3)), np.arange(4)))
