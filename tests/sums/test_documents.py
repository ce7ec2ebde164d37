"""Names of documents, and the blocks and halves that they lie in: the same in every run."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from attnprobe.sums.documents import BLOCKS, find_block, in_second_half, name_documents


def splitmix(number: int) -> int:
    """Steele, Lea and Flood (2014), in Python's own numbers."""
    number = (number + 0x9E3779B97F4A7C15) % 2**64
    number = (number ^ number >> 30) * 0xBF58476D1CE4E5B9 % 2**64
    number = (number ^ number >> 27) * 0x94D049BB133111EB % 2**64
    return number ^ number >> 31


def test_names_are_the_same_in_every_run():
    """Tables of separate jobs add up by these numbers: they must never change."""
    documents = np.array([0, 1, 2, 10**6, 2**64 - 1], np.uint64)
    mixed = [splitmix(int(document)) for document in documents]
    assert name_documents(documents).tolist() == [number >> 2 | 1 << 61 for number in mixed]
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
