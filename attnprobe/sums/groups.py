"""Sums, means and ratios over groups of sequences that belong together, such as the windows of a document."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from attnprobe.sums.base import Arrays, Sum, select_prefix
from attnprobe.sums.moments import Moments

#: The most groups that are told apart. With more documents, those whose names agree in the rest of a
#: division by this number share a group, so that memory does not grow with the corpus.
MOST = 128
#: Names of documents begin here, and end below twice as much.
LEAST_NAME = 1 << 61


@dataclass(frozen=True)
class Groups(Sum):
    """For each group, how many observations it has and what they add up to, cell by cell.

    Attributes:
        keys: What names each group, ascending. A document's own name is at least ``MOST``; smaller ones
            stand for all documents that share a group.
        count: (group, ...) observations.
        total: (group, ...) their sum; its cells may be others than those of the count.
    """

    keys: NDArray[np.int64]
    count: NDArray[np.float64]
    total: NDArray[np.float64]

    @classmethod
    def of(cls, values: NDArray[np.float64], keys: NDArray[np.int64]) -> "Groups":
        """Sum up (sequence, ...) by the names of their documents; NaN is no observation.

        >>> Groups.of(np.array([1.0, 2.0, 5.0]), np.array([200, 300, 200])).total
        array([6., 2.])
        """
        order = np.argsort(keys, kind="stable")
        values, keys = values[order], keys[order]
        starts = np.flatnonzero(np.diff(keys, prepend=-1))
        if not len(starts):
            nothing = np.zeros((0, *values.shape[1:]))
            return cls(keys[:0], nothing, nothing)
        seen = ~np.isnan(values)
        count = np.add.reduceat(seen, starts, 0, dtype=np.float64)
        total = np.add.reduceat(np.where(seen, values, 0.0), starts, 0)
        return cls(keys[starts], count, total)._few()

    def __add__(self, other: Self) -> Self:
        """Merge two samples: groups of one name become one."""
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
        """Give the number of groups."""
        return len(self.keys)

    @property
    def shared(self) -> bool:
        """Whether documents share groups."""
        return bool((self.keys < MOST).any())

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Name everything that is needed to go on adding; nothing where there is no group."""
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

    def _zeros(self, groups: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        return np.zeros((groups, *self.count.shape[1:])), np.zeros((groups, *self.total.shape[1:]))


def folded_names(names: NDArray[np.int64]) -> NDArray[np.int64]:
    """Give the name of the group that each document counts in: its own, or a shared one if there are many.

    >>> folded_names(np.array([500, 900, 500])).tolist(), len(set(folded_names(np.arange(200, 400))))
    ([500, 900, 500], 128)
    """
    return names if len(np.unique(names)) <= MOST else names % MOST


def names_of(digests: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Name documents by digests of them, or by whatever else tells them apart (splitmix64).

    Args:
        digests: One for each.

    Returns:
        Numbers from ``LEAST_NAME`` up, below twice that and evenly spread, the same in every run.
    """
    mixed = digests.astype(np.uint64)
    mixed += np.uint64(0x9E3779B97F4A7C15)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
    mixed ^= mixed >> np.uint64(31)
    return (mixed >> np.uint64(2) | np.uint64(LEAST_NAME)).astype(np.int64)


Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Ratio(Sum):
    """Totals of some numbers of every sequence, which are to be divided by the first of them, cell by cell.

    The first number is what is asked, such as the links of a sentence, the others what was found, such as
    right answers of a head and of a rule. A sequence whose first number is 0 or undefined asks nothing; it
    counts in the totals of its other numbers alone. Two of these sums add up.

    Attributes:
        alone: (...) sequences that ask something, those in ``groups`` not counted.
        total: (..., number) the sum of each number over sequences that are documents of their own.
        products: (..., number, number) the sum of the product of each two.
        groups: The numbers (..., number) of documents that were cut into windows.

    >>> found = Ratio.of([[[4.0, 2.0]], [[2.0, 1.0]], [[0.0, 0.0]]])
    >>> found.count.item(), found.of_totals([0, 1])[0].item()
    (2.0, 0.5)
    """

    alone: Floats
    total: Floats
    products: Floats
    groups: Groups

    @classmethod
    def of(
        cls,
        values: ArrayLike,
        clusters: NDArray[np.int64] | None = None,
        documents: NDArray[np.int64] | None = None,  # their names tell them apart
    ) -> "Ratio":
        """Sum up a sample (sequence, ..., number)."""
        sample = np.asarray(values, dtype=np.float64)
        single = np.ones(len(sample), bool) if clusters is None else clusters < 0
        asked = sample[..., 0] > 0
        known = np.nan_to_num(sample[single])
        groups = Groups.none(sample.shape[1:])
        if clusters is not None and not single.all():
            # What asks nothing is no observation of what is asked.
            windows = sample[~single].copy()
            windows[..., 0][~asked[~single]] = np.nan
            groups = Groups.of(windows, clusters[~single])
        return cls(
            asked[single].sum(0, dtype=np.float64),
            known.sum(0),
            np.einsum("s...a,s...b->...ab", known, known),
            groups,
        )

    @classmethod
    def from_arrays(cls, arrays: Arrays, **known: Any) -> Self:
        """Restore what ``arrays`` gave."""
        return super().from_arrays(arrays, groups=Groups.within(arrays, arrays["total"].shape), **known)

    @property
    def count(self) -> Floats:
        """Sequences that ask something, in each cell."""
        return self.alone + self.groups.count[..., 0].sum(0)

    @property
    def clusters(self) -> Floats:
        """Documents that ask something, in each cell."""
        return self.alone + (self.groups.total[..., 0] > 0).sum(0)

    @property
    def totals(self) -> Floats:
        """The sum of each number over all sequences, (..., number)."""
        return self.total + self.groups.total.sum(0)

    def parted(self, weights: Sequence[float]) -> tuple[Floats, Floats, Floats]:
        """Give a weighted sum of the numbers, document by document as far as that is known.

        Returns:
            Of each group (group, ...); of all other documents together (...); and of the latter the sum of
            the squares (...).
        """
        weighed = np.asarray(weights, np.float64)
        squares = np.einsum("a,...ab,b->...", weighed, self.products, weighed)
        return self.groups.total @ weighed, self.total @ weighed, squares

    def of_totals(self, weights: Sequence[float]) -> tuple[Floats, Floats]:
        """Divide a weighted sum of the totals by the first of them, and give the standard error of that.

        With y_c = sum_a w_a x_ca of document c, N = sum x_c0, r = sum y_c / N, and C documents that ask
        something,

            SE^2 = C / (C - 1)  sum_c (y_c - r x_c0)^2 / N^2

        Args:
            weights: w; (0, 1, -1) gives the second number less the third.

        Returns:
            Two arrays (...); NaN where nothing is asked, the error also below two documents.

        References:
            Cochran (1977), Sampling techniques, section 6.4.
        """
        asked, clusters = self.totals[..., 0], self.clusters
        with np.errstate(divide="ignore", invalid="ignore"):
            share = self.totals @ np.asarray(weights, np.float64) / asked
            left = np.zeros_like(self.total) + weights
            left[..., 0] -= np.nan_to_num(share)
            squares = np.einsum("...a,...ab,...b->...", left, self.products, left)
            squares = squares + np.square((self.groups.total * left).sum(-1)).sum(0)
            error = np.sqrt(np.maximum(squares, 0) * clusters / (clusters - 1)) / asked
        return share, np.where((clusters > 1) & (asked > 0), error, np.nan)


@dataclass(frozen=True)
class Clustered(Sum):
    """Mean and standard error of a sample whose observations come in clusters, cell by cell, in float64.

    The windows of a long document are alike: taken for independent, they make errors two to four times too
    small. So what is left out at a time is a document, not a window. With C clusters, of which cluster c
    has n_c of the N observations and their sum T_c, and the mean m over all observations,

        SE^2 = (C - 1) / C  sum_c ((T_c - n_c m) / (N - n_c))^2

    which is the jackknife over clusters. A document of one window is a cluster of one; if all are, this
    is s^2 / N.

    Attributes:
        alone: The observations that are clusters of their own.
        groups: The others.

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
        cls,
        values: ArrayLike,
        clusters: NDArray[np.int64] | None = None,
        documents: NDArray[np.int64] | None = None,  # their names tell them apart
    ) -> "Clustered":
        """Sum up a sample over its first axis; NaN is no observation."""
        sample = np.asarray(values, dtype=np.float64)
        if clusters is None or (clusters < 0).all():
            return cls(Moments.of(sample), Groups.none(sample.shape[1:]))
        single = clusters < 0
        return cls(Moments.of(sample[single]), Groups.of(sample[~single], clusters[~single]))

    def __getitem__(self, cells: tuple[NDArray[np.intp], ...]) -> "Clustered":
        """Pick some cells."""
        alone, groups = self.alone, self.groups
        within = (slice(None), *cells)
        return Clustered(
            Moments(alone.count[cells], alone.mean[cells], alone.squares[cells]),
            Groups(groups.keys, groups.count[within], groups.total[within]),
        )

    @classmethod
    def from_arrays(cls, arrays: Arrays, **known: Any) -> Self:
        """Restore what ``arrays`` gave."""
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
    def residuals(self) -> Floats:
        """T_c - n_c m of each group, (group, ...)."""
        return self.groups.total - self.groups.count * np.nan_to_num(self.average)
