"""Which documents a corpus has, in so few numbers that a record can hold them."""

import base64
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from attnprobe.sums.groups import LEAST_NAME

#: The most names that are kept.
SIZE = 256


@dataclass(frozen=True)
class Sketch:
    """The least names of documents, which are as good as drawn at random. Two of them add up.

    Attributes:
        names: Ascending, at most ``SIZE``; fewer are all there are.

    References:
        Beyer, Haas, Reinwald, Sismanis and Gemulla (2007), On synopses for distinct-value estimation under
        multiset operations.
    """

    names: NDArray[np.int64]

    @classmethod
    def of(cls, names: NDArray[np.int64]) -> "Sketch":
        """Keep the least of the names of documents, see ``names_of``; one name is one document."""
        return cls(np.unique(names)[:SIZE])

    def __add__(self, other: "Sketch") -> "Sketch":
        """Merge what is kept of two corpora."""
        return Sketch.of(np.concatenate([self.names, other.names]))

    @property
    def whole(self) -> bool:
        """Whether these are all documents, so that what is said of them is exact."""
        return len(self.names) < SIZE

    def shared(self, other: "Sketch") -> tuple[float, bool]:
        """Estimate how many documents two corpora have in common.

        Up to the least of the last names that are kept, t, all names of both corpora are known: the number of
        those in common is divided by the share of all names that are no larger than t.

        Returns:
            The number, exact where both sketches are whole; and whether all that is known of the smaller
            corpus is in the other.
        """
        ends = [int(one.names[-1]) for one in (self, other) if not one.whole]
        last = min(ends, default=2 * LEAST_NAME)
        ours, theirs = (set(one.names[one.names <= last].tolist()) for one in (self, other))
        both = ours & theirs
        known = (last - LEAST_NAME + 1) / LEAST_NAME if ends else 1.0
        return len(both) / known, bool(both) and len(both) == min(len(ours), len(theirs))

    def packed(self) -> str:
        """Write it down."""
        return base64.b64encode(self.names.astype("<i8").tobytes()).decode()

    @classmethod
    def unpacked(cls, text: str) -> "Sketch":
        """Read what ``packed`` wrote.

        Raises:
            ValueError: When it is nothing of the kind.
        """
        return cls(np.frombuffer(base64.b64decode(text, validate=True), "<i8").astype(np.int64))
