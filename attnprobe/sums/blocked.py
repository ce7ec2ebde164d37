"""Sums over blocks of documents, which give the error of anything that is made of them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from attnprobe.sums.base import Sum
from attnprobe.sums.clustered import sum_by_key
from attnprobe.sums.documents import BLOCKS, find_block
from attnprobe.sums.inference import Estimate

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

#: Blocks that pull a number by less than this part of it pull by rounding alone.
_ROUNDING = 1e-9


def jackknife(
    function: Callable[[Floats], Floats], totals: Floats, sizes: Floats, *, unbiased: bool = False
) -> Estimate:
    """Compute a number from totals, with its standard error over blocks of documents.

    With g blocks that have observations, the number t, and t_j the same without block j,

        SE^2 = (g - 1) / g  sum_j (t_j - t)^2

    ``unbiased`` gives t - (g - 1) (mean_j t_j - t) for t, which is free of bias to the first order in 1 / g.

    All windows of a document are in one block, so whole documents are left out. The effective number of
    blocks with n_j observations each is (sum_j n_j)^2 / sum_j n_j^2, so that p is not too small if a few
    blocks have most observations.

    Args:
        function: Is called with the sum of all blocks, and with the sums of all but one, (block, ...).
        totals: (block, ...) sums.
        sizes: (block, ...) observations, or links, behind each number that the function gives, or behind all.
        unbiased: Whether the bias is taken out.

    References:
        Tukey (1958), Bias and confidence in not quite large samples; Cameron and Miller (2015), A
        practitioner's guide to cluster-robust inference, section VI.
        Kish (1965), Survey sampling, on the effective size of a sample of unequal weights.
    """
    whole = np.asarray(function(totals.sum(0)))
    sizes = sizes.reshape(*sizes.shape, *(1,) * (whole.ndim + 1 - sizes.ndim))
    with np.errstate(divide="ignore", invalid="ignore"):
        clusters = np.nan_to_num(np.square(sizes.sum(0)) / np.square(sizes).sum(0))
        clusters = np.broadcast_to(clusters, whole.shape)
    filled = np.flatnonzero(sizes.reshape(len(sizes), -1).any(1))
    if len(filled) < 2:
        return Estimate(whole, np.full_like(whole, np.nan), clusters)
    there = sizes[filled] > 0
    number = there.sum(0)
    pull = np.where(there, function(totals.sum(0) - totals[filled]) - whole, 0.0)
    pull = np.where(np.abs(pull) * number <= _ROUNDING * np.abs(whole), 0.0, pull)
    share = (number - 1) / np.maximum(number, 1)
    error = np.sqrt(np.square(pull).sum(0) * share)
    value = whole - pull.sum(0) * share if unbiased else whole
    return Estimate(value, np.where(number > 1, error, np.nan), clusters)


def find_share(right: NDArray[Any], number: NDArray[Any]) -> Estimate:
    """Share of right answers (..., block) among links (block,), with its standard error over blocks."""
    totals = np.concatenate([right.reshape(-1, len(number)), number[None]]).T.astype(np.float64)
    shares = jackknife(lambda sums: _mean(sums[..., -1:], sums[..., :-1]), totals, totals[:, -1])
    shape = right.shape[:-1]
    return Estimate(shares.value.reshape(shape), shares.error.reshape(shape), shares.clusters.reshape(shape))


@dataclass(frozen=True)
class Blocked(Sum):
    """Values of sequences, summed in blocks of their documents, cell by cell.

    Blocks are chosen by the names of documents, so separate jobs have the same blocks.

    Attributes:
        counts: (block, ...) observations.
        totals: (block, ...) their sum.

    >>> blocked = Blocked.of([[4.0, 2.0], [2.0, 1.0], [2.0, 2.0]], documents=np.arange(3))
    >>> blocked.average.round(4).tolist(), blocked.ratio([0, 1]).value.item()
    ([2.6667, 1.6667], 0.625)
    """

    counts: Floats
    totals: Floats

    @classmethod
    def of(
        cls,
        values: ArrayLike,
        clusters: Ints | None = None,  # a block holds whole documents anyway
        documents: Ints | None = None,
    ) -> "Blocked":
        """Sum a sample over its first axis; NaN is no observation."""
        sample = np.asarray(values, dtype=np.float64)
        block = find_block(np.arange(len(sample)) if documents is None else documents)
        counts, totals = (np.zeros((BLOCKS, *sample.shape[1:])) for _ in range(2))
        filled, counts_there, totals_there = sum_by_key(sample, block)
        counts[filled], totals[filled] = counts_there, totals_there
        return cls(counts, totals)

    def __getitem__(self, cells: tuple[Any, ...]) -> "Blocked":
        return Blocked(self.counts[:, *cells], self.totals[:, *cells])

    @cached_property
    def count(self) -> Floats:
        """Observations in each cell."""
        return self.counts.sum(0)

    @cached_property
    def total(self) -> Floats:
        """The sum of each cell."""
        return self.totals.sum(0)

    @property
    def documents(self) -> int:
        """Blocks that have an observation, of which the error is."""
        return int(self.counts.reshape(BLOCKS, -1).any(1).sum())

    @property
    def average(self) -> Floats:
        """The mean, NaN without observations."""
        return _mean(self.count, self.total)

    @property
    def standard_error(self) -> Floats:
        """The standard error of the mean, NaN below two blocks."""
        return self.estimate.error

    @cached_property
    def estimate(self) -> Estimate:
        """The mean with its standard error."""
        return self._jackknife(lambda means: means, self.counts)

    def apply(self, function: Callable[[Floats], Floats]) -> Estimate:
        """Apply a function to the means, (..., cells), with its standard error."""
        return self._jackknife(function, self.counts.reshape(BLOCKS, -1).max(1))

    def ratio(self, weights: Sequence[float], by: int = 0) -> Estimate:
        """Divide a weighted sum of the totals of the last axis by one of them, with its standard error."""
        weighed = np.asarray(weights, np.float64)

        def divide(totals: Floats) -> Floats:
            return _mean(totals[..., by], totals @ weighed)

        return jackknife(divide, self.totals, self.totals[..., by])

    def _jackknife(self, function: Callable[[Floats], Floats], sizes: Floats) -> Estimate:
        both = np.stack([self.counts, self.totals], -1)
        return jackknife(lambda sums: function(_mean(sums[..., 0], sums[..., 1])), both, sizes)


def _mean(count: Floats, total: Floats) -> Floats:
    there = np.broadcast_to(count > 0, total.shape)
    return np.divide(total, count, out=np.full_like(total, np.nan), where=there)
