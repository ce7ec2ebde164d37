"""The jackknife over blocks of documents, against blocks left out by hand; sums add up in any parts."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from attnprobe.sums.blocked import Blocked, find_share
from attnprobe.sums.clustered import Clustered
from attnprobe.sums.documents import BLOCKS, find_block

Floats = NDArray[np.float64]
WEIGHTS = (0.0, 1.0, -0.5)


def drawn(number: int, seed: int = 0) -> tuple[Floats, NDArray[np.int64]]:
    """Draw what is asked and found, (sequence, cell, number), of some documents; some cells ask nothing."""
    random = np.random.default_rng(seed)
    values = random.integers(0, 9, (3 * number, 2, 3)).astype(float)
    values[..., 0] += 1
    values[random.random((3 * number, 2)) < 0.3] = np.nan
    return values, random.integers(0, number, 3 * number)


def leave_out(function, values: Floats, block: NDArray[np.int64]) -> tuple[float, float]:
    """Compute something of the observations of a cell, and its error, with each block left out in turn."""
    seen = ~np.isnan(values).any(-1) if values.ndim > 1 else ~np.isnan(values)
    values, block = values[seen], block[seen]
    whole, names = function(values), np.unique(block)
    if len(names) < 2:
        return whole, np.nan
    pulls = [function(values[block != name]) - whole for name in names]
    return whole, np.sqrt((len(names) - 1) / len(names) * np.square(pulls).sum())


@pytest.mark.parametrize("number", [2, 7, 40, 300])
def test_by_leaving_out(number: int):
    values, documents = drawn(number)
    blocked, block = Blocked.of(values, documents=documents), find_block(documents)
    means, ratios = blocked.estimate, blocked.ratio(WEIGHTS)
    for cell in range(2):
        expected = leave_out(lambda values: values[:, 1].mean(), values[:, cell], block)
        assert (means.value[cell, 1], means.error[cell, 1]) == pytest.approx(expected, nan_ok=True)
        expected = leave_out(
            lambda values: values.sum(0) @ WEIGHTS / values[:, 0].sum(), values[:, cell], block
        )
        assert (ratios.value[cell], ratios.error[cell]) == pytest.approx(expected, nan_ok=True)
        sizes = np.bincount(block, np.nan_to_num(values[:, cell, 0]))
        assert ratios.clusters[cell] == pytest.approx(sizes.sum() ** 2 / np.square(sizes).sum())
    single = blocked[(np.array([1]),)].ratio(WEIGHTS)
    np.testing.assert_allclose((single.value, single.error), (ratios.value[1:], ratios.error[1:]))


def test_of_a_mean_over_windows_it_is_the_error_clustered_by_document():
    """A document a block, of one window to many."""
    _, documents = np.unique(find_block(np.arange(1000)), return_index=True)
    random = np.random.default_rng(5)
    documents = np.repeat(documents, random.integers(1, 30, len(documents)))
    values = random.normal(size=(len(documents), 2)) + random.normal(size=(1000, 2))[documents]
    blocked, clustered = (kind.of(values, documents, documents).estimate for kind in (Blocked, Clustered))
    for name in ("value", "error", "clusters"):
        np.testing.assert_allclose(getattr(blocked, name), getattr(clustered, name))


def test_shares_of_links():
    """Of each candidate, beside links that nobody is asked about; one document has no error."""
    links = np.array([3, 0, 5, 2])
    hits = np.array([[[1, 0, 2, 2], [3, 0, 5, 2]]])
    shares = find_share(hits, links)
    assert shares.value.tolist() == [[0.5, 1]]
    without = np.array([4 / 7, 3 / 5, 3 / 8]) - 0.5
    assert shares.error == pytest.approx(np.array([[np.sqrt(2 / 3 * np.square(without).sum()), 0]]))
    assert np.isnan(find_share(hits[..., :2], links[:2]).error).all()
    assert np.isnan(find_share(hits, 0 * links).value).all()


@given(st.integers(0, 2**32), st.lists(st.integers(0, 90), max_size=4))
def test_any_split(seed: int, cuts: list[int]):
    """The numbers are whole, so that not a bit differs, there and back."""
    values, documents = drawn(30, seed)
    whole = Blocked.of(values, documents=documents)
    bounds = [0, *sorted(cuts), 90]
    first, *parts = [Blocked.of(values[a:b], documents=documents[a:b]) for a, b in pairwise(bounds)]
    for part in parts:
        first = first + Blocked.from_arrays(part.arrays())
    for name, expected in whole.arrays().items():
        np.testing.assert_array_equal(first.arrays()[name], expected)
    for block in range(BLOCKS):
        here = values[find_block(documents) == block]
        np.testing.assert_array_equal(whole.totals[block], np.nansum(here, 0))
        np.testing.assert_array_equal(whole.counts[block], (~np.isnan(here)).sum(0))
