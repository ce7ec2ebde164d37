"""Totals by fold of documents, so that what is chosen on some folds can be scored on the others."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from attnprobe.sums.base import Arrays, Sum
from attnprobe.sums.documents import BLOCKS, find_block
from attnprobe.sums.groups import FOLDS, Groups, Ratio

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

#: The folds of the first half of the documents, and those of the second; see ``in_second_half``.
FIRST_HALF, SECOND_HALF = tuple(range(FOLDS // 2)), tuple(range(FOLDS // 2, FOLDS))


@dataclass(frozen=True)
class RatioByFold(Sum):
    """Totals of some numbers of every sequence, as ``Ratio`` has them, apart for each fold of documents.

    All sequences of a document are in one fold, and its name decides which.

    Attributes:
        alone: (fold, ...) as in ``Ratio``, and so are the next two.
        total: (fold, ..., number)
        products: (fold, ..., number, number)
        groups: The numbers (..., number) of documents of several sequences. The rest of a name divided by
            the number of folds is the document's fold, so that a group lies in one fold.

    >>> found = RatioByFold.of([[[4.0, 2.0]], [[2.0, 1.0]], [[2.0, 2.0]]], documents=np.arange(3))
    >>> found.select(range(8)).of_totals([0, 1])[0].item(), found.select([0]).count.item()
    (0.625, 1.0)
    """

    #: Folds go by the names of documents, so that separate jobs have the same ones.
    by_name: ClassVar[bool] = True

    alone: Floats
    total: Floats
    products: Floats
    groups: Groups

    @classmethod
    def of(
        cls, values: ArrayLike, clusters: Ints | None = None, documents: Ints | None = None
    ) -> "RatioByFold":
        """Sum up a sample (sequence, ..., number)."""
        sample = np.asarray(values, np.float64)
        names = np.full(len(sample), -1) if clusters is None else clusters
        if documents is None:
            documents = np.where(names < 0, np.arange(len(sample)), names)
        fold = find_block(documents) // (BLOCKS // FOLDS)
        names = np.where(names < 0, -1, names - names % FOLDS + fold)
        parts = [Ratio.of(sample[fold == one], names[fold == one]) for one in range(FOLDS)]
        alone, total, products = (
            np.stack([getattr(part, name) for part in parts]) for name in ("alone", "total", "products")
        )
        groups = Groups.none(sample.shape[1:])
        for part in parts:
            groups = groups + part.groups
        return cls(alone, total, products, groups)

    @classmethod
    def from_arrays(cls, arrays: Arrays, **known: Any) -> Self:
        return super().from_arrays(arrays, groups=Groups.within(arrays, arrays["total"].shape[1:]), **known)

    def select(self, folds: Collection[int]) -> Ratio:
        """Give the totals of some folds together."""
        some = list(folds)
        mine = np.isin(self.groups.keys % FOLDS, some)
        groups = Groups(self.groups.keys[mine], self.groups.count[mine], self.groups.total[mine])
        return Ratio(self.alone[some].sum(0), self.total[some].sum(0), self.products[some].sum(0), groups)

    @property
    def whole(self) -> Ratio:
        """The totals of all folds together."""
        return self.select(range(FOLDS))

    @property
    def count(self) -> Floats:
        """Sequences that ask something, in each cell."""
        return self.whole.count
