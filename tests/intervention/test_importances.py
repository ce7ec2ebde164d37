"""Importance sums up documents: errors, also of what is normalised, and what is kept."""

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
from attnprobe.sums.documents import find_block

LAYERS, HEADS = 3, 4
SHAPE = LAYERS, HEADS

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def drawn(documents: Ints, seed: int = 0) -> Floats:
    """Draw importance of examples (example, layer, head); those of a document are alike."""
    draw = np.random.default_rng(seed)
    shared = draw.gamma(2.0, size=(int(documents.max()) + 1, *SHAPE))[documents]
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


def normalise(mean: Floats) -> Floats:
    return mean / np.linalg.norm(mean, axis=-1, keepdims=True)


def leave_out(values: Floats, names: Ints, function: Any = lambda mean: mean) -> Floats:
    """Compute the error of something made of means, with the examples of each name left out in turn."""
    number = len(np.unique(names))
    without = np.stack([function(values[names != name].mean(0)) for name in np.unique(names)])
    pulls = np.square(without - function(values.mean(0))).sum(0)
    return np.sqrt(pulls * (number - 1) / number)


@pytest.mark.parametrize("size", [1, 5, 1000])
@pytest.mark.parametrize("number", [2, 9, 100])
def test_errors_leave_out_documents_and_blocks(number: int, size: int):
    """However batches cut documents."""
    documents = windows(number)
    values = drawn(documents)
    importance = summed(values, documents, size=size)
    np.testing.assert_allclose(importance.heads.average, values.mean(0), rtol=1e-12)
    np.testing.assert_allclose(importance.heads.standard_error, leave_out(values, documents), rtol=1e-8)
    normalized, blocks = importance.normalized, find_block(documents)
    np.testing.assert_allclose(normalized.value, normalise(values.mean(0)))
    np.testing.assert_allclose(normalized.error, leave_out(values, blocks, normalise), rtol=1e-6)


def test_normalized_error_against_many_samples():
    """Fresh samples spread as the error of one says."""
    draw = np.random.default_rng(5)
    samples = draw.gamma(2.0, size=(2000, 100, 1, HEADS)) * np.arange(1, 5)
    documents = np.arange(100)
    errors = [summed(sample, documents, size=100).normalized.error for sample in samples[:200]]
    np.testing.assert_allclose(np.mean(errors, 0), normalise(samples.mean(1)).std(0), rtol=0.08)


def test_nothing_matters_in_a_layer():
    documents = windows(12)
    values = drawn(documents)
    values[:, 1] = 0
    normalized = summed(values, documents).normalized
    for numbers in (normalized.value, normalized.error):
        assert np.isnan(numbers[1]).all()
        assert np.isfinite(numbers[[0, 2]]).all()


@pytest.mark.parametrize("documents", [np.arange(30), windows(12), np.zeros(5, int)], ids=len)
def test_arrays(documents: Ints):
    """What is kept is all there is: a file gives back the sum, and it goes on."""
    values = drawn(documents)
    one, other = (
        Importance.of(values[half], batch(documents, half))
        for half in np.split(np.arange(len(documents)), [len(documents) // 2])
    )
    again = Importance.from_arrays(unpack(pack(one.arrays())))
    whole, resumed = one + other, again + Importance.from_arrays(other.arrays())
    for name, array in whole.arrays().items():
        np.testing.assert_array_equal(resumed.arrays()[name], array, err_msg=name)


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
    np.testing.assert_allclose(found.heads.standard_error, leave_out(values, of), rtol=1e-8)
    assert not np.allclose(found.heads.standard_error, values.std(0, ddof=1) / len(of) ** 0.5, rtol=0.02)
    expected = leave_out(values, find_block(of), normalise)
    np.testing.assert_allclose(found.normalized.error, expected, rtol=1e-7)
