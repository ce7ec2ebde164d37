"""Sums over folds of documents: what other documents would have said."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from attnprobe.sums.base import Sum
from attnprobe.sums.groups import Clustered, Groups
from attnprobe.sums.moments import Moments

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
class Blocks(Sum):
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

    @property
    def halves(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """The means over the documents of either half; NaN for a half without one."""
        first, second = slice(None, BLOCKS // 2), slice(BLOCKS // 2, None)
        return self._mean(first), self._mean(second)

    def _mean(self, some: slice) -> NDArray[np.float64]:
        count, total = self.count[some].sum(), self.total[some].sum(0)
        return total / count if count else np.full_like(total, np.nan)


#: Documents are sorted into so many folds, each of as many blocks.
FOLDS = 8

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class ByFold(Sum):
    """A sample, and what it adds up to in each fold of documents, cell by cell.

    All windows of a document are in one fold; the size does not depend on the number of documents.

    Attributes:
        whole: The sample.
        counts: (fold, ...) observations of each cell.
        totals: (fold, ...) their sum.

    >>> found = ByFold.of([[1.0], [3.0], [5.0]], documents=np.array([0, 0, 1]))
    >>> found.whole.average, found.filled.sum(), found.folds[0].average
    (array([3.]), np.int64(2), array([2.]))
    """

    #: Folds go by the names of documents, so that separate jobs have the same ones.
    by_name: ClassVar[bool] = True

    whole: Clustered
    counts: Floats
    totals: Floats

    @classmethod
    def of(
        cls,
        values: ArrayLike,
        clusters: NDArray[np.int64] | None = None,
        documents: NDArray[np.int64] | None = None,
    ) -> "ByFold":
        """Sum up a sample over its first axis; NaN is no observation."""
        sample = np.asarray(values, dtype=np.float64)
        fold = block_of(np.arange(len(sample)) if documents is None else documents) // (BLOCKS // FOLDS)
        counts, totals = (np.zeros((FOLDS, *sample.shape[1:])) for _ in range(2))
        for one in np.unique(fold):
            here = sample[fold == one]
            seen = ~np.isnan(here)
            counts[one], totals[one] = seen.sum(0), here.sum(0, where=seen)
        return cls(Clustered.of(sample, clusters, documents), counts, totals)

    @property
    def count(self) -> Floats:
        """Observations in each cell."""
        return self.whole.count

    @property
    def average(self) -> Floats:
        """The mean, NaN where nothing was observed."""
        return self.whole.average

    @property
    def standard_error(self) -> Floats:
        """The standard error of the mean, NaN below two documents."""
        return self.whole.standard_error

    @property
    def folds(self) -> list[Clustered]:
        """The means of each fold; they have no error."""
        means = np.divide(self.totals, self.counts, out=np.zeros_like(self.totals), where=self.counts > 0)
        none = Groups.none(means.shape[1:])
        return [
            Clustered(Moments(count, mean, np.zeros_like(mean)), none)
            for count, mean in zip(self.counts, means, strict=True)
        ]

    @property
    def filled(self) -> NDArray[np.bool_]:
        """Which folds have an observation, (fold,)."""
        return np.asarray(self.counts.reshape(FOLDS, -1).any(1))
