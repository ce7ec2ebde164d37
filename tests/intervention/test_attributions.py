"""What is attributed to heads, summed up over documents: means, errors, shares of a layer."""

from functools import reduce
from operator import add
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from attnprobe.intervention.gradient import Attributions, gradient_importance

LAYERS, HEADS = 3, 4
SHAPE = LAYERS, HEADS

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def draw_values(documents: Ints, seed: int = 0) -> Floats:
    """Draw a number with a sign for each example and head; those of a document are alike."""
    draw = np.random.default_rng(seed)
    shared = draw.normal(0.5, 1, (int(documents.max()) + 1, *SHAPE))[documents]
    values = draw.normal(size=(len(documents), *SHAPE)) * np.arange(1, 5) + shared
    values[:, :, 1] += values[:, :, 0]  # correlated heads
    return values


def draw_windows(documents: int, seed: int = 0) -> Ints:
    """Give the document of each example, in any order; some have one window only."""
    draw = np.random.default_rng(seed)
    return draw.permutation(np.repeat(np.arange(documents), draw.integers(1, 7, documents)))


def sum_part(values: Floats, documents: Ints, members: Ints) -> Attributions:
    """Sum up some examples; those that are a document's only one have no cluster."""
    clusters = np.where(np.bincount(documents)[documents] > 1, documents + 1000, -1)
    return Attributions.of(values[members], clusters[members], documents[members])


def sum_up(values: Floats, documents: Ints, size: int = 5) -> Attributions:
    """Sum up batches of several examples each, in any order."""
    order = np.random.default_rng(1).permutation(len(values))
    parts = np.split(order, range(size, len(order), size))
    return reduce(add, (sum_part(values, documents, part) for part in parts))


def jackknife(values: Floats, documents: Ints, function: Any) -> Floats:
    """Compute the error of a function of the means of examples, one document left out at a time."""
    names = np.unique(documents)
    without = np.stack([function(values[documents != name].mean(0)) for name in names])
    squares = np.square(without - function(values.mean(0)))
    return np.sqrt((len(names) - 1) / len(names) * squares.sum(0))


def norm(means: Floats) -> Floats:
    return means / np.sqrt((means**2).sum(-1, keepdims=True))


def share(means: Floats) -> Floats:
    return means / means.sum(-1, keepdims=True)


@pytest.mark.parametrize("size", [1, 5, 1000])
@pytest.mark.parametrize("number", [2, 9, 30])
def test_errors_are_the_jackknifes(number: int, size: int):
    """However batches cut documents, one document is left out at a time: each has a block of its own."""
    documents = draw_windows(number)
    values = draw_values(documents)
    sums = sum_up(values, documents, size)
    sizes = np.abs(values)
    for summed, part in ((sums.size, sizes), (sums.signed, values), (sums.squares, values**2)):
        np.testing.assert_allclose(summed.average, part.mean(0), rtol=1e-12)
        expected = jackknife(part, documents, lambda means: means)
        np.testing.assert_allclose(summed.standard_error, expected, rtol=1e-9)
    for estimate, function in ((sums.normalized, norm), (sums.share, share)):
        np.testing.assert_allclose(estimate.value, function(sizes.mean(0)), rtol=1e-12)
        np.testing.assert_allclose(
            estimate.error, jackknife(sizes, documents, function), rtol=1e-8, atol=1e-12
        )


def test_nothing_matters_in_a_layer():
    values = draw_values(np.arange(12))
    values[:, 1] = 0
    sums = sum_up(values, np.arange(12))
    for part in (sums.normalized, sums.share):
        for numbers in (part.value, part.error):
            assert np.isnan(numbers[1]).all()
            assert np.isfinite(numbers[[0, 2]]).all()


def test_windows_of_a_model(headed: Any, documents: Any, task_data: Any):
    """From texts to errors: the values of each window alone, and their documents."""
    texts = documents("masked-lm")
    with task_data(headed("bert", "masked-lm", double=True), texts, "masked-lm", max_length=7) as data:
        sums, batches = gradient_importance(data), data.corpus.batches
        numbers, plan = batches.documents, batches.plan
        assert len(numbers) > len(texts) == len(np.unique(numbers)) == sums.size.clusters.max()
        values = np.zeros((len(numbers), *SHAPE))
        for window in range(len(numbers)):
            batches.plan = [np.array([window])]
            values[window] = gradient_importance(data).size.average
        batches.plan = plan
    np.testing.assert_allclose(sums.size.average, values.mean(0), rtol=1e-9)
    errors = jackknife(values, numbers, lambda means: means)
    np.testing.assert_allclose(sums.size.standard_error, errors, rtol=1e-8)
    assert not np.allclose(errors, values.std(0, ddof=1) / len(numbers) ** 0.5, rtol=0.02)
    np.testing.assert_allclose(sums.normalized.error, jackknife(values, numbers, norm), rtol=1e-7)
