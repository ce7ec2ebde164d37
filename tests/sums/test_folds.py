"""Totals by fold: the folds of a half are that half, whatever a document is, and parts add up."""

import numpy as np
import pytest

from attnprobe.sums.documents import in_second_half, name_documents
from attnprobe.sums.folds import FIRST_HALF, SECOND_HALF, RatioByFold
from attnprobe.sums.groups import FOLDS, Ratio

WEIGHTS = (0.0, 1.0, 1.0)


def drawn(documents, sentences, seed=0):
    """Draw numbers (sequence, cell, number), what names the document of each, and that where it is a part."""
    random = np.random.default_rng(seed)
    sample = random.integers(0, 6, (documents * sentences, 2, 3)).astype(float)
    sample[..., 0] += 1
    names = np.repeat(
        name_documents(np.arange(documents, dtype=np.uint64) + np.uint64(1000 * seed)), sentences
    )
    return sample, names, np.where(np.arange(len(names)) % 3 == 0, -1, names) if sentences == 1 else names


@pytest.mark.parametrize(("documents", "sentences"), [(60, 1), (40, 3), (400, 2)])
def test_the_folds_of_a_half(documents, sentences):
    sample, names, clusters = drawn(documents, sentences)
    found, second = RatioByFold.of(sample, clusters, names), in_second_half(names)
    for folds, here in ((FIRST_HALF, ~second), (SECOND_HALF, second)):
        part = found.select(folds)
        assert part.totals == pytest.approx(sample[here].sum(0))
        assert (part.count == here.sum()).all()
        if documents < 128:  # documents that share a group are others elsewhere
            expected = Ratio.of(sample[here], clusters[here]).of_totals(WEIGHTS)
            np.testing.assert_allclose(part.of_totals(WEIGHTS), expected)
    np.testing.assert_allclose(found.whole.of_totals(WEIGHTS)[0], Ratio.of(sample).of_totals(WEIGHTS)[0])
    assert sum(found.select([fold]).count for fold in range(FOLDS)).tolist() == [len(sample)] * 2


@pytest.mark.parametrize("sentences", [1, 3])
def test_parts_add_up(sentences):
    sample, names, clusters = drawn(100, sentences)
    whole = RatioByFold.of(sample, clusters, names)
    cut = 3 * 17
    both = RatioByFold.of(sample[:cut], clusters[:cut], names[:cut]) + RatioByFold.of(
        sample[cut:], clusters[cut:], names[cut:]
    )
    again = RatioByFold.from_arrays(both.arrays())
    for folds in (FIRST_HALF, SECOND_HALF, range(FOLDS)):
        np.testing.assert_allclose(
            again.select(folds).of_totals(WEIGHTS), whole.select(folds).of_totals(WEIGHTS)
        )


def test_a_ratio_of_any_two_numbers():
    """The error of y / x is that of the ratio whose first number is x, over the same documents."""
    sample = drawn(50, 1)[0]
    turned = sample[..., [1, 0, 2]]
    turned[turned[..., 0] == 0] += [1, 0, 0]
    sample = turned[..., [1, 0, 2]]
    by = Ratio.of(sample).of_totals([0, 0, 1], by=1)
    np.testing.assert_allclose(by, Ratio.of(turned).of_totals([0, 0, 1]))
