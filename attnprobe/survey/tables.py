"""What becomes of a survey's table: original numbers of heads, only some layers, and notes."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import combinations

import torch
from torch import Tensor

from attnprobe.corpus.vocabulary import RARE_SHARE, Rarity
from attnprobe.errors import AttnprobeError
from attnprobe.statistics.statistic import Rows, Statistic, peak
from attnprobe.table.head_table import HeadTable
from attnprobe.table.naming import join_names

#: Columns that say which layers a row is about.
_LAYER_COLUMNS = ("layer", "layer_a", "layer_b")


def place_heads(
    values: Tensor, rows: Rows, present: Sequence[int], standing: Sequence[int], heads: int
) -> Tensor:
    """Put (batch, head or pair or 1, ...) of the heads that are there in the places of all; NaN for others.

    ``present`` are the heads that were computed, ``standing`` those among them that were not removed; a layer
    that lost all computes one.

    >>> place_heads(torch.tensor([[7.0, 8.0]]), "head", [0, 2], [0, 2], 3)
    tensor([[7., nan, 8.]])
    >>> place_heads(torch.tensor([[5.0]]), "pair", [0, 2], [0, 2], 3)
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


def check_layers(layers: Sequence[int], known: Iterable[int], name: str) -> None:
    there = set(known)
    if beyond := [layer for layer in layers if layer not in there]:
        raise AttnprobeError(f"{name} has layers 0 to {max(there)}, and no layer {beyond[0]}.")


def keep_layers(table: HeadTable, layers: Sequence[int]) -> HeadTable:
    """Keep the rows that are about some layers, and of pairs those whose layers are both among them."""
    columns = [table.data[name] for name in _LAYER_COLUMNS if name in table.data]
    kept = [row for row, places in enumerate(zip(*columns, strict=True)) if set(places) <= set(layers)]
    data = {name: [cells[row] for row in kept] for name, cells in table.data.items()}
    listed = f"layer{'s' if len(layers) > 1 else ''} {', '.join(map(str, layers))}"
    note = f"Only rows of {listed} are shown; all layers were measured."
    return replace(table, data=data, notes=[*table.notes, note])


def write_notes(statistics: Sequence[Statistic], rarity: Rarity | None, dtype: torch.dtype) -> list[str]:
    """Give the sentences that belong beside the table, the same from a command and from a function."""
    found: list[str] = []
    ties = None if rarity is None or rarity.given else rarity.ties
    if any(one.by_corpus for one in statistics) and ties is not None and ties.occurrences == 1:
        found.append(
            f"The text is too small to say what is rare: {ties.once:.0%} of its tokens are of types that "
            f"occur once. The columns on rare tokens mean something where that is below {RARE_SHARE:.0%}; "
            "read more text, or give a file of frequencies."
        )
    # Weights by norm tie less than probabilities do.
    as_it_is = [statistic for statistic in statistics if statistic.weights == "attention"]
    by_peak = [statistic.name for statistic in as_it_is if statistic.function is peak]
    if by_peak and dtype.itemsize < torch.float32.itemsize:
        precision = str(dtype).removeprefix("torch.")
        found.append(
            f"In {precision}, the keys of a query tie more often, and the first of a tie counts as the most "
            f"attended. That moves {join_names(by_peak)} towards the first tokens; float32 avoids it."
        )
    return found
