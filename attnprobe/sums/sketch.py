"""Which documents a corpus has, in so few numbers that a record can hold them."""

import base64
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from attnprobe.sums.groups import LEAST_NAME

#: The most names that are kept: some 43 kB of a record.
SIZE = 4096
#: So many names, all of them in another corpus, say that nearly all documents are.
_ENOUGH = 30


@dataclass(frozen=True)
class Overlap:
    """What two sketches tell of the documents that two corpora have in common.

    Attributes:
        number: How many they are: counted, or estimated.
        seen: The names that are known to be in both.
        compared: The names of the smaller corpus of which it is known whether the other has them too.
        exact: Whether both sketches are whole, so that all names are compared.
    """

    number: float
    seen: int
    compared: int
    exact: bool

    @property
    def every(self) -> bool:
        """Whether one corpus holds the other: exactly, or as far as enough names tell."""
        enough = self.exact or self.compared >= _ENOUGH
        return bool(self.seen) and self.seen == self.compared and enough


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

    def shared(self, other: "Sketch") -> Overlap:
        """Tell how many documents two corpora have in common.

        Up to the least of the last names that are kept, t, all names of both corpora are known: the number of
        those in common is divided by the share of all names that are no larger than t. Of a corpus that is
        far smaller than the other, few names are below t, and little is known.
        """
        ends = [int(one.names[-1]) for one in (self, other) if not one.whole]
        last = min(ends, default=2 * LEAST_NAME)
        ours, theirs = (set(one.names[one.names <= last].tolist()) for one in (self, other))
        known = (last - LEAST_NAME + 1) / LEAST_NAME if ends else 1.0
        seen = len(ours & theirs)
        return Overlap(seen / known, seen, min(len(ours), len(theirs)), not ends)

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
