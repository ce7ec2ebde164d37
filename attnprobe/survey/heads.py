"""Which heads layers compute, and their places among all."""

from collections.abc import Sequence
from itertools import combinations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

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
    order: dict[tuple[int | None, ...], int] = {which: place for place, which in enumerate(every)}
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
