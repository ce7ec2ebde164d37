"""Rows into grids: layers down, heads across, one panel for each further label."""

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from attnprobe.table.cells import plain_column, written
from attnprobe.table.head_table import HeadTable
from attnprobe.table.table import Cell

AXES = ("layer", "head")
_MOST_PANELS = 4  # encoder, decoder, cross attention; beyond that a list is easier to read


@dataclass(frozen=True)
class Panel:
    """One grid of heads.

    - ``labels``: What sets this panel apart, such as ``("decoder",)``; empty for the only panel.
    - ``layers``: The layers, in order.
    - ``heads``: The heads of any layer, in order.
    - ``places``: The table's row for each layer and head; a pruned head has none.
    """

    labels: tuple[str, ...]
    layers: list[Cell]
    heads: list[Cell]
    places: dict[tuple[Cell, Cell], int] = field(repr=False)

    def rows(self) -> list[int]:
        """Give the table's rows that are in this panel."""
        return list(self.places.values())

    def grid(self, values: np.ndarray) -> np.ndarray:
        """Lay out a column as layers by heads; NaN where there is no head."""
        grid = np.full((len(self.layers), len(self.heads)), np.nan)
        for i, layer in enumerate(self.layers):
            for j, head in enumerate(self.heads):
                if (layer, head) in self.places:
                    grid[i, j] = values[self.places[layer, head]]
        return grid


def panels(table: HeadTable) -> list[Panel]:
    """Split a table into panels; none if its rows are not heads, or there would be too many."""
    keys = {
        column.name: plain_column(table.data[column.name], column)
        for column in table.columns
        if column.role == "key"
    }
    if not len(table) or not keys.keys() >= set(AXES):
        return []
    labels = [name for name in keys if name not in AXES and len(set(keys[name])) > 1]
    grouped: dict[tuple[str, ...], dict[tuple[Cell, Cell], int]] = {}
    for row in range(len(table)):
        places = grouped.setdefault(tuple(written(keys[name][row]) for name in labels), {})
        place = (keys["layer"][row], keys["head"][row])
        if place in places:  # a head in two rows: something else tells them apart
            return []
        places[place] = row
    if len(grouped) > _MOST_PANELS:
        return []
    return [
        Panel(label, _ordered([p[0] for p in places]), _ordered([p[1] for p in places]), places)
        for label, places in grouped.items()
    ]


def constants(table: HeadTable, names: Iterable[str]) -> dict[str, str]:
    """Give the columns among ``names`` that are the same in every row, with their value."""
    found = {}
    for name in names:
        values = {written(value) for value in plain_column(table.data[name], table.column(name))}
        if len(values) == 1:
            found[name] = values.pop()
    return found


def _ordered(labels: list[Cell]) -> list[Cell]:
    unique = list(dict.fromkeys(labels))
    if all(isinstance(label, int) for label in unique):
        return sorted(unique, key=lambda label: int(label or 0))
    return unique
