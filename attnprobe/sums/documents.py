"""Names of documents, and the blocks that they are sorted into."""

import numpy as np
from numpy.typing import NDArray

#: Names of documents begin here, and end below twice as much.
LEAST_NAME = 1 << 61
#: Documents are sorted into so many blocks: a power of two.
BLOCKS = 64
_BITS = 6


def splitmix64(numbers: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Give numbers that look random for others, the same in every run (Steele, Lea and Flood 2014)."""
    mixed = numbers + np.uint64(0x9E3779B97F4A7C15)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
    return mixed ^ (mixed >> np.uint64(31))


def name_documents(digests: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Name documents by digests of them, or by any other numbers; names are spread evenly."""
    mixed = splitmix64(digests.astype(np.uint64))
    return (mixed >> np.uint64(2) | np.uint64(LEAST_NAME)).astype(np.int64)


def find_block(documents: NDArray[np.int64]) -> NDArray[np.int64]:
    """Sort documents into blocks by their numbers or names, alike in every run whatever else is there.

    By the fractional part of multiples of the golden ratio, which fills all blocks evenly and keeps step with
    no order of labels (Knuth, volume 3, section 6.4).

    >>> find_block(np.arange(5)).tolist()
    [0, 39, 15, 54, 30]
    """
    mixed = documents.astype(np.uint64) * np.uint64(0x9E3779B1) & np.uint64(0xFFFFFFFF)
    return (mixed >> np.uint64(32 - _BITS)).astype(np.int64)


def in_second_half(documents: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Sort documents in two: the first half of the blocks, and the second.

    >>> in_second_half(np.arange(8)).astype(int).tolist()
    [0, 1, 0, 1, 0, 0, 1, 0]
    """
    return find_block(documents) >= BLOCKS // 2
