"""Means of which anything can be made, with the error of what is made of them."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from attnprobe.sums.blocks import BLOCKS, block_of
from attnprobe.sums.protocol import Arrays

Floats = NDArray[np.float64]

#: Blocks that pull a number by less than this part of it pull by rounding alone.
_ROUNDING = 1e-9


@dataclass(frozen=True)
class Jackknife:
    """Sums over blocks of documents, cell by cell, so that blocks can be left out one at a time.

    A number t that is made of means, such as a share of explained variance, has no standard error of a mean.
    With g blocks that have observations, and t_j made without block j,

        SE^2 = (g - 1) / g  sum_j (t_j - t)^2

    All windows of a document are in one block. Nothing is assumed of how alike windows are: blocks with many
    of them pull t_j further. Where t is a mean and blocks are documents, SE is that of ``Clustered``.

    Attributes:
        counts: (block, ...) observations of each cell.
        totals: (block, ...) their sum.

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
        clusters: NDArray[np.int64] | None = None,  # a block holds whole documents anyway
        documents: NDArray[np.int64] | None = None,
    ) -> "Jackknife":
        """Sum up a sample over its first axis; NaN is no observation."""
        sample = np.asarray(values, dtype=np.float64)
        block = block_of(np.arange(len(sample)) if documents is None else documents)
        order = np.argsort(block, kind="stable")
        sample, block = sample[order], block[order]
        counts, totals = (np.zeros((BLOCKS, *sample.shape[1:])) for _ in range(2))
        starts = np.flatnonzero(np.diff(block, prepend=-1))
        if len(starts):
            seen = ~np.isnan(sample)
            counts[block[starts]] = np.add.reduceat(seen, starts, 0, dtype=np.float64)
            totals[block[starts]] = np.add.reduceat(np.where(seen, sample, 0.0), starts, 0)
        return cls(counts, totals)

    def __add__(self, other: Self) -> Self:
        """Merge two samples."""
        return type(self)(self.counts + other.counts, self.totals + other.totals)

    def arrays(self) -> dict[str, NDArray[np.generic]]:
        """Name everything that is needed to go on adding."""
        return {"counts": self.counts, "totals": self.totals}

    @classmethod
    def from_arrays(cls, arrays: Arrays) -> Self:
        """Restore what ``arrays`` gave."""
        return cls(arrays["counts"], arrays["totals"])

    @cached_property
    def count(self) -> Floats:
        """Observations in each cell."""
        return self.counts.sum(0)

    @property
    def average(self) -> Floats:
        """The mean, NaN where nothing was observed."""
        return _mean(self.totals.sum(0), self.count)

    @property
    def standard_error(self) -> Floats:
        """The standard error of the mean, NaN below two blocks."""
        return self.made(lambda means: means)[1]

    def made(self, of: Callable[[Floats], Floats]) -> tuple[Floats, Floats]:
        """Make something of the means, and give its standard error.

        Args:
            of: From means (..., cells) to anything (..., cells); called with the means of all blocks, and
                with those of all but one, (block, ...), at once.

        Returns:
            What is made of all, and its error; NaN below two blocks.
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
