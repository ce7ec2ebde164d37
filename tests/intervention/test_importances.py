"""Importance sums up documents: errors of what is normalised, halves, and what is kept."""

from functools import reduce
from operator import add
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from attnprobe.corpus.batch import Batch
from attnprobe.intervention.gradient import Importance, gradient_importance
from attnprobe.sums.base import pack, unpack
from attnprobe.sums.clustered import MOST
from attnprobe.sums.documents import in_second_half

LAYERS, HEADS = 3, 4
SHAPE = LAYERS, HEADS

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def drawn(documents: Ints, seed: int = 0, *, alike: float = 1.0) -> Floats:
    """Draw importance of examples (example, layer, head); those of a document are alike."""
    draw = np.random.default_rng(seed)
    shared = draw.gamma(2.0, alike, (int(documents.max()) + 1, *SHAPE))[documents]
    values = draw.gamma(2.0, size=(len(documents), *SHAPE)) * np.arange(1, 5) + shared
    values[:, :, 1] += values[:, :, 0]  # correlated heads
    return values


def windows(documents: int, seed: int = 0, most: int = 7) -> Ints:
    """Give the document of each example, in any order; some have one window only."""
    draw = np.random.default_rng(seed)
    return draw.permutation(np.repeat(np.arange(documents), draw.integers(1, most, documents)))


def batch(documents: Ints, members: Ints) -> Batch:
    """Say of examples what a corpus would."""
    many = np.bincount(documents)[documents] > 1
    clusters = np.where(many, documents + 10 * MOST, -1)
    return Batch({}, None, members, documents=documents[members], clusters=clusters[members])


def summed(values: Floats, documents: Ints, *, size: int = 5, seed: int = 1) -> Importance:
    """Sum up batches of some examples each, in any order."""
    order = np.random.default_rng(seed).permutation(len(values))
    parts = np.split(order, range(size, len(order), size))
    return reduce(add, (Importance.of(values[part], batch(documents, part)) for part in parts))


def without_each(values: Floats, documents: Ints) -> Floats:
    """Average all examples but those of a document, for each document."""
    return np.stack([values[documents != name].mean(0) for name in np.unique(documents)])


def projected(mean: Floats, covariance: Floats) -> Floats:
    """Push the covariance of one layer's means through the derivative of m / |m|, entry by entry."""
    norm = np.sqrt((mean**2).sum())
    slope = np.array(
        [[(i == j) / norm - mean[i] * mean[j] / norm**3 for j in range(HEADS)] for i in range(HEADS)]
    )
    return np.sqrt(np.diag(slope @ covariance @ slope.T))


def old_error(values: Floats) -> Floats:
    """The formula for examples that have nothing to do with each other."""
    mean, number = values.mean(0), len(values)
    norm = np.linalg.norm(mean, axis=-1, keepdims=True)
    unit = mean / norm
    products = (values[..., :, None] * values[..., None, :]).mean(0)
    covariance = products - mean[..., :, None] * mean[..., None, :]
    project = np.eye(HEADS) - unit[..., :, None] * unit[..., None, :]
    spread = np.einsum("lij,ljk,lik->li", project, covariance, project).clip(0) / norm**2
    return np.sqrt(spread / (number - 1))


