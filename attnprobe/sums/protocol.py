"""What a sum is: anything that can be added up over batches, processes, machines and separate jobs."""

import hashlib
from collections.abc import Mapping
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray

Arrays = Mapping[str, NDArray[Any]]


class Sum(Protocol):
    """What is kept of the sequences seen so far; its size does not depend on their number.

    State, torchrun, merge and provenance know a sum by these three methods alone.
    """

    def __add__(self, other: Self) -> Self:
        """Merge two samples."""
        ...

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Name everything that is needed to go on adding."""
        ...

    @classmethod
    def from_arrays(cls, arrays: Arrays) -> Self:
        """Restore what ``arrays`` gave."""
        ...


class SampleSum(Sum, Protocol):
    """A sum of what is found in each sequence.

    ``of(a) + of(b)`` equals ``of(a and b together)`` up to rounding, whatever a and b are: batches, halves
    of a corpus, processes.
    """

    @classmethod
    def of(
        cls,
        values: NDArray[np.float64],
        clusters: NDArray[np.int64] | None = None,
        documents: NDArray[np.int64] | None = None,
    ) -> Self:
        """Sum up a sample (sequence, ...).

        Args:
            values: What was found in each sequence; NaN where it is undefined.
            clusters: For each sequence, what names its document, or -1 where it is a document of its own;
                None where all are.
            documents: The number of its document in the corpus, for sums that part documents in blocks; for
                those that are ``by_name``, its name. None where each sequence is a document.
        """
        ...


def digest_of(*arrays: NDArray[Any]) -> str:
    """Name the content of arrays, in their order."""
    digest = hashlib.sha256()
    for array in arrays:
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def named(prefix: str, arrays: Arrays) -> dict[str, NDArray[Any]]:
    """Put a name before those of arrays, so that several sums can lie in one place."""
    return {f"{prefix}/{name}": array for name, array in arrays.items()}


def part_of(arrays: Arrays, prefix: str) -> dict[str, NDArray[Any]]:
    """Give the arrays that were named with a prefix, by their own names."""
    start = f"{prefix}/"
    return {name.removeprefix(start): array for name, array in arrays.items() if name.startswith(start)}
