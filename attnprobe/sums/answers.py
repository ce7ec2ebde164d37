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

    Whoever is chosen without a block, and for whatever reason, is known only in the end. So all answers are
    kept, block by block; how head and rule agree within a block is known of their sums.

    Attributes:
        asked: (key, kind, block) links.
        hits: (key, layer, head, block) links that a head answers rightly.
        guessed: (key, kind, rule, block) links that a rule answers rightly.
    """

    asked: Counts
    hits: Counts
    guessed: Counts

    @classmethod
    def empty(cls, keys: int, kinds: int, layers: int, heads: int, rules: int) -> "Answers":
        """Begin to count."""
        shapes = ((kinds,), (layers, heads), (kinds, rules))
        return cls(*(np.zeros((keys, *shape, BLOCKS), np.int32) for shape in shapes))

    def over(self, at: NDArray[np.int64], keys: int) -> "Answers":
        """Put the counts of keys in their places ``at`` among more of them."""
        more = {name: np.zeros((keys, *one.shape[1:]), np.int32) for name, one in vars(self).items()}
        for name, whole in more.items():
            whole[at] = getattr(self, name)
        return replace(self, **more)
