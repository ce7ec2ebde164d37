"""Counts of links and right answers: per label, direction, layer and head, beside those of simple rules."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from attnprobe.sums.base import Arrays, Sum
from attnprobe.sums.documents import BLOCKS

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
#: Of counts that no corpus takes to 2^31, so that 64 blocks take no more room than 32 of whole numbers.
Counts = NDArray[np.int32]
#: What is counted: a label, the name of a direction and, of some decoders, the position that is asked.
Key = tuple[str, ...]

#: What ends the keys of those links alone whose ends are not neighbours.
FAR = "far"
#: The fields that are counted key by key.
_BY_KEY = ("number", "hits", "guessed", "chance")


@dataclass(frozen=True)
class LinkCounts(Sum):
    """How many links each block of documents has, and how many of them each head and rule answers rightly.

    Attributes:
        keys: The labels and directions; behind them, each that ends in ``FAR``.
        left_out: Questions that were not asked, see ``Questions``.
        kinds: (layer,) which kind of attention a layer has, as a place among the model's. Links and what
            rules answer are alike in all layers of a kind.
        number: (key, kind, block) links.
        hits: (key, layer, head, block) links that a head answers rightly.
        guessed: (key, kind, rule, block) links that a rule answers rightly.
        chance: (key, kind, block) how many would be answered rightly by chance, where links name candidates.
    """

    keys: tuple[Key, ...]
    left_out: Ints
    kinds: Ints
    number: Counts
    hits: Counts
    guessed: Counts
    chance: Floats

    @classmethod
    def empty(cls, keys: Sequence[Key], kinds: Sequence[int], heads: int, rules: int) -> "LinkCounts":
        """Begin to count in layers of some kinds of attention, from 0 up."""
        number = len(keys), len(set(kinds))
        return cls(
            tuple(keys),
            np.zeros(3, np.int64),
            np.array(kinds, np.int64),
            np.zeros((*number, BLOCKS), np.int32),
            np.zeros((len(keys), len(kinds), heads, BLOCKS), np.int32),
            np.zeros((*number, rules, BLOCKS), np.int32),
            np.zeros((*number, BLOCKS)),
        )

    @property
    def shape(self) -> tuple[int, int]:
        """Layers, and heads of each."""
        _, layers, heads, _ = self.hits.shape
        return layers, heads

    @property
    def links(self) -> Ints:
        """How many there are, (key, layer)."""
        return self.number.sum(-1, dtype=np.int64)[:, self.kinds]

    @property
    def near(self) -> tuple[Key, ...]:
        """The keys but those of links at a distance, which are the last."""
        return tuple(key for key in self.keys if key[-1] != FAR)

    @property
    def documents(self) -> int:
        """Blocks of documents with links of the key of which most blocks have some."""
        return int((self.number > 0).sum(-1).max(initial=0))

    def __add__(self, other: Self) -> Self:
        keys = self.keys if self.keys == other.keys else order_keys((*self.keys, *other.keys))
        ours, theirs = (side._rename_keys(side.keys, keys) for side in (self, other))
        counts = {name: getattr(ours, name) + getattr(theirs, name) for name in _BY_KEY}
        return replace(ours, left_out=self.left_out + other.left_out, **counts)

    def take_stratum(self, name: str) -> Self:
        """Give the counts of one group of documents, where each key begins with the name of its group.

        Questions that were not asked are not told apart by group, and are none here.
        """
        counts = self._rename_keys([key[1:] if key[0] == name else None for key in self.keys])
        return replace(counts, left_out=np.zeros_like(self.left_out))

    def join_strata(self) -> Self:
        """Give the counts over all groups of documents, where each key begins with the name of its group."""
        return self._rename_keys([key[1:] for key in self.keys])

    def _rename_keys(self, names: Sequence[Key | None], keys: tuple[Key, ...] | None = None) -> Self:
        """Give keys other names, among ``keys`` if given: what gets one name adds up, and None goes."""
        keys = order_keys(name for name in names if name is not None) if keys is None else keys
        if tuple(names) == keys == self.keys:
            return self
        place, arrays = {key: at for at, key in enumerate(keys)}, dict[str, NDArray[Any]]()
        for field in _BY_KEY:
            counts = getattr(self, field)
            arrays[field] = np.zeros((len(keys), *counts.shape[1:]), counts.dtype)
            for name, old in zip(names, counts, strict=True):
                if name is not None:
                    arrays[field][place[name]] += old
        return replace(self, keys=keys, **arrays)

    def arrays(self) -> dict[str, NDArray[Any]]:
        # numpy's strings are all as long as the longest, and end before a NUL.
        return {**super().arrays(), "keys": np.frombuffer(json.dumps(self.keys).encode(), np.uint8)}

    @classmethod
    def from_arrays(cls, arrays: Arrays, **known: Any) -> Self:
        keys = tuple(tuple(map(str, key)) for key in json.loads(arrays["keys"].tobytes()))
        return super().from_arrays(arrays, keys=keys, **known)


def order_keys(keys: Iterable[Key]) -> tuple[Key, ...]:
    """Give each key once, those of links at a distance last."""
    return tuple(sorted(dict.fromkeys(keys), key=lambda key: key[-1] == FAR))
