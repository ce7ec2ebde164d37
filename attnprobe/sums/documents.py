"""Which documents a corpus has: their names, the blocks they are sorted into, and a sketch of the names."""

import base64
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

#: Names of documents begin here, and end below twice as much.
LEAST_NAME = 1 << 61
#: Documents are sorted into so many blocks: a power of two.
BLOCKS = 64
_BITS = 6
#: The most names that are kept: some 43 kB of a record.
SIZE = 4096
#: So many names, all of them in another corpus, say that nearly all documents are.
_ENOUGH = 30


def name_documents(digests: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Name documents by digests of them, or by whatever else tells them apart (splitmix64).

    Names are evenly spread, and the same in every run.
    """
    mixed = digests.astype(np.uint64)
    mixed += np.uint64(0x9E3779B97F4A7C15)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
    mixed ^= mixed >> np.uint64(31)
    return (mixed >> np.uint64(2) | np.uint64(LEAST_NAME)).astype(np.int64)


def find_block(documents: NDArray[np.int64]) -> NDArray[np.int64]:
    """Sort documents into blocks by their numbers or names, alike in every run whatever else is there.

    Not by turns, which is how labels often come: by the fractional part of multiples of the golden ratio,
    which fills all blocks evenly and keeps step with nothing (Knuth, volume 3, section 6.4).

    >>> find_block(np.arange(5)).tolist()
    [0, 39, 15, 54, 30]
    """
    mixed = documents.astype(np.uint64) * np.uint64(0x9E3779B1) & np.uint64(0xFFFFFFFF)
    return (mixed >> np.uint64(32 - _BITS)).astype(np.int64)


def in_second_half(documents: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Sort documents in two: the first half of the blocks, and the second.

    >>> in_second_half(np.arange(8)).astype(int).tolist()
    [0, 1, 0, 1, 0, 0, 1, 0]
    """
    return find_block(documents) >= BLOCKS // 2


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
    """The least names of documents, at most ``SIZE``, which are as good as drawn at random. Two add up.

    References:
        Beyer, Haas, Reinwald, Sismanis and Gemulla (2007), On synopses for distinct-value estimation under
        multiset operations.
    """

    names: NDArray[np.int64]

    @classmethod
    def of(cls, names: NDArray[np.int64]) -> "Sketch":
        """Keep the least of the names of documents, see ``name_documents``; one name is one document."""
        return cls(np.unique(names)[:SIZE])

    def __add__(self, other: "Sketch") -> "Sketch":
        return Sketch.of(np.concatenate([self.names, other.names]))

    @property
    def whole(self) -> bool:
        """Whether these are all documents, so that what is said of them is exact."""
        return len(self.names) < SIZE

    def compare(self, other: "Sketch") -> Overlap:
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

    def pack(self) -> str:
        """Give it as text, for a record."""
        return base64.b64encode(self.names.astype("<i8").tobytes()).decode()

    @classmethod
    def unpack(cls, text: str) -> "Sketch":
        """Read what ``pack`` gave; a ValueError says that it is nothing of the kind."""
        return cls(np.frombuffer(base64.b64decode(text, validate=True), "<i8").astype(np.int64))
