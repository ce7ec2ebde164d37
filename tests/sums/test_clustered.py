"""Errors that know which observations belong together: the jackknife over documents."""

from functools import reduce
from itertools import pairwise
from operator import add

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from attnprobe.sums.clustered import MOST, Clustered

EXACT = 1e-12
CLOSE = 1e-9
NAN = float("nan")
ALONE = -1

Floats = NDArray[np.float64]
Names = NDArray[np.int64]


def by_hand(values: Floats, documents: Names) -> tuple[float, float]:
    """Leave out one document at a time, of one cell; those without an observation are none."""
    seen = ~np.isnan(values)
    values, documents = values[seen], documents[seen]
    if not len(values):
        return NAN, NAN
    names = np.unique(documents)
    if len(names) < 2:
        return float(values.mean()), NAN
    left_out = np.array([values[documents != name].mean() for name in names])
    spread = (len(names) - 1) / len(names) * np.square(left_out - values.mean()).sum()
    return float(values.mean()), float(np.sqrt(spread))


def each_apart(clusters: Names) -> Names:
    """Give everything that is alone a name of its own, and documents that share a group the group's."""
    many = len(np.unique(clusters[clusters >= 0])) > MOST
    named = clusters % MOST if many else clusters
    alone = np.arange(len(clusters)) + 10**9
    return np.where(clusters < 0, alone, named)


def agrees(sums: Clustered, values: Floats, clusters: Names) -> None:
    """Compare with leaving out one document at a time, cell by cell."""
    documents = each_apart(clusters)
    for cell in np.ndindex(values.shape[1:]):
        column = values[(slice(None), *cell)]
        mean, error = by_hand(column, documents)
        seen = ~np.isnan(column)
        assert sums.count[cell] == seen.sum()
        assert sums.clusters[cell] == len(np.unique(documents[seen]))
        assert sums.average[cell] == pytest.approx(mean, rel=CLOSE, abs=CLOSE, nan_ok=True)
        assert sums.standard_error[cell] == pytest.approx(error, rel=CLOSE, abs=CLOSE, nan_ok=True)
        sizes = np.unique(documents[seen], return_counts=True)[1]
        effective = seen.sum() ** 2 / max(1, np.square(sizes).sum())
        assert sums.estimate.clusters[cell] == pytest.approx(effective)


def drawn(
    clusters: Names, seed: int = 0, *, missing: float = 0.0, spread_of_documents: float = 2.0
) -> Floats:
    """Draw two cells for each window; those of a document are alike."""
    draw = np.random.default_rng(seed)
    names, place = np.unique(clusters, return_inverse=True)
    shared = draw.normal(3, spread_of_documents, (len(names), 2))[place] * (clusters >= 0)[:, None]
    values = shared + draw.normal(0, 1, (len(clusters), 2))
    values[draw.random(values.shape) < missing] = NAN
    return values


def windows(documents: int, seed: int = 0, most: int = 9) -> Names:
    """Cut documents into unequally many windows, in any order."""
    draw = np.random.default_rng(seed)
    names = MOST + draw.permutation(10_000)[:documents]
    return draw.permutation(np.repeat(names, draw.integers(1, most, documents)))


SAMPLES = {
    "all alone": np.full(40, ALONE),
    "all in documents": windows(12),
    "two documents": windows(2),
    "as many as are told apart": windows(MOST, 1, 3),
    "some alone": np.concatenate([np.full(15, ALONE), windows(8)]),
    "one alone": np.concatenate([windows(5), [ALONE]]),
    "one document, one alone": np.array([ALONE, 500, 500, 500]),
    "one document": np.array([500, 500, 500]),
    "one alone, nothing else": np.array([ALONE]),
    "many documents": windows(300),
    "many documents, some alone": np.concatenate([windows(150), np.full(30, ALONE)]),
}


@pytest.mark.parametrize("missing", [0.0, 0.6])
@pytest.mark.parametrize("name", SAMPLES)
def test_one_document_left_out_at_a_time(name: str, missing: float):
    clusters = SAMPLES[name]
    values = drawn(clusters, missing=missing)
    agrees(Clustered.of(values, clusters), values, clusters)


def test_nothing():
    values = np.zeros((0, 3))
    for empty in (Clustered.of(values), Clustered.of(values, np.zeros(0, np.int64))):
        assert empty.count.tolist() == empty.clusters.tolist() == [0, 0, 0]
        assert np.isnan([empty.average, empty.standard_error]).all()
        sums = Clustered.of(np.ones((2, 3)), np.array([500, 600]))
        same(empty + sums, sums)
        same(sums + empty, sums)


def same(actual: Clustered, expected: Clustered) -> None:
    np.testing.assert_array_equal(actual.count, expected.count)
    np.testing.assert_array_equal(actual.clusters, expected.clusters)
    np.testing.assert_allclose(actual.average, expected.average, rtol=EXACT, atol=EXACT)
    np.testing.assert_allclose(actual.standard_error, expected.standard_error, rtol=EXACT, atol=EXACT)


@given(st.sampled_from(sorted(SAMPLES)), st.integers(0, 2**32), st.lists(st.integers(0, 1500)))
@settings(max_examples=150)
def test_any_parts_in_any_order(name: str, seed: int, cuts: list[int]):
    """Batches, halves, processes, resumed runs: windows of a document may lie anywhere."""
    draw = np.random.default_rng(seed)
    clusters = draw.permutation(SAMPLES[name])
    values = drawn(clusters, seed, missing=0.2)
    ends = np.unique([0, *cuts, len(clusters)])
    ends = ends[ends <= len(clusters)]
    parts = [Clustered.of(values[start:stop], clusters[start:stop]) for start, stop in pairwise(ends)]
    whole = Clustered.of(values, clusters)
    shuffled = [parts[place] for place in draw.permutation(len(parts))]
    middle = len(parts) // 2
    same(reduce(add, shuffled), whole)
    if middle:  # in another grouping
        same(reduce(add, shuffled[:middle]) + reduce(add, shuffled[middle:]), whole)
