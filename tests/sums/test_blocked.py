"""The jackknife over blocks of documents, against blocks left out by hand."""

import numpy as np
import pytest
from numpy.typing import NDArray

from attnprobe.statistics.mixing import explained_by_others
from attnprobe.sums.blocked import Jackknife
from attnprobe.sums.clustered import Clustered
from attnprobe.sums.documents import find_block

Floats = NDArray[np.float64]


def ratio(means: Floats) -> Floats:
    return means[..., 0] / means[..., 1]


@pytest.mark.parametrize("number", [2, 7, 40, 300])
def test_by_leaving_out(number):
    """Each block is left out by hand."""
    generator = np.random.default_rng(number)
    documents = np.sort(generator.integers(0, number, 3 * number))
    values = generator.normal(5, 1, (len(documents), 2))
    whole, error = Jackknife.of(values, documents=documents).apply(ratio)
    block = find_block(documents)
    t = values.mean(0)[0] / values.mean(0)[1]
    assert whole == pytest.approx(t, rel=1e-12)
    names = np.unique(block)
    if len(names) < 2:
        assert np.isnan(error)
        return
    without = []
    for name in names:
        left = values[block != name].mean(0)
        without.append(left[0] / left[1])
    expected = (len(names) - 1) / len(names) * np.square(np.array(without) - t).sum()
    assert error == pytest.approx(np.sqrt(expected), rel=1e-9)


def test_of_a_mean_over_windows_it_is_the_error_clustered_by_document():
    """A document a block, of one window to many."""
    _, documents = np.unique(find_block(np.arange(1000)), return_index=True)
    generator = np.random.default_rng(5)
    documents = np.repeat(documents, generator.integers(1, 30, len(documents)))
    values = generator.normal(size=(len(documents), 2)) + generator.normal(size=(1000, 2))[documents]
    found = Jackknife.of(values, documents=documents)
    np.testing.assert_allclose(found.standard_error, Clustered.of(values, documents).standard_error)


@pytest.mark.parametrize("windows", [1, 4])
def test_errors_are_honest(windows):
    """What others explain of a head: the error is that of samples drawn again, also of windows alike."""
    generator, heads, size, draws = np.random.default_rng(1), 4, 120, 150
    a, b = np.triu_indices(heads, 1)
    common = np.array([0.6, 0.5, 0.2, 0.0])
    truth = np.outer(common, common)[a, b]
    found, errors = [], []
    for _ in range(draws):
        each = truth + 0.25 * generator.normal(size=(size, len(truth)))
        values = np.repeat(each, windows, 0) + 0.02 * generator.normal(size=(size * windows, len(truth)))
        documents = np.repeat(np.arange(size), windows)
        share, error = Jackknife.of(values, documents=documents).apply(explained_by_others)
        found.append(share)
        errors.append(error)
    true = np.std(found, 0, ddof=1)[:2]
    said = np.sqrt(np.mean(np.square(errors), 0))[:2]
    assert (np.abs(said / true - 1) < 0.25).all(), said / true
