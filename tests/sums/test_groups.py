"""Sums over groups of documents, and their names: the same in any parts and order."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from attnprobe.sums.base import add_prefix
from attnprobe.sums.clustered import MOST, Groups
from attnprobe.sums.documents import BLOCKS, find_block, in_second_half, name_documents

NAN = float("nan")
#: Names that differ, and of which some share a group when documents are many.
NAMES = MOST + np.arange(400) * 37


def as_found(groups: Groups) -> dict[int, tuple[list, list]]:
    assert (np.diff(groups.keys) > 0).all()
    return {
        int(key): (count.tolist(), total.tolist())
        for key, count, total in zip(groups.keys, groups.count, groups.total, strict=True)
    }


def sample(number: int, keys: NDArray[np.int64], seed: int = 0) -> tuple[NDArray, NDArray]:
    """Draw whole numbers, which add up exactly, with some that are missing; every name is there."""
    draw = np.random.default_rng(seed)
    values = draw.integers(-9, 10, (number, 2, 3)).astype(float)
    values[draw.random(values.shape) < 0.2] = NAN
    return values, draw.permutation(np.resize(keys, number))


@given(st.integers(0, 2**32), st.sampled_from([3, MOST, MOST + 1, 300]), st.lists(st.integers(0, 500)))
def test_any_parts_in_any_order(seed: int, names: int, cuts: list[int]):
    """The same groups come out, whether documents shared a group from the first part on or at the end."""
    values, keys = sample(500, NAMES[:names], seed)
    ends = np.unique([0, *cuts, 500])
    parts = [Groups.of(values[start:stop], keys[start:stop]) for start, stop in pairwise(ends)]
    order = np.random.default_rng(seed).permutation(len(parts))
    total = parts[order[0]]
    for place in order[1:]:
        total = total + parts[place]
    assert as_found(total) == as_found(Groups.of(values, keys))


@pytest.mark.parametrize("names", [0, 3, 300])
def test_arrays(names: int):
    values, keys = sample(900 if names else 0, NAMES[: max(1, names)])
    found = Groups.of(values, keys)
    again = Groups.within(add_prefix("groups", found.arrays()), (2, 3))
    assert as_found(again) == as_found(found)
    assert again.count.shape == found.count.shape
    more = Groups.of(*sample(50, NAMES[:9], 1))
    assert as_found(again + more) == as_found(found + more)


class TestNames:
    """Names of documents."""

    @staticmethod
    def splitmix(number: int) -> int:
        """Steele, Lea and Flood (2014), in Python's own numbers."""
        number = (number + 0x9E3779B97F4A7C15) % 2**64
        number = (number ^ number >> 30) * 0xBF58476D1CE4E5B9 % 2**64
        number = (number ^ number >> 27) * 0x94D049BB133111EB % 2**64
        return number ^ number >> 31

    def test_same_in_every_run(self):
        """Tables of separate jobs add up by these numbers: they must never change."""
        documents = np.array([0, 1, 2, 10**6, 2**64 - 1], np.uint64)
        mixed = [self.splitmix(int(one)) for one in documents]
        assert name_documents(documents).tolist() == [one >> 2 | 1 << 61 for one in mixed]
        assert name_documents(np.array([71777214294589695], np.uint64)).tolist() == [4101777490771256335]


def test_blocks_are_filled_evenly():
    for number in (64, 640, 6400):
        filled = np.bincount(find_block(np.arange(number)), minlength=BLOCKS)
        assert filled.min() >= 0.7 * number / BLOCKS - 1
        assert filled.max() <= 1.3 * number / BLOCKS + 1


@given(st.lists(st.integers(0, 10**12), min_size=1, max_size=40))
def test_halves_are_halves_of_the_blocks(documents: list[int]):
    numbers = np.array(documents)
    assert (in_second_half(numbers) == (find_block(numbers) >= 32)).all()
