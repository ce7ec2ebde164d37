"""Streaming mean and variance that merge: update and merge are the same addition."""

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from attnprobe.errors import AttnprobeError
from attnprobe.sums.base import Sum


@dataclass(frozen=True)
class Moments(Sum):
    """Count, mean and sum of squared deviations of a sample, cell by cell, in float64.

    Every cell counts its own observations, so a value that is undefined for some sequences (NaN) does not
    spoil the cell. The mean of none is 0 here, and NaN as ``average``.

    References:
        Chan, Golub and LeVeque (1983), Algorithms for computing the sample variance.

    >>> both = Moments.of([1.0, 2.0]) + Moments.of([3.0, float("nan")])
    >>> both.count.item(), both.average.item(), both.variance.item()
    (3.0, 2.0, 1.0)
    """

    count: NDArray[np.float64]
    mean: NDArray[np.float64]
    squares: NDArray[np.float64]

    @classmethod
    def of(cls, values: ArrayLike) -> "Moments":
        """Take the moments over the first axis of ``values``; NaN is no observation."""
        sample = np.asarray(values, dtype=np.float64)
        seen = ~np.isnan(sample)
        count = seen.sum(0, dtype=np.float64)
        mean = np.divide(sample.sum(0, where=seen), count, out=np.zeros_like(count), where=count > 0)
        with np.errstate(invalid="ignore"):  # a mean of infinite values has no variance
            deviations = np.where(seen, sample - mean, 0.0)
        return cls(count, mean, np.square(deviations).sum(0))

    def __add__(self, other: Self) -> Self:
        count = self.count + other.count
        share = np.divide(other.count, count, out=np.zeros_like(count), where=count > 0)
        with np.errstate(invalid="ignore"):
            apart = other.mean - self.mean
            mean = self.mean + apart * share
            squares = self.squares + other.squares + np.square(apart) * self.count * share
        return type(self)(count, mean, squares)

    @property
    def average(self) -> NDArray[np.float64]:
        """The mean, NaN where nothing was observed."""
        return np.where(self.count > 0, self.mean, np.nan)

    @property
    def variance(self) -> NDArray[np.float64]:
        """The unbiased sample variance, NaN below two observations."""
        nothing = np.full_like(self.squares, np.nan)
        return np.divide(self.squares, self.count - 1, out=nothing, where=self.count > 1)

    @property
    def standard_error(self) -> NDArray[np.float64]:
        """The standard error of the mean, sqrt(variance / count), NaN below two observations."""
        return np.sqrt(self.variance / np.maximum(self.count, 1))


#: By how much processors may differ in the same computation.
_ROUNDING = 1e-6


@dataclass(frozen=True)
class Constant(Sum):
    """Numbers that no sequence changes. Two of them add up to the same, and only if they are the same.

    >>> one = Constant.of([2.0, float("nan")])
    >>> (one + one).values
    array([ 2., nan])
    """

    values: NDArray[np.float64]

    @classmethod
    def of(cls, values: ArrayLike) -> "Constant":
        return cls(np.array(values, np.float64))

    def __add__(self, other: Self) -> Self:
        alike = self.values.shape == other.values.shape
        if not alike or not np.allclose(self.values, other.values, _ROUNDING, _ROUNDING, equal_nan=True):
            raise AttnprobeError(
                "What depends on the weights alone differs between parts that are to be added up: they are "
                "of different models."
            )
        return self

    @property
    def average(self) -> NDArray[np.float64]:
        return self.values

    @property
    def count(self) -> NDArray[np.float64]:
        """Whether there is a number, cell by cell: 1 or 0."""
        return (~np.isnan(self.values)).astype(np.float64)
