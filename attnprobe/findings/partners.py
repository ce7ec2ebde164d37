"""Heads of two models: which can be compared, and which are partners."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from attnprobe.attention.kinds import Kind, Place
from attnprobe.errors import DataError

Floats = NDArray[np.float64]
Places = NDArray[np.intp]
#: Where a head's partner is looked for: in the layer of the same number, or in all layers.
Within = Literal["layer", "model"]
#: A distance larger than any real one, for pairs without a distance.
_FAR = 2.0


@dataclass(frozen=True)
class HeadGrid:
    """The heads of a model."""

    places: Sequence[Place]  # the name of each layer, in the order of a forward pass
    kinds: Sequence[Kind]  # the kind of attention of each layer
    heads: int  # the number of heads in each layer, including removed ones
    kept: Sequence[Sequence[int]]  # for each layer, the numbers of the heads that were not removed

    @property
    def size(self) -> int:
        return len(self.places) * self.heads

    def layers(self, kind: Kind) -> list[int]:
        return [layer for layer in range(len(self.kinds)) if self.kinds[layer] is kind]

    def number(self, kind: Kind) -> Places:
        """Number the heads of a kind through all layers of the model, (layer of the kind, head)."""
        return np.array(self.layers(kind), np.intp)[:, None] * self.heads + np.arange(self.heads)

    def find_kept(self, kind: Kind) -> tuple[Places, Places]:
        """Find the heads of a kind that were kept: their places among the computed maps, and their numbers.

        A layer that lost all its heads still computes one map, which is none of them.
        """
        places, numbers, computed = list[int](), list[int](), 0
        for rank, layer in enumerate(self.layers(kind)):
            kept = self.kept[layer]
            places += range(computed, computed + len(kept))
            numbers += [rank * self.heads + head for head in kept]
            computed += len(kept) or 1
        return np.array(places, np.intp), np.array(numbers, np.intp)


@dataclass(frozen=True)
class SharedHeads:
    """The heads of two models whose kinds of attention, ``kinds``, both models have."""

    first: HeadGrid
    second: HeadGrid
    kinds: tuple[Kind, ...]

    @classmethod
    def of(cls, names: tuple[str, str], first: HeadGrid, second: HeadGrid) -> "tuple[SharedHeads, list[str]]":
        """Find the kinds that two models share, and note the others; raises DataError if none is shared."""
        ours, theirs = ([kind for kind in Kind if kind in side.kinds] for side in (first, second))
        kinds = tuple(kind for kind in ours if kind in theirs)
        sides = list(zip(names, (ours, theirs), strict=True))
        if not kinds:
            shapes = " and ".join(f"{name} has {' and '.join(listed)} attention" for name, listed in sides)
            raise DataError(f"{shapes}; only heads of one kind can be compared.")
        left_out = [
            f"{name} also has {' and '.join(extra)} attention, which the other has not; it is left out."
            for name, listed in sides
            if (extra := [kind for kind in listed if kind not in kinds])
        ]
        return cls(first, second, kinds), left_out

    def number(self, kind: Kind) -> tuple[Places, Places]:
        """Number the heads of a kind through all layers of either model, (layer of the kind, head)."""
        return self.first.number(kind), self.second.number(kind)

    def size(self, kind: Kind) -> tuple[int, int]:
        ours, theirs = self.number(kind)
        return ours.size, theirs.size

    def find_kept(self, kind: Kind) -> tuple[tuple[Places, Places], tuple[Places, Places]]:
        return self.first.find_kept(kind), self.second.find_kept(kind)

    def numbered(self, kind: Kind) -> bool:
        """Tell whether both models have as many layers and heads of a kind, so that numbers correspond."""
        ours, theirs = self.number(kind)
        return ours.shape == theirs.shape

    @cached_property
    def alike(self) -> bool:
        """Whether numbers of heads correspond in all kinds of attention."""
        return all(map(self.numbered, self.kinds))

    @property
    def layers(self) -> list[int]:
        """The layers of the first model whose kind both models have."""
        return [layer for layer, kind in enumerate(self.first.kinds) if kind in self.kinds]

    def check_layers(self, names: tuple[str, str], within: Within) -> None:
        """Raise DataError if heads are to be matched layer by layer, but the numbers of layers differ."""
        for kind in self.kinds if within == "layer" else ():
            ours, theirs = map(len, self.number(kind))
            if ours != theirs:
                raise DataError(
                    f"{names[0]} has {ours} layers and {names[1]} has {theirs}, so that heads can't be "
                    "matched layer by layer; use --match model."
                )

    def join(self, by_kind: Mapping[Kind, Floats]) -> Floats:
        """Join arrays of pairs of heads by kind to one of all heads (head, other head), NaN elsewhere."""
        joined = np.full((self.first.size, self.second.size), np.nan)
        for kind, numbers in by_kind.items():
            ours, theirs = self.number(kind)
            joined[np.ix_(ours.ravel(), theirs.ravel())] = numbers
        return joined


# Partners: for each head of the first model one of the second, both numbered through all layers; -1 for none.


def find_namesakes(shared: SharedHeads) -> Places:
    """Find the partner of the same number, in kinds of attention whose numbers correspond; -1 elsewhere."""
    partner = np.full(shared.first.size, -1, np.intp)
    for kind in filter(shared.numbered, shared.kinds):
        ours, theirs = shared.number(kind)
        partner[ours] = theirs
    return partner


def find_nearest(shared: SharedHeads, distances: Floats) -> Places:
    """Find the head with the least divergence; of a tie, the one with the same number.

    ``distances`` is (head, other head), NaN for a pair without a divergence.
    """
    distances = np.where(np.isnan(distances), np.inf, distances)
    least, nearest, namesake = distances.min(1), distances.argmin(1), find_namesakes(shared)
    alike = (namesake >= 0) & (distances[np.arange(len(namesake)), namesake] <= least)
    nearest = np.where(alike, namesake, nearest)
    return np.where(np.isfinite(least), nearest, -1)


def match_heads(shared: SharedHeads, distances: Floats, within: Within) -> Places:
    """Assign heads to heads one to one, with the least total distance.

    Within ``layer``, heads are assigned to heads of the layer with the same number; within ``model``, to
    heads of any layer. If one side has more heads, its surplus heads have no partner. Distances (head, other
    head) are below 1, as divergences and 1 - CKA are; NaN for removed heads.

    References:
        Kuhn (1955), The Hungarian method for the assignment problem.
    """
    from scipy.optimize import linear_sum_assignment  # takes a while to import

    partner = np.full(len(distances), -1, np.intp)
    for kind in shared.kinds:
        ours, theirs = shared.number(kind)
        whole = [(ours.ravel(), theirs.ravel())]
        for mine, its in zip(ours, theirs, strict=True) if within == "layer" else whole:
            cost = distances[np.ix_(mine, its)]
            rows, columns = linear_sum_assignment(np.where(np.isnan(cost), _FAR, cost))
            partner[mine[rows]] = np.where(np.isfinite(cost[rows, columns]), its[columns], -1)
    return partner


def pick_pairs(numbers: Floats, partner: Places) -> Floats:
    """Pick the number of each head with its partner from (head, other head); NaN without a partner."""
    return np.where(partner >= 0, numbers[np.arange(len(partner)), partner], np.nan)
