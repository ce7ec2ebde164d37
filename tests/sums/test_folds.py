"""Folds of documents: which documents are in one, that sums add up in any order, and their size."""

import numpy as np
import pytest

from attnprobe.sums.documents import BLOCKS, find_block
from attnprobe.sums.groups import FOLDS, ByFold, Clustered


def sample(number=60):
    random = np.random.default_rng(0)
    values = random.normal(size=(number, 3, 2))
    values[random.random(values.shape) < 0.2] = np.nan
    return values, np.repeat(np.arange(number // 3), 3)


def test_means_of_folds_by_definition():
    values, documents = sample()
    found = ByFold.of(values, documents + 1000, documents)
    fold = find_block(documents) * FOLDS // BLOCKS
    for number, one in enumerate(found.folds):
        here = values[fold == number]
        assert found.filled[number] == bool(len(here))
        if len(here):
            np.testing.assert_allclose(one.average, np.nanmean(here, 0))
    whole = Clustered.of(values, documents + 1000, documents)
    for name in ("count", "average", "standard_error"):
        np.testing.assert_array_equal(getattr(found, name), getattr(whole, name))


@pytest.mark.parametrize("cut", [0, 1, 17, 59])
def test_parts_add_up_and_come_back(cut):
    values, documents = sample()
    whole = ByFold.of(values, None, documents)
    parts = [ByFold.of(values[some], None, documents[some]) for some in (slice(cut), slice(cut, None))]
    added = ByFold.from_arrays((parts[0] + parts[1]).arrays())
    for one, other in zip(added.folds, whole.folds, strict=True):
        np.testing.assert_allclose(one.average, other.average)
    np.testing.assert_allclose(added.standard_error, whole.standard_error)


def test_the_size_does_not_grow():
    sizes = [
        sum(
            array.nbytes
            for array in ByFold.of(np.ones((number, 4)), None, np.arange(number)).arrays().values()
        )
        for number in (8, 8000)
    ]
    assert sizes[0] == sizes[1]
