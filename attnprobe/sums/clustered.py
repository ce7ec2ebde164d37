"""Means over sequences that belong together, such as the windows of a document."""

from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from attnprobe.sums.base import Arrays, Moments, Sum, select_prefix
from attnprobe.sums.inference import Estimate

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
#: The most groups that are told apart. With more documents, those whose names agree in the rest of a
#: division by this number share a group, so that memory does not grow with the corpus.
MOST = 128


def sum_by_key(values: Floats, keys: Ints) -> tuple[Ints, Floats, Floats]:
    """Give the keys, ascending, and how many (sequence, ...) of each are no NaN, and what they add up to."""
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
class Groups(Sum):
    """For each group, (group, ...) observations and their sum, cell by cell.

    ``keys`` name the groups, ascending. A document's own name is at least ``MOST``; smaller ones stand for
    all documents that share a group.
    """

    keys: Ints
    count: Floats
    total: Floats

    @classmethod
    def of(cls, values: Floats, keys: Ints) -> "Groups":
        """Sum up (sequence, ...) by the names of their documents; NaN is no observation.

        >>> Groups.of(np.array([1.0, 2.0, 5.0]), np.array([200, 300, 200])).total
        array([6., 2.])
        """
        return cls(*sum_by_key(values, keys))._few()

    def __add__(self, other: Self) -> Self:
        if not len(other):
            return self
        if not len(self):
            return other
        ours, theirs = self, other
        if ours.shared or theirs.shared:
            ours, theirs = ours._folded(), theirs._folded()
        keys = np.union1d(ours.keys, theirs.keys)
        count, total = ours._zeros(len(keys))
        for side in (ours, theirs):
            at = np.searchsorted(keys, side.keys)
            count[at] += side.count
            total[at] += side.total
        return type(self)(keys, count, total)._few()

    def __len__(self) -> int:
        return len(self.keys)

    @property
    def shared(self) -> bool:
        """Whether documents share groups."""
        return bool((self.keys < MOST).any())

    def arrays(self) -> dict[str, NDArray[Any]]:
        return super().arrays() if len(self) else {}

    @classmethod
    def none(cls, cells: tuple[int, ...], total: tuple[int, ...] | None = None) -> "Groups":
        """Give no group at all, with counts of a shape, and sums of the same or of another."""
        sums = np.zeros((0, *(cells if total is None else total)))
        return cls(np.zeros(0, np.int64), np.zeros((0, *cells)), sums)

    @classmethod
    def within(cls, arrays: Arrays, cells: tuple[int, ...], total: tuple[int, ...] | None = None) -> "Groups":
        """Restore the groups of a larger sum from its arrays, which hold none where there is no group."""
        own = select_prefix(arrays, "groups")
        return cls.from_arrays(own) if own else cls.none(cells, total)

    def _few(self) -> Self:
        return self if len(self) <= MOST else self._folded()

    def _folded(self) -> Self:
        keys, inverse = np.unique(self.keys % MOST, return_inverse=True)
        count, total = self._zeros(len(keys))
        np.add.at(count, inverse, self.count)
        np.add.at(total, inverse, self.total)
        return type(self)(keys, count, total)

    def _zeros(self, groups: int) -> tuple[Floats, Floats]:
        return np.zeros((groups, *self.count.shape[1:])), np.zeros((groups, *self.total.shape[1:]))


def fold_names(names: Ints) -> Ints:
    """Give the name of the group that each document counts in: its own, or a shared one if there are many.

    >>> fold_names(np.array([500, 900, 500])).tolist(), len(set(fold_names(np.arange(200, 400))))
    ([500, 900, 500], 128)
    """
    return names if len(np.unique(names)) <= MOST else names % MOST


def split_documents(sample: Floats, clusters: Ints | None) -> tuple[Floats, Floats, Ints]:
    """Part sequences that are documents of their own from the others, and give the names of these."""
    if clusters is None or (clusters < 0).all():
        return sample, sample[:0], np.zeros(0, np.int64)
    single = clusters < 0
    return sample[single], sample[~single], clusters[~single]


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
    groups: Groups

    @classmethod
    def of(
        cls, values: ArrayLike, clusters: Ints | None = None, documents: Ints | None = None
    ) -> "Clustered":
        """Sum up a sample over its first axis; NaN is no observation."""
        alone, windows, names = split_documents(np.asarray(values, dtype=np.float64), clusters)
        return cls(Moments.of(alone), Groups.of(windows, names))

    def __getitem__(self, cells: tuple[Any, ...]) -> "Clustered":
        alone, groups = self.alone, self.groups
        within = (slice(None), *cells)
        return Clustered(
            Moments(alone.count[cells], alone.mean[cells], alone.squares[cells]),
            Groups(groups.keys, groups.count[within], groups.total[within]),
        )

    @classmethod
    def from_arrays(cls, arrays: Arrays, **known: Any) -> Self:
        return super().from_arrays(arrays, groups=Groups.within(arrays, arrays["count"].shape), **known)

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
        count, clusters = self.count, self.clusters
        shift = np.where(self.alone.count > 0, self.alone.mean - np.nan_to_num(self.average), 0.0)
        squares = self.alone.squares + self.alone.count * np.square(shift)
        left = np.square(count - self.groups.count)
        with np.errstate(divide="ignore", invalid="ignore"):
            pulls = np.where(self.groups.count > 0, np.square(self.residuals) / left, 0.0).sum(0)
            found = (squares / np.square(count - 1) + pulls) * (clusters - 1) / clusters
        return np.sqrt(np.where((clusters > 1) & np.isfinite(found), found, np.nan))

    @property
    def estimate(self) -> Estimate:
        """The mean with its standard error over clusters."""
        return Estimate(self.average, self.standard_error, self.clusters)

    @property
    def residuals(self) -> Floats:
        """T_c - n_c m of each group, (group, ...)."""
        return self.groups.total - self.groups.count * np.nan_to_num(self.average)
