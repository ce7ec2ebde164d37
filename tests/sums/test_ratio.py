"""Ratios of totals: against loops over documents, in any split, there and back."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from attnprobe.sums.documents import name_documents
from attnprobe.sums.folds import Ratio

NAN = float("nan")


def sample(number: int, seed: int = 0) -> NDArray[np.float64]:
    """Draw what is asked and found, (sequence, layer, head, 3); some ask nothing, some are unknown."""
    draw = np.random.default_rng(seed)
    values = draw.integers(0, 9, (number, 2, 3, 3)).astype(float)
    values[..., 0] += values[..., 1]
    values[draw.random((number, 2, 3)) < 0.1, :2] = 0
    values[draw.random((number, 2, 3)) < 0.1] = NAN
    return values


def by_hand(values: NDArray[np.float64], documents: list[int], weights: tuple[float, ...]):
    """Ratio, its error, sequences and documents of one cell (sequence, number)."""
    known = np.nan_to_num(values)
    found = [
        (known[[one == d for one in documents], 0].sum(), known[[one == d for one in documents]] @ weights)
        for d in dict.fromkeys(documents)
    ]
    found = [(x, y.sum()) for x, y in found]
    asked = sum(x for x, _ in found)
    ratio = sum(y for _, y in found) / asked
    clusters = sum(x > 0 for x, _ in found)
    squares = sum((y - ratio * x) ** 2 for x, y in found)
    return (
        ratio,
        (clusters / (clusters - 1) * squares) ** 0.5 / asked,
        (known[:, 0] > 0).sum(),
        clusters,
    )


@pytest.mark.parametrize("weights", [(0, 1, 0), (0, 0, 1), (0, 1, -1), (1, 0, 0), (0, 0.5, 2)])
@pytest.mark.parametrize("windows", [False, True])
def test_by_hand(weights: tuple[float, ...], windows: bool):
    values = sample(40)
    documents = [min(place, 30) if windows else place for place in range(40)]
    clusters = None
    if windows:
        clusters = np.where(np.arange(40) < 30, -1, name_documents(np.full(40, 30)))
        clusters[:4] = name_documents(np.array([1, 2, 2, 1]))
        documents[:4] = [-1, -2, -2, -1]
    found = Ratio.of(values, clusters)
    ratio, error = found.of_totals(weights)
    for cell in np.ndindex(2, 3):
        expected = by_hand(values[:, *cell], documents, weights)
        assert ratio[cell] == pytest.approx(expected[0], rel=1e-12)
        assert error[cell] == pytest.approx(expected[1], rel=1e-9, abs=1e-12)
        assert found.count[cell] == expected[2]
        assert found.clusters[cell] == expected[3]
        np.testing.assert_allclose(found.totals[cell], np.nansum(values[:, *cell], 0))


def test_undefined():
    """Without a question, no ratio; with one document, no error."""
    ratio, error = Ratio.of(np.array([[0.0, 0, 5], [NAN, NAN, NAN]])).of_totals([0, 1, 0])
    assert np.isnan(ratio)
    assert np.isnan(error)
    one = Ratio.of(np.array([[0.0, 0, 5], [4, 2, 1]]))
    ratio, error = one.of_totals([0, 1, 0])
    assert ratio == 0.5
    assert np.isnan(error)
    assert one.count == 1
    assert one.totals.tolist() == [4, 2, 6]


@given(st.integers(0, 2**32), st.lists(st.integers(0, 30), max_size=4), st.booleans())
def test_any_split(seed: int, cuts: list[int], windows: bool):
    """The numbers are whole, so that not a bit differs."""
    values = sample(30, seed)
    draw = np.random.default_rng(seed)
    documents = draw.integers(0, 5, 30)
    clusters = np.where(draw.random(30) < 0.5, -1, name_documents(documents)) if windows else None
    whole = Ratio.of(values, clusters)
    bounds = [0, *sorted(cuts), 30]
    parts = [Ratio.of(values[a:b], None if clusters is None else clusters[a:b]) for a, b in pairwise(bounds)]
    added = parts[0]
    for part in parts[1:]:
        added = added + Ratio.from_arrays(part.arrays())
    assert added.arrays().keys() == whole.arrays().keys()
    for name, expected in whole.arrays().items():
        np.testing.assert_array_equal(added.arrays()[name], expected)
