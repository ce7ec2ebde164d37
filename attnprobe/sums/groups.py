"""Sums over groups of sequences that belong together, such as the windows of a document."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from attnprobe.sums.protocol import Arrays

#: The most groups that are told apart. With more documents, those whose names agree in the rest of a
#: division by this number share a group, so that memory does not grow with the corpus.
MOST = 128
#: Names of documents begin here, and end below twice as much.
LEAST_NAME = 1 << 61


@dataclass(frozen=True)
class Groups:
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

    def __add__(self, other: "Groups") -> "Groups":
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
        return Groups(keys, count, total)._few()

    def __len__(self) -> int:
        """Give the number of groups."""
        return len(self.keys)

    @property
    def shared(self) -> bool:
        """Whether documents share groups."""
        return bool((self.keys < MOST).any())

    def arrays(self) -> dict[str, NDArray[np.generic]]:
        """Name everything that is needed to go on adding; nothing where there is no group."""
        return {"keys": self.keys, "count": self.count, "total": self.total} if len(self) else {}

    @classmethod
    def from_arrays(
        cls, arrays: Arrays, cells: tuple[int, ...] = (), total: tuple[int, ...] | None = None
    ) -> "Groups":
        """Restore what ``arrays`` gave.

        Args:
            arrays: Nothing where there is no group.
            cells: The shape of a count, for that case.
            total: The shape of a sum, where it is another.
        """
        if not arrays:
            sums = np.zeros((0, *(cells if total is None else total)))
            return cls(np.zeros(0, np.int64), np.zeros((0, *cells)), sums)
        return cls(arrays["keys"], arrays["count"], arrays["total"])

    def _few(self) -> "Groups":
        return self if len(self) <= MOST else self._folded()

    def _folded(self) -> "Groups":
        keys, inverse = np.unique(self.keys % MOST, return_inverse=True)
        count, total = self._zeros(len(keys))
        np.add.at(count, inverse, self.count)
        np.add.at(total, inverse, self.total)
        return Groups(keys, count, total)

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
