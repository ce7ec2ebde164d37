"""Means over sequences that belong together, such as the windows of a document."""

from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from attnprobe.sums.base import Arrays, Moments, Sum, select_prefix
from attnprobe.sums.inference import Estimate

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
#: The most clusters that are kept. Of more documents, those whose names leave the same rest when they are
#: divided by this number share a cluster, so that memory does not grow with the corpus.
MOST = 128


def sum_by_key(values: Floats, keys: Ints) -> tuple[Ints, Floats, Floats]:
    """Give the distinct keys, ascending, and for each the number and the sum of its values but NaN."""
    order = np.argsort(keys, kind="stable")
    values, keys = values[order], keys[order]
    starts = np.flatnonzero(np.diff(keys, prepend=-1))
    if not len(starts):
        nothing = np.zeros((0, *values.shape[1:]))
        return keys, nothing, nothing
    seen = ~np.isnan(values)
    count = np.add.reduceat(seen, starts, 0, dtype=np.float64)
    return keys[starts], count, np.add.reduceat(np.where(seen, values, 0.0), starts, 0)


@dataclass(frozen=True)
class ClusterSums(Sum):
    """Number and sum of the observations of each cluster, (cluster, ...), cell by cell.

    ``keys`` name the clusters, ascending. The name of a single document is at least ``MOST``; smaller keys
    stand for all documents that share a cluster.
    """

    keys: Ints
    count: Floats
    total: Floats

    @classmethod
    def of(cls, values: Floats, keys: Ints) -> "ClusterSums":
        """Sum up (sequence, ...) by the names of their documents; NaN is no observation.

        >>> ClusterSums.of(np.array([1.0, 2.0, 5.0]), np.array([200, 300, 200])).total
        array([6., 2.])
        """
        return cls(*sum_by_key(values, keys))._merge_if_many()

    def __add__(self, other: Self) -> Self:
        ours, theirs = self, other
        if ours.shared or theirs.shared:
            ours, theirs = ours._merge_clusters(), theirs._merge_clusters()
        keys = np.union1d(ours.keys, theirs.keys)
        count, total = np.zeros((2, len(keys), *self.count.shape[1:]))
        for side in (ours, theirs):
            at = np.searchsorted(keys, side.keys)
            count[at] += side.count
            total[at] += side.total
        return type(self)(keys, count, total)._merge_if_many()

    def __len__(self) -> int:
        return len(self.keys)

    @property
    def shared(self) -> bool:
        """Whether documents share clusters."""
        return bool((self.keys < MOST).any())

    def arrays(self) -> dict[str, NDArray[Any]]:
        return super().arrays() if len(self) else {}

    @classmethod
    def within(cls, arrays: Arrays, cells: tuple[int, ...]) -> "ClusterSums":
        """Restore the clusters of a larger sum from its arrays, which hold none where there is no cluster."""
        kept = select_prefix(arrays, "groups")
        nothing = np.zeros((0, *cells))
        return cls.from_arrays(kept) if kept else cls(np.zeros(0, np.int64), nothing, nothing)

    def _merge_if_many(self) -> Self:
        return self if len(self) <= MOST else self._merge_clusters()

    def _merge_clusters(self) -> Self:
        """Let documents share clusters: those whose names leave the same rest share one."""
        keys, inverse = np.unique(self.keys % MOST, return_inverse=True)
        count, total = np.zeros((2, len(keys), *self.count.shape[1:]))
        np.add.at(count, inverse, self.count)
        np.add.at(total, inverse, self.total)
        return type(self)(keys, count, total)


@dataclass(frozen=True)
class Clustered(Sum):
    """Mean and standard error of a sample whose observations come in clusters, cell by cell, in float64.

    The windows of a long document are alike, so what is left out at a time is a document. With C clusters,
    n_c of the N observations in cluster c, their sum T_c, and the mean m over all observations,

        SE^2 = (C - 1) / C  sum_c ((T_c - n_c m) / (N - n_c))^2

    If each cluster has one observation, this is s^2 / N.

    References:
        Quenouille (1956), Notes on bias in estimation; Tukey (1958), on the jackknife's error.
        Cameron and Miller (2015), A practitioner's guide to cluster-robust inference, section VI.

    >>> windows = Clustered.of([1.0, 1.0, 5.0, 5.0], np.array([200, 200, 300, 300]))
    >>> windows.average.item(), windows.standard_error.item()
    (3.0, 2.0)
    """

    FLAT: ClassVar[tuple[str, ...]] = ("alone",)

    alone: Moments
    groups: ClusterSums

    @classmethod
    def of(
        cls, values: ArrayLike, clusters: Ints | None = None, documents: Ints | None = None
    ) -> "Clustered":
        """Sum up a sample over its first axis; NaN is no observation."""
        sample = np.asarray(values, dtype=np.float64)
        names = np.full(len(sample), -1) if clusters is None else clusters
        shared = names >= 0  # other sequences are documents of their own
        return cls(Moments.of(sample[~shared]), ClusterSums.of(sample[shared], names[shared]))

    def __getitem__(self, cells: tuple[Any, ...]) -> "Clustered":
        alone, groups = self.alone, self.groups
        within = (slice(None), *cells)
        return Clustered(
            Moments(alone.count[cells], alone.mean[cells], alone.squares[cells]),
            ClusterSums(groups.keys, groups.count[within], groups.total[within]),
        )

    @classmethod
    def from_arrays(cls, arrays: Arrays, **known: Any) -> Self:
        return super().from_arrays(arrays, groups=ClusterSums.within(arrays, arrays["count"].shape), **known)

    @property
    def count(self) -> Floats:
        """Observations in each cell."""
        return self.alone.count + self.groups.count.sum(0) if len(self.groups) else self.alone.count

    @property
    def clusters(self) -> Floats:
        """Clusters with an observation, in each cell."""
        return self.alone.count + (self.groups.count > 0).sum(0)

    @property
    def documents(self) -> int:
        return int(self.clusters.max(initial=0))

    @property
    def average(self) -> Floats:
        """The mean, NaN where nothing was observed."""
        if not len(self.groups):
            return self.alone.average
        count = self.count
        total = self.alone.mean * self.alone.count + self.groups.total.sum(0)
        return np.divide(total, count, out=np.full_like(count, np.nan), where=count > 0)

    @property
    def standard_error(self) -> Floats:
        """The standard error of the mean, NaN below two clusters."""
        if not len(self.groups):
            return self.alone.standard_error
        count, clusters, mean = self.count, self.clusters, np.nan_to_num(self.average)
        shift = np.where(self.alone.count > 0, self.alone.mean - mean, 0.0)
        residuals = self.groups.total - self.groups.count * mean
        squares = self.alone.squares + self.alone.count * np.square(shift)
        left = np.square(count - self.groups.count)
        with np.errstate(divide="ignore", invalid="ignore"):
            pulls = np.where(self.groups.count > 0, np.square(residuals) / left, 0.0).sum(0)
            squared = (squares / np.square(count - 1) + pulls) * (clusters - 1) / clusters
        return np.sqrt(np.where((clusters > 1) & np.isfinite(squared), squared, np.nan))

    @property
    def estimate(self) -> Estimate:
        """The mean with its standard error; of unequal clusters, N^2 / sum_c n_c^2 count.

        References:
            Kish (1965), Survey sampling, on the effective size of a sample of unequal weights.
        """
        squares = self.alone.count + np.square(self.groups.count).sum(0)
        clusters = np.square(self.count) / np.maximum(squares, 1)
        return Estimate(self.average, self.standard_error, clusters)
