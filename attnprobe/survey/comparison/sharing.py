"""What two models have in common: kinds of attention, and how their layers and heads are numbered."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from attnprobe.attention.kinds import Kind
from attnprobe.errors import AttnprobeError
from attnprobe.model.verifying.architecture import Architecture

Places = NDArray[np.intp]


@dataclass(frozen=True)
class Shared:
    """The kinds of attention that two models share.

    Heads of a kind are numbered through all its layers: head h of the i-th layer is i * heads + h.

    Attributes:
        first: What the dry run found of the one model.
        second: Of the other.
        kinds: The kinds, in the order of tables.
    """

    first: Architecture
    second: Architecture
    kinds: tuple[Kind, ...]

    @classmethod
    def of(
        cls, names: tuple[str, str], first: Architecture, second: Architecture
    ) -> "tuple[Shared, list[str]]":
        """Find out what two models share, and say what they don't.

        Raises:
            AttnprobeError: When they share nothing.
        """
        ours, theirs = (_kinds(architecture) for architecture in (first, second))
        kinds = tuple(kind for kind in ours if kind in theirs)
        if not kinds:
            raise AttnprobeError(
                f"{names[0]} has {_spelled(ours)} attention and {names[1]} has {_spelled(theirs)} attention; "
                "only heads of one kind can be compared."
            )
        said = [
            f"{name} also has {_spelled(extra)} attention, which the other has not; it is left out."
            for name, side, other in zip(names, (ours, theirs), (theirs, ours), strict=True)
            if (extra := [kind for kind in side if kind not in other])
        ]
        return cls(first, second, kinds), said

    def layers(self, kind: Kind) -> tuple[list[int], list[int]]:
        """Give the layers of a kind in either model, in the order of a forward pass."""
        first, second = (
            [layer for layer, one in enumerate(architecture.kinds) if one is kind]
            for architecture in (self.first, self.second)
        )
        return first, second

    def size(self, kind: Kind) -> tuple[int, int]:
        """Give how many heads a kind has in either model, removed ones included."""
        first, second = self.layers(kind)
        return len(first) * self.first.heads, len(second) * self.second.heads

    def numbered(self, kind: Kind) -> bool:
        """Tell whether both have as many layers of a kind, with as many heads: each has one of its number."""
        first, second = self.layers(kind)
        return len(first) == len(second) and self.first.heads == self.second.heads

    @cached_property
    def alike(self) -> bool:
        """Whether each head of the first has one of its number in the second, whatever the kind."""
        return all(map(self.numbered, self.kinds))

    def kept(self, kind: Kind) -> tuple[tuple[Places, Places], tuple[Places, Places]]:
        """Say which heads the maps of a kind hold, in their order.

        Returns:
            For either model, places among the maps that are kept, and the numbers of these heads. A layer
            that lost all its heads computes one that is none of them.
        """
        first, second = self.layers(kind)
        return _kept(self.first, first), _kept(self.second, second)


def _kept(architecture: Architecture, layers: list[int]) -> tuple[Places, Places]:
    standing, present = architecture.standing, architecture.present
    places, numbers, seen = [], [], 0
    for rank, layer in enumerate(layers):
        computed = (present[layer] or (0,)) if present else range(architecture.heads)
        for place, head in enumerate(computed):
            if standing[layer, head]:
                places.append(seen + place)
                numbers.append(rank * architecture.heads + head)
        seen += len(computed)
    return np.array(places, np.intp), np.array(numbers, np.intp)


def _kinds(architecture: Architecture) -> list[Kind]:
    return [kind for kind in Kind if kind in architecture.kinds]


def _spelled(kinds: list[Kind]) -> str:
    return " and ".join(map(str, kinds))
