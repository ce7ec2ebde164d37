"""Numbers of pairs, as batches give them: they add up over batches, processes and resumed runs."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnprobe.sums.base import Arrays, add_prefix, select_prefix

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class PairValues:
    """Numbers of some pairs, each (pair, ...), by their names. Two add up to one of more pairs.

    Attributes:
        parts: For each batch which pairs these are, (pair,), and their numbers.
    """

    parts: tuple[tuple[NDArray[np.int64], Mapping[str, NDArray[Any]]], ...]

    def __add__(self, other: "PairValues") -> "PairValues":
        return PairValues((*self.parts, *other.parts))

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Name the arrays of all parts; those of one shape are joined."""
        together: dict[tuple[Any, ...], list[tuple[NDArray[np.int64], Mapping[str, NDArray[Any]]]]] = {}
        for members, values in self.parts:
            shape = tuple((name, array.shape[1:]) for name, array in values.items())
            together.setdefault(shape, []).append((members, values))
        found: dict[str, NDArray[Any]] = {}
        for number, parts in enumerate(together.values()):
            values = {name: np.concatenate([part[name] for _, part in parts]) for name in parts[0][1]}
            members = np.concatenate([members for members, _ in parts])
            found |= add_prefix(str(number), {"members": members, **add_prefix("values", values)})
        return found

    @classmethod
    def from_arrays(cls, arrays: Arrays) -> "PairValues":
        numbers = dict.fromkeys(name.partition("/")[0] for name in arrays)
        parts = (select_prefix(arrays, number) for number in numbers)
        return cls(tuple((one["members"], select_prefix(one, "values")) for one in parts))

    def collect(self, name: str, members: NDArray[np.int64]) -> Floats:
        """Collect one of the numbers of some pairs, which are named in ascending order.

        Where pairs have numbers for different numbers of positions, on the last axis, NaN stands for the
        rest.
        """
        shapes = [values[name].shape[1:] for _, values in self.parts]
        whole = np.full((len(members), *(max(sizes) for sizes in zip(*shapes, strict=True))), np.nan)
        for own, values in self.parts:
            array = values[name]
            rows = np.searchsorted(members, own)
            whole[(rows, *(slice(size) for size in array.shape[1:]))] = array
        return whole
