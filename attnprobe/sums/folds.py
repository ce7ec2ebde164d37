"""Totals by block of documents, so that what is chosen on some of them can be scored on the others."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from attnprobe.sums.base import Arrays, Sum
from attnprobe.sums.clustered import Groups, split_documents
from attnprobe.sums.documents import BLOCKS, find_block
from attnprobe.sums.inference import Estimate, sign_flip

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Ratio(Sum):
    """Totals of some numbers of every sequence, to be divided by the first of them, cell by cell.

    The first number is what is asked, such as the links of a sentence, the others what was found. A sequence
    whose first number is 0 or undefined counts in the totals of its other numbers alone.

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
    def of(cls, values: ArrayLike, clusters: Ints | None = None, documents: Ints | None = None) -> "Ratio":
        """Sum up a sample (sequence, ..., number)."""
        alone, windows, names = split_documents(np.asarray(values, dtype=np.float64), clusters)
        # What asks nothing is no observation of what is asked.
        windows[..., 0][~(windows[..., 0] > 0)] = np.nan
        known = np.nan_to_num(alone)
        return cls(
            (alone[..., 0] > 0).sum(0, dtype=np.float64),
            known.sum(0),
            np.einsum("s...a,s...b->...ab", known, known),
            Groups.of(windows, names),
        )

    @classmethod
    def from_arrays(cls, arrays: Arrays, **known: Any) -> Self:
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
    def documents(self) -> int:
        return int(self.clusters.max(initial=0))

    @property
    def totals(self) -> Floats:
        """The sum of each number over all sequences, (..., number)."""
        return self.total + self.groups.total.sum(0)

    def part(self, weights: Sequence[float]) -> tuple[Floats, Floats, Floats]:
        """Give a weighted sum of each group, of all other documents together, and the latter's squares."""
        weighed = np.asarray(weights, np.float64)
        squares = np.einsum("a,...ab,b->...", weighed, self.products, weighed)
        return self.groups.total @ weighed, self.total @ weighed, squares

    def of_totals(self, weights: Sequence[float], by: int = 0) -> tuple[Floats, Floats]:
        """Divide a weighted sum of the totals by one of them, and give the standard error of that.

        With y_c = sum_a w_a x_ca of document c, N = sum x_c,by, r = sum y_c / N, and C documents that ask
        something,

            SE^2 = C / (C - 1)  sum_c (y_c - r x_c,by)^2 / N^2

        Both are NaN where nothing is asked, the error also below two documents.

        References:
            Cochran (1977), Sampling techniques, section 6.4.
        """
        asked, clusters = self.totals[..., by], self.clusters
        with np.errstate(divide="ignore", invalid="ignore"):
            share = self.totals @ np.asarray(weights, np.float64) / asked
            left = np.zeros_like(self.total) + weights
            left[..., by] -= np.nan_to_num(share)
            squares = np.einsum("...a,...ab,...b->...", left, self.products, left)
            squares = squares + np.square((self.groups.total * left).sum(-1)).sum(0)
            error = np.sqrt(np.maximum(squares, 0) * clusters / (clusters - 1)) / asked
        share = np.where(asked > 0, share, np.nan)
        return share, np.where((clusters > 1) & (asked > 0), error, np.nan)


@dataclass(frozen=True)
class RatioByBlock(Sum):
    """Totals of some numbers of every sequence, as ``Ratio`` has them, and those of each block of documents.

    Attributes:
        whole: The totals of all documents.
        blocks: (block, ..., number) the totals of each block, see ``find_block``.

    >>> found = RatioByBlock.of([[[4.0, 2.0]], [[2.0, 1.0]], [[2.0, 2.0]]], documents=np.arange(3))
    >>> found.whole.of_totals([0, 1])[0].item(), found.blocks[[0, 39, 15], 0, 1].tolist()
    (0.625, [2.0, 1.0, 2.0])
    """

    #: Blocks go by the names of documents, so that separate jobs have the same ones.
    by_name: ClassVar[bool] = True

    whole: Ratio
    blocks: Floats

    @classmethod
    def of(
        cls, values: ArrayLike, clusters: Ints | None = None, documents: Ints | None = None
    ) -> "RatioByBlock":
        """Sum up a sample (sequence, ..., number)."""
        sample = np.asarray(values, np.float64)
        names = np.full(len(sample), -1) if clusters is None else clusters
        if documents is None:
            documents = np.where(names < 0, np.arange(len(sample)), names)
        blocks = np.zeros((BLOCKS, *sample.shape[1:]))
        np.add.at(blocks, find_block(documents), np.nan_to_num(sample))
        return cls(Ratio.of(sample, clusters), blocks)


def find_gain(found: Ratio, weights: Sequence[float]) -> tuple[Floats, Floats, Floats]:
    """Give a weighted sum of totals, divided by the first of them, its error, and p, cell by cell.

    The p value is one-sided, of Student's t, whose error pairs the numbers in each document. Where sequences
    are parts of documents, documents are compared, see ``sign_flip``. It is NaN without an error.
    """
    gain = Estimate(*found.of_totals(weights), found.clusters)
    if not len(found.groups):
        return gain.value, gain.error, gain.p(one_sided=True)
    of_groups, ahead, squares = (part.round().astype(np.int64) for part in found.part(weights))
    p = np.full(gain.error.shape, np.nan)
    for cell in zip(*np.nonzero(np.isfinite(gain.error)), strict=True):
        # Documents of one sequence, as if each were one link.
        ones = np.repeat([1, -1], [(squares[cell] + ahead[cell]) // 2, (squares[cell] - ahead[cell]) // 2])
        p[cell] = sign_flip(np.concatenate([of_groups[:, *cell], ones]))
    return gain.value, gain.error, p
