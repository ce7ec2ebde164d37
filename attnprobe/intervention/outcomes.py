"""The sum of trials: what every example gave under every cut, wherever and whenever it was computed."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnprobe.intervention.objectives.objective import Answer, Values
from attnprobe.sums.protocol import Arrays, named, part_of


@dataclass(frozen=True)
class _Part:
    """What some examples gave under some cuts.

    Attributes:
        members: The examples.
        cuts: The numbers of the cuts; 0 is none.
        values: For each number that is kept, (cut, example), or (cut, example, ...) where it is several.
    """

    members: NDArray[np.int64]
    cuts: NDArray[np.int64]
    values: dict[str, Values]


@dataclass(frozen=True)
class Outcomes:
    """What examples gave under cuts. Two of them add up: together they know of more examples, or cuts."""

    parts: tuple[_Part, ...]

    @classmethod
    def of(
        cls,
        members: NDArray[np.int64],
        cuts: Sequence[int],
        answers: Sequence[Answer],
        names: Sequence[str],
    ) -> "Outcomes":
        """Note the answers of a batch, one for each cut."""
        values = {name: _plain(np.stack([answer.value(name) for answer in answers])) for name in names}
        return cls((_Part(members, np.array(cuts), values),))

    def __add__(self, other: "Outcomes") -> "Outcomes":
        """Put what both know together."""
        return Outcomes((*self.parts, *other.parts))

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Name everything that is known, the examples of like cuts side by side."""
        together: dict[bytes, list[_Part]] = {}
        for part in self.parts:
            together.setdefault(part.cuts.tobytes(), []).append(part)
        found: dict[str, NDArray[Any]] = {}
        for number, parts in enumerate(together.values()):
            values = {
                name: np.concatenate([part.values[name] for part in parts], 1) for name in parts[0].values
            }
            whole = {"members": np.concatenate([part.members for part in parts]), "cuts": parts[0].cuts}
            found |= named(str(number), {**whole, **named("values", values)})
        return found

    @classmethod
    def from_arrays(cls, arrays: Arrays) -> "Outcomes":
        """Restore what ``arrays`` gave."""
        numbers = dict.fromkeys(name.partition("/")[0] for name in arrays)
        parts = (part_of(arrays, number) for number in numbers)
        return cls(tuple(_Part(one["members"], one["cuts"], part_of(one, "values")) for one in parts))

    def under(self, cut: int, members: NDArray[np.int64]) -> dict[str, Values]:
        """Give what each of some examples, in ascending order, gave under a cut."""
        found: dict[str, Values] = {}
        for part in self.parts:
            rows = np.flatnonzero(part.cuts == cut)
            if not len(rows):
                continue
            at = np.searchsorted(members, part.members)
            for name, values in part.values.items():
                kind = object if values.dtype.kind == "U" else values.dtype
                found.setdefault(name, np.empty((len(members), *values.shape[2:]), kind))[at] = values[
                    rows[0]
                ]
        return found


def _plain(values: Values) -> Values:
    """Make text of a kind that a file can hold without code."""
    return values.astype(str) if values.dtype == object else values
