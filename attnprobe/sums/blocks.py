"""Sums over blocks of documents, to draw from a sample again after it was summed up."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from attnprobe.sums.protocol import Arrays

#: Documents are sorted into so many blocks: a power of two.
BLOCKS = 64
_BITS = 6


def block_of(documents: NDArray[np.int64]) -> NDArray[np.int64]:
    """Sort documents into blocks by their numbers or names, alike in every run whatever else is there.

    Not by turns, which is how labels often come: by the fractional part of multiples of the golden ratio,
    which fills all blocks evenly and keeps step with nothing (Knuth, volume 3, section 6.4).

    >>> block_of(np.arange(5)).tolist()
    [0, 39, 15, 54, 30]
    """
    mixed = documents.astype(np.uint64) * np.uint64(0x9E3779B1) & np.uint64(0xFFFFFFFF)
    return (mixed >> np.uint64(32 - _BITS)).astype(np.int64)


def in_second_half(documents: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Sort documents in two: the first half of the blocks, and the second.

    >>> in_second_half(np.arange(8)).astype(int).tolist()
    [0, 1, 0, 1, 0, 0, 1, 0]
    """
    return block_of(documents) >= BLOCKS // 2


@dataclass(frozen=True)
class Blocks:
    """For each block of documents, how many examples it has and what they add up to.

    Attributes:
        count: (block,) examples.
        total: (block, ...) their sum, cell by cell.
    """

    count: NDArray[np.float64]
    total: NDArray[np.float64]

    @classmethod
    def of(cls, values: NDArray[np.float64], documents: NDArray[np.int64]) -> "Blocks":
        """Sum up (example, ...) by the documents they are of."""
        block = block_of(documents)
        total = np.zeros((BLOCKS, *values.shape[1:]))
        np.add.at(total, block, values)
        return cls(np.bincount(block, minlength=BLOCKS).astype(np.float64), total)

    def __add__(self, other: "Blocks") -> "Blocks":
        """Merge two samples."""
        return Blocks(self.count + other.count, self.total + other.total)

    def arrays(self) -> dict[str, NDArray[np.float64]]:
        """Name everything that is needed to go on adding."""
        return {"count": self.count, "total": self.total}

    @classmethod
    def from_arrays(cls, arrays: Arrays) -> "Blocks":
        """Restore what ``arrays`` gave."""
        return cls(arrays["count"], arrays["total"])

    @property
    def halves(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """The means over the documents of either half; NaN for a half without one."""
        first, second = slice(None, BLOCKS // 2), slice(BLOCKS // 2, None)
        return self._mean(first), self._mean(second)

    def _mean(self, some: slice) -> NDArray[np.float64]:
        count, total = self.count[some].sum(), self.total[some].sum(0)
        return total / count if count else np.full_like(total, np.nan)
