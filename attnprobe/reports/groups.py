"""Groups of documents as a shape: of each row its number in all groups and in each, and its test."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from attnprobe.reports.columns import label_rows, list_keys, read_cells, read_floats
from attnprobe.table.cells import Cell, clean, format_cell
from attnprobe.table.kinds import ALL_GROUPS, GROUP
from attnprobe.table.numbers import name_head
from attnprobe.table.table import Column, HeadTable

_AXES = ("layer", "head")


@dataclass(frozen=True)
class Compared:
    """A row of all groups, and that of each group."""

    label: str
    whole: int
    rows: Sequence[int | None]
    p: float
    q: float


def list_groups(table: HeadTable) -> list[str]:
    """List the groups of a table, in their order."""
    names = (str(cell) for cell in read_cells(table, GROUP))
    return [name for name in dict.fromkeys(names) if name != ALL_GROUPS]


def list_compared(table: HeadTable) -> list[Column]:
    """List the measures of which it was tested whether groups are alike; headlines alone, if there are."""
    found = [column for column in table.columns if f"{column.name}_q_p" in table.data]
    return [column for column in found if column.headline] or found


def lay_out_groups(table: HeadTable, measure: str) -> list[Compared]:
    """Lay out a measure by group, a row for each row of all groups, in the order of the table."""
    groups, keys = list_groups(table), [name for name in list_keys(table) if name != GROUP]
    cells = {name: read_cells(table, name) for name in (*keys, GROUP)}
    places: dict[tuple[Cell, ...], dict[Cell, int]] = {}
    for row in range(len(table)):
        key = tuple(cells[name][row] for name in keys)
        places.setdefault(key, {})[cells[GROUP][row]] = row
    labels = _label_rows(table, keys)
    p, q = (read_floats(table, f"{measure}{end}") for end in ("_q_p_adjusted", "_q"))
    if p is None or q is None:
        return []
    return [
        Compared(
            labels[own[ALL_GROUPS]],
            own[ALL_GROUPS],
            [own.get(name) for name in groups],
            float(p[own[ALL_GROUPS]]),
            float(q[own[ALL_GROUPS]]),
        )
        for own in places.values()
        if ALL_GROUPS in own
    ]


def sort_by_difference(rows: Sequence[Compared]) -> list[Compared]:
    """Sort rows by how much groups differ, those without a test last."""
    return sorted(rows, key=lambda one: (np.isnan(one.p), one.p, -np.nan_to_num(one.q)))


def _label_rows(table: HeadTable, keys: Sequence[str]) -> list[str]:
    beside = [key for key in keys if key not in _AXES]
    labels = label_rows(table, beside)
    if "layer" not in table.data:
        return labels
    whole = "" if "head" in table.data else "layer "
    named = [
        name_head(layer, head)
        if layer is not None and head is not None
        else f"{whole}{format_cell(layer)}"
        if layer is not None
        else ""
        for layer, head in zip(*(read_cells(table, axis) for axis in _AXES), strict=True)
    ]
    return [clean(" ".join(filter(None, parts))) for parts in zip(labels, named, strict=True)]