@pytest.mark.parametrize("number", [2, 3, 41, 400])
def test_documents_of_one_example(number: int):
    documents = np.arange(number)
    values = drawn(documents)
    found = summed(values, documents)
    expected = old_error(values)
    np.testing.assert_allclose(found.normalized[1], expected, rtol=1e-12, atol=1e-12)
    bare = Importance.of(values, Batch({}, None, documents))
    np.testing.assert_allclose(bare.normalized[1], expected, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(found.heads.standard_error, values.std(0, ddof=1) / np.sqrt(number))


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("size", [1, 5, 1000])
@pytest.mark.parametrize("number", [2, 9, 60])
def test_windows_of_documents(number: int, size: int, seed: int):
    """However batches cut documents, the error is the jackknife's, one document left out at a time."""
    documents = windows(number, seed)
    values = drawn(documents, seed)
    found = summed(values, documents, size=size)
    mean = values.mean(0)
    apart = without_each(values, documents) - mean
    covariance = (number - 1) / number * np.einsum("cli,clj->lij", apart, apart)
    np.testing.assert_allclose(found.heads.average, mean, rtol=1e-12)
    np.testing.assert_allclose(found.covariance, covariance, rtol=1e-8, atol=1e-11)
    variance = np.diagonal(covariance, axis1=1, axis2=2)
    np.testing.assert_allclose(found.heads.standard_error, np.sqrt(variance), rtol=1e-9)
    unit, error = found.normalized
    np.testing.assert_allclose(unit, mean / np.linalg.norm(mean, axis=-1, keepdims=True))
    expected = [projected(*layer) for layer in zip(mean, covariance, strict=True)]
    np.testing.assert_allclose(error, expected, rtol=1e-8, atol=1e-11)


def test_nothing_matters_in_a_layer():
    documents = windows(12)
    values = drawn(documents)
    values[:, 1] = 0
    unit, error = summed(values, documents).normalized
    assert np.isnan(unit[1]).all()
    assert np.isnan(error[1]).all()
    assert np.isfinite(error[[0, 2]]).all()


SAMPLES = {"alone": np.arange(30), "windows": windows(12), "one document": np.zeros(5, int)}
each_sample = pytest.mark.parametrize("documents", SAMPLES.values(), ids=SAMPLES)


@each_sample
def test_arrays(documents: Ints):
    """What is kept is all there is: a file gives back the sum, and it goes on."""
    values = drawn(documents)
    one, other = (
        Importance.of(values[half], batch(documents, half))
        for half in np.split(np.arange(len(documents)), [len(documents) // 2])
    )
    again = Importance.from_arrays(unpack(pack(one.arrays())))
    assert again.arrays().keys() == one.arrays().keys()
    for name, array in one.arrays().items():
        np.testing.assert_array_equal(again.arrays()[name], array, err_msg=name)
    whole, resumed = one + other, again + Importance.from_arrays(other.arrays())
    for found, wanted in zip(resumed.normalized, whole.normalized, strict=True):
        np.testing.assert_array_equal(found, wanted)
    for found, wanted in zip(resumed.blocks.halves, whole.blocks.halves, strict=True):
        np.testing.assert_array_equal(found, wanted)


def test_windows_of_a_model(headed: Any, documents: Any, benched: Any):
    """From texts to errors: the values of each window alone, and their documents."""
    some = documents("masked-lm")
    with benched(headed("bert", "masked-lm", double=True), some, "masked-lm", max_length=7) as bench:
        found, batches = gradient_importance(bench), bench.corpus.batches
        of, plan = batches.documents, batches.plan
        assert len(of) > len(some) == len(np.unique(of)) == found.heads.clusters.max()
        values = np.zeros((len(of), *SHAPE))
        for window in range(len(of)):
            batches.plan = [np.array([window])]
            values[window] = gradient_importance(bench).heads.average
        batches.plan = plan
    np.testing.assert_allclose(found.heads.average, values.mean(0), rtol=1e-9)
    apart, number = without_each(values, of) - values.mean(0), len(some)
    covariance = (number - 1) / number * np.einsum("cli,clj->lij", apart, apart)
    variance = np.diagonal(covariance, axis1=1, axis2=2)
    np.testing.assert_allclose(found.heads.standard_error, np.sqrt(variance), rtol=1e-8)
    assert not np.allclose(found.heads.standard_error, values.std(0, ddof=1) / len(of) ** 0.5, rtol=0.02)
    expected = [projected(*layer) for layer in zip(values.mean(0), covariance, strict=True)]
    np.testing.assert_allclose(found.normalized[1], expected, rtol=1e-7)
    second = in_second_half(of)
    for kept, half in zip((~second, second), found.blocks.halves, strict=True):
        np.testing.assert_allclose(half, values[kept].mean(0), rtol=1e-9)
