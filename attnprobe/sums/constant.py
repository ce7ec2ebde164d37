"""What is the same in every sequence, such as a property of the weights."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from attnprobe.errors import AttnprobeError
from attnprobe.sums.protocol import Arrays

#: By how much processors may differ in the same computation.
_ROUNDING = 1e-6


@dataclass(frozen=True)
class Constant:
    """Numbers that no sequence changes. Two of them add up to the same, and only if they are the same.

    Attributes:
        values: The numbers, cell by cell; NaN where there is none.

    >>> one = Constant.of([2.0, float("nan")])
    >>> (one + one).values
    array([ 2., nan])
    """

    values: NDArray[np.float64]

    @classmethod
    def of(cls, values: ArrayLike) -> "Constant":
        """Keep numbers."""
        return cls(np.array(values, np.float64))

    def __add__(self, other: "Constant") -> "Constant":
        """Give the same again.

        Raises:
            AttnprobeError: When the other says something else.
        """
        alike = self.values.shape == other.values.shape
        if not alike or not np.allclose(self.values, other.values, _ROUNDING, _ROUNDING, equal_nan=True):
            raise AttnprobeError(
                "What depends on the weights alone differs between parts that are to be added up: they are "
                "of different models."
            )
        return self

    def arrays(self) -> dict[str, NDArray[np.float64]]:
        """Name everything that is needed to go on adding."""
        return {"values": self.values}

    @classmethod
    def from_arrays(cls, arrays: Arrays) -> "Constant":
        """Restore what ``arrays`` gave."""
        return cls(arrays["values"])

    @property
    def average(self) -> NDArray[np.float64]:
        """The numbers themselves."""
        return self.values

    @property
    def count(self) -> NDArray[np.float64]:
        """Whether there is a number, cell by cell: 1 or 0."""
        return (~np.isnan(self.values)).astype(np.float64)
