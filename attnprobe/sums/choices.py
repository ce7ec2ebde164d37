"""What every word of some texts chooses, kept text by text."""

from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from attnprobe.sums.base import Sum

Ints = NDArray[np.int64]
#: What stands before the choices of a text: its number, how many words choose, and among how many.
NUMBER, ASKERS, ANSWERS = range(3)
HEADING = 3


@dataclass(frozen=True)
class Choices(Sum):
    """What the words of each text choose, cell by cell. Unlike other sums, it grows with the texts.

    Attributes:
        numbers: (text,) which text it is.
        names: (text,) what names its document, see ``name_documents``.
        clusters: (text,) the same, or -1 where the text is a document of its own.
        sizes: (text, 2, ...) how many words choose, and among how many, cell by cell.
        chosen: (text, ..., word) the number of what each word chooses; -1 behind the last word.
    """

    by_name: ClassVar[bool] = True

    numbers: Ints
    names: Ints
    clusters: Ints
    sizes: NDArray[np.int32]
    chosen: NDArray[np.int32]

    @classmethod
    def of(cls, values: ArrayLike, clusters: Ints | None = None, documents: Ints | None = None) -> "Choices":
        """Keep a sample (sequence, ..., heading and word); NaN is what is not there."""
        sample = np.asarray(values, np.float64)
        flat = sample[..., NUMBER].reshape(len(sample), -1)
        there = np.isfinite(flat).any(1)
        sample = sample[there]
        names = np.flatnonzero(there) if documents is None else documents[there]
        groups = np.full(len(sample), -1) if clusters is None else clusters[there]
        whole = np.nan_to_num(sample, nan=-1).astype(np.int32)
        sizes = np.moveaxis(whole[..., [ASKERS, ANSWERS]], -1, 1)
        most = max(int(sizes[:, 0].max(initial=0)), 0)
        numbers = np.nanmax(flat[there], 1, initial=-1).astype(np.int64)
        return cls(numbers, names, groups, sizes, whole[..., HEADING : HEADING + most])

    def __add__(self, other: Self) -> Self:
        words = max(self.chosen.shape[-1], other.chosen.shape[-1])
        both = [one._widen(words) for one in (self, other)]
        named = ("numbers", "names", "clusters", "sizes", "chosen")
        return type(self)(*(np.concatenate([getattr(one, name) for one in both]) for name in named))

    def _widen(self, words: int) -> Self:
        missing = [(0, 0)] * (self.chosen.ndim - 1) + [(0, words - self.chosen.shape[-1])]
        return replace(self, chosen=np.pad(self.chosen, missing, constant_values=-1))

    @property
    def average(self) -> NDArray[np.float64]:
        return self.chosen.astype(np.float64)

    @property
    def count(self) -> NDArray[np.float64]:
        """Texts of each cell in which some word chooses."""
        return (self.sizes[:, 0] > 0).sum(0).astype(np.float64)
