"""Sums over blocks of documents: the same however the examples came, and in halves as ever."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attnprobe.sums.documents import BLOCKS, find_block, in_second_half
from attnprobe.sums.groups import Blocks


def test_blocks_are_filled_evenly():
    for number in (64, 640, 6400):
        filled = np.bincount(find_block(np.arange(number)), minlength=BLOCKS)
        assert filled.min() >= 0.7 * number / BLOCKS - 1
        assert filled.max() <= 1.3 * number / BLOCKS + 1


def test_neither_turns_nor_strides_fill_one_block_only():
    for stride in (2, 3, 4, 8, 16, 64, 100):
        assert len(np.unique(find_block(np.arange(0, 6400 * stride, stride)))) == BLOCKS


@given(st.lists(st.integers(0, 10**12), min_size=1, max_size=40))
def test_halves_are_halves_of_the_blocks(documents: list[int]):
    numbers = np.array(documents)
    assert (in_second_half(numbers) == (find_block(numbers) >= 32)).all()


@pytest.mark.parametrize("cut", [0, 1, 30, 50])
def test_sums(cut: int):
    values, documents = np.random.default_rng(0).normal(size=(50, 2, 3)), np.arange(50) // 2
    whole = Blocks.of(values, documents)
    parts = Blocks.of(values[:cut], documents[:cut]) + Blocks.of(values[cut:], documents[cut:])
    np.testing.assert_array_equal(parts.count, whole.count)
    np.testing.assert_allclose(parts.total, whole.total, rtol=1e-12, atol=1e-15)
    for block in range(BLOCKS):
        mine = find_block(documents) == block
        assert whole.count[block] == mine.sum()
        np.testing.assert_allclose(whole.total[block], values[mine].sum(0), atol=1e-14)
    again = Blocks.from_arrays(whole.arrays())
    np.testing.assert_array_equal(again.total, whole.total)
    for half, second in zip(whole.halves, (False, True), strict=True):
        np.testing.assert_allclose(half, values[in_second_half(documents) == second].mean(0))


def test_a_half_without_a_document():
    first, second = Blocks.of(np.ones((1, 2)), np.array([0])).halves
    assert first.tolist() == [1, 1]
    assert np.isnan(second).all()
