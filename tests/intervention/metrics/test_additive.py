"""Scores of sums: known answers, the jackknife one example at a time, exchanges all of them."""

import itertools
from typing import Any

import numpy as np
import pytest
from scipy import stats

from attnprobe.intervention.metrics.correlation import Spearman, pearson
from attnprobe.intervention.metrics.counts import entity_f1, label_f1, share_of_words
from attnprobe.intervention.metrics.metric import Metric
from attnprobe.sums.inference import PermutationTest

TESTS = PermutationTest(0)

EXAMPLES = 14


def words(draw: np.random.Generator, number: int = EXAMPLES) -> dict[str, Any]:
    there = np.random.default_rng(1).integers(1, 9, number)
    return {"words": np.stack([draw.binomial(there, 0.7), there], 1).astype(np.float32)}


def entities(draw: np.random.Generator, number: int = EXAMPLES) -> dict[str, Any]:
    there = np.random.default_rng(1).integers(0, 4, number)
    predicted = draw.integers(0, 4, number)
    return {"entities": np.stack([draw.binomial(np.minimum(there, predicted), 0.7), predicted, there], 1)}


def labels(draw: np.random.Generator, number: int = EXAMPLES) -> dict[str, Any]:
    gold = (np.random.default_rng(1).random((number, 5)) < [0.5, 0.3, 0.6, 0.2, 0]).astype(float)
    flipped = draw.random(gold.shape) < 0.25
    flipped[:, 4] = False
    return {"label": gold, "prediction": np.abs(gold - flipped).astype(np.float32)}


def numbers(draw: np.random.Generator, number: int = EXAMPLES) -> dict[str, Any]:
    gold = np.random.default_rng(1).integers(0, 5, number).astype(float)  # with ties
    return {"label": gold + 1000, "prediction": np.round(gold + draw.standard_normal(number), 1)}


CASES: list[tuple[Metric, Any]] = [
    (share_of_words(TESTS), words), (entity_f1(TESTS), entities), (label_f1("f1_micro", TESTS), labels),
    (label_f1("f1_macro", TESTS), labels), (pearson(TESTS), numbers), (Spearman(TESTS), numbers),
]  # fmt: skip
NAMES = ["words", "entities", "micro", "macro", "pearson", "spearman"]
EVERY = pytest.mark.parametrize(("metric", "drawn"), CASES, ids=NAMES)


def without(outcome: Any, example: int) -> Any:
    return {name: np.delete(values, example, axis=0) for name, values in outcome.items()}


def jackknife(values: list[float]) -> float:
    spread = np.array(values) - np.mean(values)
    return np.sqrt((len(values) - 1) / len(values) * (spread**2).sum())


@pytest.mark.parametrize("average", ["micro", "macro"])
def test_labels_are_scored_as_by_scikit_learn(average: Any):
    metrics = pytest.importorskip("sklearn.metrics")
    outcome = labels(np.random.default_rng(5), 60)
    expected = metrics.f1_score(outcome["label"], outcome["prediction"], average=average, zero_division=0)
    assert label_f1(f"f1_{average}", 0).score(outcome) == pytest.approx(expected)


def test_correlations_are_those_of_scipy():
    outcome = numbers(np.random.default_rng(5), 60)
    pair = outcome["label"], outcome["prediction"]
    assert pearson(TESTS).score(outcome) == pytest.approx(stats.pearsonr(*pair)[0], abs=1e-9)
    assert Spearman(TESTS).score(outcome) == pytest.approx(stats.spearmanr(*pair)[0], abs=1e-12)


@pytest.mark.parametrize("metric", [pearson(TESTS), Spearman(TESTS)])
def test_what_is_flat_has_no_correlation(metric: Metric):
    varied, flat = np.arange(4.0), np.full(4, 0.1)
    for outcome in ({"label": varied, "prediction": flat}, {"label": flat, "prediction": varied}):
        assert np.isnan(metric.score(outcome))
        found = metric.compare({"label": varied, "prediction": flat}, {"label": varied, "prediction": varied})
        assert np.isnan([found.delta, found.p]).all()


@EVERY
def test_standard_error_leaves_each_example_out(metric: Metric, drawn: Any):
    number = 200 if isinstance(metric, Spearman) else EXAMPLES
    outcome, other = drawn(np.random.default_rng(2), number), drawn(np.random.default_rng(3), number)
    expected = jackknife([metric.score(without(outcome, one)) for one in range(number)])
    # Spearman's is by influence, which is the jackknife's limit.
    tolerance = 0.02 if isinstance(metric, Spearman) else 1e-9
    assert metric.standard_error(outcome) == pytest.approx(expected, rel=tolerance)
    apart = [metric.score(without(outcome, one)) - metric.score(without(other, one)) for one in range(number)]
    found = metric.compare(outcome, other)
    assert found.error == pytest.approx(jackknife(apart), rel=tolerance)
    assert found.delta == pytest.approx(metric.score(outcome) - metric.score(other), abs=1e-12)


@EVERY
def test_p_is_that_of_all_exchanges(metric: Metric, drawn: Any):
    ours, theirs = drawn(np.random.default_rng(2), 9), drawn(np.random.default_rng(12), 9)
    delta, as_large, every = abs(metric.score(ours) - metric.score(theirs)), 0, 0
    for mixed in itertools.product((False, True), repeat=9):
        mask = np.array(mixed)

        def mix(one: Any, other: Any, mask: Any = mask) -> Any:
            return {
                name: np.where(mask.reshape(-1, *[1] * (values.ndim - 1)), other[name], values)
                for name, values in one.items()
            }

        as_large += abs(metric.score(mix(ours, theirs)) - metric.score(mix(theirs, ours))) >= delta - 1e-9
        every += 1
    expected = as_large / every
    assert 0.005 < expected < 1
    assert metric.compare(ours, theirs).p == pytest.approx(expected, abs=0.015 + 0.15 * expected)


@EVERY
def test_a_difference_that_is_sure_and_the_smallest_p(metric: Metric, drawn: Any):
    bad, good = (drawn(np.random.default_rng(2), 60) for _ in range(2))
    if "label" in good:
        good["prediction"] = good["label"]
        bad["prediction"] = bad["prediction"][::-1]
    else:
        name = metric.needs[0]
        good[name] = good[name].copy()
        good[name][:, :-1] = good[name][:, -1:]
    found = metric.compare(bad, good)
    assert found.delta < 0
    assert found.p < 0.01
    assert metric.compare(bad, good).p == found.p  # drawn from the seed
