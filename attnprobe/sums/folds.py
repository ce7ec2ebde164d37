"""Means with errors, beside the means of folds of documents: what other documents would have said."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from attnprobe.sums.blocks import BLOCKS, block_of
from attnprobe.sums.clustered import Clustered
from attnprobe.sums.groups import Groups
from attnprobe.sums.moments import Moments
from attnprobe.sums.protocol import Arrays, named, part_of

#: Documents are sorted into so many folds, each of as many blocks.
FOLDS = 8

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class ByFold:
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

    def __add__(self, other: "ByFold") -> "ByFold":
        """Merge two samples."""
        return ByFold(self.whole + other.whole, self.counts + other.counts, self.totals + other.totals)

    def arrays(self) -> dict[str, NDArray[np.generic]]:
        """Name everything that is needed to go on adding."""
        return {**named("whole", self.whole.arrays()), "counts": self.counts, "totals": self.totals}

    @classmethod
    def from_arrays(cls, arrays: Arrays) -> "ByFold":
        """Restore what ``arrays`` gave."""
        return cls(Clustered.from_arrays(part_of(arrays, "whole")), arrays["counts"], arrays["totals"])

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
        none = Groups.from_arrays({}, means.shape[1:])
        return [
            Clustered(Moments(count, mean, np.zeros_like(mean)), none)
            for count, mean in zip(self.counts, means, strict=True)
        ]

    @property
    def filled(self) -> NDArray[np.bool_]:
        """Which folds have an observation, (fold,)."""
        return np.asarray(self.counts.reshape(FOLDS, -1).any(1))
