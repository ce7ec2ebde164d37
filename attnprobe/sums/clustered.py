"""Means with errors that know which observations belong together."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from attnprobe.sums.groups import Groups
from attnprobe.sums.moments import Moments
from attnprobe.sums.protocol import Arrays, named, part_of

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Clustered:
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
            return cls(Moments.of(sample), Groups.from_arrays({}, sample.shape[1:]))
        single = clusters < 0
        return cls(Moments.of(sample[single]), Groups.of(sample[~single], clusters[~single]))

    def __add__(self, other: "Clustered") -> "Clustered":
        """Merge two samples."""
        return Clustered(self.alone + other.alone, self.groups + other.groups)

    def __getitem__(self, cells: tuple[NDArray[np.intp], ...]) -> "Clustered":
        """Pick some cells."""
        alone, groups = self.alone, self.groups
        within = (slice(None), *cells)
        return Clustered(
            Moments(alone.count[cells], alone.mean[cells], alone.squares[cells]),
            Groups(groups.keys, groups.count[within], groups.total[within]),
        )

    def arrays(self) -> dict[str, NDArray[np.generic]]:
        """Name everything that is needed to go on adding."""
        return {**self.alone.arrays(), **named("groups", self.groups.arrays())}

    @classmethod
    def from_arrays(cls, arrays: Arrays) -> "Clustered":
        """Restore what ``arrays`` gave."""
        alone = Moments.from_arrays(arrays)
        return cls(alone, Groups.from_arrays(part_of(arrays, "groups"), alone.count.shape))

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
