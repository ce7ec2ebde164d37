"""Links and right answers in each block of documents, from which any folds can be put together."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from attnprobe.sums.base import Sum
from attnprobe.sums.documents import BLOCKS

#: Of counts that no corpus takes to 2^31, so that 64 blocks take no more room than 32 of whole numbers.
Counts = NDArray[np.int32]


@dataclass(frozen=True)
class Answers(Sum):
    """How many links there are in each block of documents, and how many heads and rules answer rightly.

    Attributes:
        asked: (key, kind, block) links.
        hits: (key, layer, head, block) links that a head answers rightly.
        guessed: (key, kind, rule, block) links that a rule answers rightly.
        chance: (key, kind, block) how many would be answered rightly by chance, where links name candidates.
    """

    asked: Counts
    hits: Counts
    guessed: Counts
    chance: NDArray[np.float64]

    @classmethod
    def empty(cls, keys: int, kinds: int, layers: int, heads: int, rules: int) -> "Answers":
        """Begin to count."""
        shapes = ((kinds,), (layers, heads), (kinds, rules))
        asked, hits, guessed = (np.zeros((keys, *shape, BLOCKS), np.int32) for shape in shapes)
        return cls(asked, hits, guessed, np.zeros((keys, kinds, BLOCKS)))

    def over(self, at: NDArray[np.int64], keys: int) -> "Answers":
        """Put the counts of keys in their places ``at`` among more of them."""
        more = {name: np.zeros((keys, *one.shape[1:]), one.dtype) for name, one in vars(self).items()}
        for name, whole in more.items():
            whole[at] = getattr(self, name)
        return replace(self, **more)
