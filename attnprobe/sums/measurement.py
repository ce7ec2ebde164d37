"""Everything that was measured in one pass: a sum for each statistic."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnprobe.sums.protocol import Arrays, Sum, named, part_of

_SEEN = "seen"


@dataclass(frozen=True)
class Measurement:
    """The sums of several statistics over the sequences seen so far. Two of them add up.

    Attributes:
        sums: For each statistic, what is kept; cells (layer, head or pair, ...).
        sequences: Sequences seen.
        tokens: Tokens seen.
    """

    sums: Mapping[str, Any]
    sequences: int = 0
    tokens: int = 0

    def of(self, names: Iterable[str]) -> "Measurement":
        """Give the sums of some statistics alone, in this order."""
        return Measurement({name: self.sums[name] for name in names}, self.sequences, self.tokens)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Name everything that is needed to go on adding."""
        found: dict[str, NDArray[Any]] = {_SEEN: np.array([self.sequences, self.tokens], np.int64)}
        for name, one in self.sums.items():
            found |= named(name, one.arrays())
        return found

    @classmethod
    def from_arrays(cls, arrays: Arrays, kinds: Mapping[str, type[Sum]]) -> "Measurement":
        """Restore what ``arrays`` gave; ``kinds`` says what is kept of each statistic."""
        sums = {name: kind.from_arrays(part_of(arrays, name)) for name, kind in kinds.items()}
        sequences, tokens = arrays[_SEEN].astype(int).tolist()
        return cls(sums, sequences, tokens)

    def beside(self, other: "Measurement") -> "Measurement":
        """Put what another pass measured of the same sequences beside this.

        Raises:
            ValueError: When it is of other sequences, or measured the same.
        """
        if (self.sequences, self.tokens) != (other.sequences, other.tokens):
            raise ValueError("only measurements of the same sequences belong side by side")
        if self.sums.keys() & other.sums.keys():
            raise ValueError("what was measured twice adds up, and does not belong side by side")
        return Measurement({**self.sums, **other.sums}, self.sequences, self.tokens)

    def joined(self, other: "Measurement") -> "Measurement":
        """Put what was measured of other sequences beside this, which goes on counting its own.

        Raises:
            ValueError: When both measured the same.
        """
        if self.sums.keys() & other.sums.keys():
            raise ValueError("what was measured of both adds up, and does not belong side by side")
        return Measurement({**self.sums, **other.sums}, self.sequences, self.tokens)

    def __add__(self, other: "Measurement") -> "Measurement":
        """Merge the measurements of two sets of sequences."""
        if self.sums.keys() != other.sums.keys():
            raise ValueError("only measurements of the same statistics add up")
        merged = {name: self.sums[name] + other.sums[name] for name in self.sums}
        return Measurement(merged, self.sequences + other.sequences, self.tokens + other.tokens)
