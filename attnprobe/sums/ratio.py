"""Ratios of totals with errors that know which sequences belong together."""

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import ArrayLike, NDArray

from attnprobe.sums.groups import Groups
from attnprobe.sums.protocol import Arrays, named, part_of

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Ratio:
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
        groups = Groups.from_arrays({}, sample.shape[1:])
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

    def __add__(self, other: "Ratio") -> "Ratio":
        """Merge two samples."""
        return Ratio(*(getattr(self, field.name) + getattr(other, field.name) for field in fields(self)))

    def arrays(self) -> dict[str, NDArray[np.generic]]:
        """Name everything that is needed to go on adding."""
        return {
            "alone": self.alone,
            "total": self.total,
            "products": self.products,
            **named("groups", self.groups.arrays()),
        }

    @classmethod
    def from_arrays(cls, arrays: Arrays) -> "Ratio":
        """Restore what ``arrays`` gave."""
        total = arrays["total"]
        groups = Groups.from_arrays(part_of(arrays, "groups"), total.shape)
        return cls(arrays["alone"], total, arrays["products"], groups)

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
