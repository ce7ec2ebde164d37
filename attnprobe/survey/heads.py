"""Which heads layers compute, in the places of all, and which heads two models share."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from attnprobe.attention.kinds import Kind
from attnprobe.errors import AttnprobeError
from attnprobe.model.verifying.architecture import Architecture
from attnprobe.statistics.statistic import Rows

#: For each layer, the numbers of the heads that it computes; None for one that stands in where all are lost.
Computed = Sequence[Sequence[int | None]]


def list_computed(standing: NDArray[np.bool_]) -> list[list[int | None]]:
    """List the heads that each layer computes, of those that are ``standing`` (layer, head).

    >>> list_computed(np.array([[True, False, True], [False, False, False]]))
    [[0, 2], [None]]
    """
    return [[*np.flatnonzero(row).tolist()] or [None] for row in standing]


def place_heads(values: Tensor, rows: Rows, computed: Sequence[int | None], heads: int) -> Tensor:
    """Put (batch, head or pair or 1, ...) of the heads that are there in the places of all; NaN for others.

    >>> place_heads(torch.tensor([[7.0, 8.0]]), "head", [0, 2], 3)
    tensor([[7., nan, 8.]])
    >>> place_heads(torch.tensor([[5.0]]), "pair", [0, 2], 3)
    tensor([[nan, 5., nan]])
    """
    if rows == "layer":
        return torch.full_like(values, torch.nan) if computed[0] is None else values
    size = 1 if rows == "head" else 2
    every = list(combinations(range(heads), size))
    places = [(place, which) for place, which in enumerate(combinations(computed, size)) if None not in which]
    order = {which: place for place, which in enumerate(every)}
    whole = values.new_full((len(values), len(every), *values.shape[2:]), torch.nan)
    whole[:, [order[which] for _, which in places]] = values[:, [place for place, _ in places]]
    return whole


def number_through(computed: Computed, heads: int) -> list[int | None]:
    """Number the heads of some layers, of so many heads each, through all of them.

    >>> number_through([[0, 2], [None], [1]], 3)
    [0, 2, None, 7]
    """
    return [
        None if head is None else place * heads + head
        for place, layer in enumerate(computed)
        for head in layer
    ]


Places = NDArray[np.intp]
#: Within which heads partners are looked for: layers of one number, or all of the model.
Within = Literal["layer", "model"]


@dataclass(frozen=True)
class SharedHeads:
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
    ) -> "tuple[SharedHeads, list[str]]":
        """Find out what two models share, and say what they don't.

        Raises:
            AttnprobeError: When they share nothing.
        """
        ours, theirs = (
            [kind for kind in Kind if kind in architecture.kinds] for architecture in (first, second)
        )
        sides = list(zip(names, (ours, theirs), strict=True))
        kinds = tuple(kind for kind in ours if kind in theirs)
        if not kinds:
            one, other = (f"{name} has {_format_kinds(some)} attention" for name, some in sides)
            raise AttnprobeError(f"{one} and {other}; only heads of one kind can be compared.")
        left_out = [
            f"{name} also has {_format_kinds(extra)} attention, which the other has not; it is left out."
            for name, side in sides
            if (extra := [kind for kind in side if kind not in kinds])
        ]
        return cls(first, second, kinds), left_out

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

    def check_layers(self, names: tuple[str, str], within: Within) -> None:
        """Refuse layers that are to have partners of their number, where the numbers of layers differ."""
        for kind in self.kinds if within == "layer" else ():
            ours, theirs = map(len, self.layers(kind))
            if ours != theirs:
                raise AttnprobeError(
                    f"{names[0]} has {ours} layers and {names[1]} has {theirs}, so that heads can't be "
                    "matched layer by layer; use --match model."
                )

    def assign(self, apart: NDArray[np.float64], kind: Kind, within: Within) -> Places:
        """Assign heads of a kind to heads one to one, so that how far they are apart adds up to the least.

        ``apart`` is (head, other head), below 1, NaN for removed heads, which get no partner. Gives the head
        of the second model for each of the first, -1 where there is none.

        References:
            Kuhn (1955), The Hungarian method for the assignment problem.
        """
        from scipy.optimize import linear_sum_assignment  # takes a while to import

        cost = np.where(np.isnan(apart), 2.0, apart)  # more than any, so that removed heads come last
        blocks = [np.ogrid[: len(cost), : cost.shape[1]]]
        if within == "layer":
            sizes = self.first.heads, self.second.heads
            layers = range(len(self.layers(kind)[0]))
            blocks = [np.ix_(*(np.arange(i * size, (i + 1) * size) for size in sizes)) for i in layers]
        partner = np.full(len(cost), -1, np.intp)
        for rows, columns in blocks:
            picked = linear_sum_assignment(cost[rows, columns])
            ours, theirs = rows.ravel()[picked[0]], columns.ravel()[picked[1]]
            partner[ours] = np.where(np.isfinite(apart[ours, theirs]), theirs, -1)
        return partner

    def find_kept(self, kind: Kind) -> tuple[tuple[Places, Places], tuple[Places, Places]]:
        """Say which heads the maps of a kind hold, in their order.

        Returns:
            For either model, places among the maps that are kept, and the numbers of these heads. A layer
            that lost all its heads computes one that is none of them.
        """
        first, second = self.layers(kind)
        return _find_kept(self.first, first), _find_kept(self.second, second)


def _find_kept(architecture: Architecture, layers: list[int]) -> tuple[Places, Places]:
    numbers = number_through(list_computed(architecture.standing[layers]), architecture.heads)
    places = [place for place, number in enumerate(numbers) if number is not None]
    return np.array(places, np.intp), np.array([numbers[place] for place in places], np.intp)


def _format_kinds(kinds: list[Kind]) -> str:
    return " and ".join(map(str, kinds))
