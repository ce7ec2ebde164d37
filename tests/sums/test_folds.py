"""Totals by block: those of the documents of each block, and parts add up."""

import numpy as np
import pytest

from attnprobe.sums.documents import BLOCKS, find_block, name_documents
from attnprobe.sums.folds import Ratio, RatioByBlock

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
def test_the_totals_of_each_block(documents, sentences):
    sample, names, clusters = drawn(documents, sentences)
    sample[5, 1] = np.nan  # asks nothing
    found, block = RatioByBlock.of(sample, clusters, names), find_block(names)
    for one in range(BLOCKS):
        assert found.blocks[one] == pytest.approx(np.nansum(sample[block == one], 0))
    assert found.blocks.sum(0) == pytest.approx(found.whole.totals)
    np.testing.assert_allclose(found.whole.of_totals(WEIGHTS), Ratio.of(sample, clusters).of_totals(WEIGHTS))
    alone = RatioByBlock.of(sample)  # where nobody names documents, each sequence is one
    assert (alone.blocks[..., 0] > 0).any(1).sum() > (found.blocks[..., 0] > 0).any(1).sum() / 2


@pytest.mark.parametrize("sentences", [1, 3])
def test_parts_add_up(sentences):
    sample, names, clusters = drawn(100, sentences)
    whole = RatioByBlock.of(sample, clusters, names)
    cut = 3 * 17
    both = RatioByBlock.of(sample[:cut], clusters[:cut], names[:cut]) + RatioByBlock.of(
        sample[cut:], clusters[cut:], names[cut:]
    )
    again = RatioByBlock.from_arrays(both.arrays())
    assert again.blocks == pytest.approx(whole.blocks)
    np.testing.assert_allclose(again.whole.of_totals(WEIGHTS), whole.whole.of_totals(WEIGHTS))
