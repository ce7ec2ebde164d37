"""Totals by block of documents, so that what is chosen on some of them can be scored on the others."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from attnprobe.sums.base import Sum
from attnprobe.sums.documents import BLOCKS, find_block
from attnprobe.sums.groups import Ratio

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


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
