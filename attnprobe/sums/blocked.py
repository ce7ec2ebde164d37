"""Sums over blocks of documents, so that blocks can be left out one at a time."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from attnprobe.sums.base import Sum
from attnprobe.sums.clustered import sum_by_key
from attnprobe.sums.documents import BLOCKS, find_block

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

#: Blocks that pull a number by less than this part of it pull by rounding alone.
_ROUNDING = 1e-9


@dataclass(frozen=True)
class Jackknife(Sum):
    """Sums over blocks of documents, cell by cell, so that blocks can be left out one at a time.

    With g blocks that have observations, a number t made of means, and t_j made without block j,

        SE^2 = (g - 1) / g  sum_j (t_j - t)^2

    All windows of a document are in one block. Where t is a mean and blocks are documents, SE is that of
    ``Clustered``. ``counts`` and ``totals`` are (block, ...).

    References:
        Tukey (1958), Bias and confidence in not quite large samples; Cameron and Miller (2015), A
        practitioner's guide to cluster-robust inference, section VI.

    >>> found = Jackknife.of([[1.0], [3.0], [5.0]], documents=np.arange(3))
    >>> found.average, found.standard_error.round(4)
    (array([3.]), array([1.1547]))
    """

    counts: Floats
    totals: Floats
    by_name: ClassVar[bool] = False

    @classmethod
    def of(
        cls,
        values: ArrayLike,
        clusters: Ints | None = None,  # a block holds whole documents anyway
        documents: Ints | None = None,
    ) -> "Jackknife":
        """Sum up a sample over its first axis; NaN is no observation."""
        sample = np.asarray(values, dtype=np.float64)
        block = find_block(np.arange(len(sample)) if documents is None else documents)
        counts, totals = (np.zeros((BLOCKS, *sample.shape[1:])) for _ in range(2))
        filled, counts_there, totals_there = sum_by_key(sample, block)
        counts[filled], totals[filled] = counts_there, totals_there
        return cls(counts, totals)

    @cached_property
    def count(self) -> Floats:
        """Observations in each cell."""
        return self.counts.sum(0)

    @property
    def documents(self) -> int:
        """Blocks that have an observation, of which the error is."""
        return int(self.counts.reshape(BLOCKS, -1).any(1).sum())

    @property
    def average(self) -> Floats:
        """The mean, NaN where nothing was observed."""
        return _mean(self.totals.sum(0), self.count)

    @property
    def standard_error(self) -> Floats:
        """The standard error of the mean, NaN below two blocks."""
        return self.apply(lambda means: means)[1]

    def apply(self, of: Callable[[Floats], Floats]) -> tuple[Floats, Floats]:
        """Make something of the means, (..., cells), and give its standard error; NaN below two blocks.

        ``of`` is called with the means of all blocks, and with those of all but one, (block, ...), at once.
        """
        some = np.flatnonzero(self.counts.reshape(BLOCKS, -1).any(1))
        left = _mean(self.totals.sum(0) - self.totals[some], self.count - self.counts[some])
        whole = of(self.average)
        number = len(some)
        if number < 2:
            return whole, np.full_like(whole, np.nan)
        apart = of(left) - whole
        apart = np.where(np.abs(apart) * number <= _ROUNDING * np.abs(whole), 0.0, apart)
        return whole, np.sqrt(np.square(apart).sum(0) * (number - 1) / number)


class NamedJackknife(Jackknife):
    """The same over blocks that go by the names of documents, so that separate jobs have the same blocks.

    They are filled less evenly than those that go by numbers: 64 documents fill about 40 of them.
    """

    by_name: ClassVar[bool] = True


def _mean(total: Floats, count: Floats) -> Floats:
    return np.divide(total, count, out=np.full_like(total, np.nan), where=count > 0)


@dataclass(frozen=True)
class Blocks(Sum):
    """For each block of documents, how many examples it has, (block,), and what they add up to."""

    count: Floats
    total: Floats

    @classmethod
    def of(cls, values: Floats, documents: Ints) -> "Blocks":
        """Sum up (example, ...) by the documents they are of."""
        block = find_block(documents)
        total = np.zeros((BLOCKS, *values.shape[1:]))
        np.add.at(total, block, values)
        return cls(np.bincount(block, minlength=BLOCKS).astype(np.float64), total)

    @property
    def halves(self) -> tuple[Floats, Floats]:
        """The means over the documents of either half; NaN for a half without one."""
        return self._mean(slice(None, BLOCKS // 2)), self._mean(slice(BLOCKS // 2, None))

    def _mean(self, some: slice) -> Floats:
        count, total = self.count[some].sum(), self.total[some].sum(0)
        return total / count if count else np.full_like(total, np.nan)
