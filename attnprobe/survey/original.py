"""The numbers that heads had before some were removed: what is found is put back in their places."""

from collections.abc import Sequence
from itertools import combinations

import torch
from torch import Tensor

from attnprobe.statistics.statistic import Rows


def in_place(
    values: Tensor, rows: Rows, present: Sequence[int], standing: Sequence[int], heads: int
) -> Tensor:
    """Put what was found of the heads that are there in the places of all.

    Args:
        values: (batch, head or pair or 1, ...), for the heads that were computed.
        rows: What the second axis is about.
        present: The numbers of the heads that were computed.
        standing: Those among them that were not removed; a layer that lost all computes one.
        heads: How many heads there were.

    Returns:
        The same for all heads or pairs; NaN for the removed.

    >>> in_place(torch.tensor([[7.0, 8.0]]), "head", [0, 2], [0, 2], 3)
    tensor([[7., nan, 8.]])
    >>> in_place(torch.tensor([[5.0]]), "pair", [0, 2], [0, 2], 3)
    tensor([[nan, 5., nan]])
    """
    if rows == "layer":
        return values if standing else torch.full_like(values, torch.nan)
    size = 1 if rows == "head" else 2
    known = set(standing)
    places = {which: place for place, which in enumerate(combinations(range(heads), size))}
    found = [
        (place, places[which])
        for place, which in enumerate(combinations(present, size))
        if known.issuperset(which)
    ]
    whole = values.new_full((len(values), len(places), *values.shape[2:]), torch.nan)
    if found:
        from_, to = map(list, zip(*found, strict=True))
        whole[:, to] = values[:, from_]
    return whole
