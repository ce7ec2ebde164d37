"""Groups of documents: the rows in which they differ most, with the number of each group and its test."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from attnprobe.reports.columns import DrawingRequest, list_keys, read_cells, read_floats, title_axis
from attnprobe.reports.findings import name_rows
from attnprobe.sums.inference import SIGNIFICANT
from attnprobe.table.cells import Cell, clean
from attnprobe.table.kinds import ALL_GROUPS, GROUP
from attnprobe.table.table import Column, HeadTable


@dataclass(frozen=True)
class Compared:
    """What is compared between groups, such as a head."""

    label: str
    rows: Sequence[int | None]  # of the table: that of all groups, and that of each
    p: float  # adjusted, of groups being alike; NaN without a test
    q: float


def list_groups(table: HeadTable) -> list[str]:
    """List the groups of a table, in their order."""
    names = dict.fromkeys(str(cell) for cell in read_cells(table, GROUP))
    return [name for name in names if name != ALL_GROUPS]


def list_compared(table: HeadTable) -> list[Column]:
    """List the measures of which it was tested whether groups are alike; headlines alone, if there are."""
    tested = [column for column in table.columns if f"{column.name}_q_p" in table.data]
    return [column for column in tested if column.headline] or tested


def compare_groups(table: HeadTable, measure: str) -> list[Compared]:
    """Lay out a measure by group, first what differs most, last what has no test."""
    keys = [read_cells(table, name) for name in list_keys(table) if name != GROUP]
    places: dict[tuple[Cell, ...], dict[Cell, int]] = {}
    for row, (group, *key) in enumerate(zip(read_cells(table, GROUP), *keys, strict=True)):
        places.setdefault(tuple(key), {})[group] = row
    names, groups = name_rows(table, {GROUP}), list_groups(table)
    p, q = (read_floats(table, f"{measure}{end}") for end in ("_q_p_adjusted", "_q"))
    compared = [
        Compared(names[whole], [whole, *map(rows.get, groups)], float(p[whole]), float(q[whole]))
        for rows in places.values()
        if (whole := rows.get(ALL_GROUPS)) is not None
    ]
    return sorted(compared, key=lambda one: (np.isnan(one.p), one.p, -np.nan_to_num(one.q)))


def take_groups(table: HeadTable, request: DrawingRequest) -> list[HeadTable]:
    """Take the rows in which groups differ most, a table for each measure with a row for each group."""
    tested = list_compared(table)
    named = [column for column in request.columns(table) if column in tested] if request.measures else []
    return [_take_measure(table, column) for column in (named or tested)[:2]]


def _take_measure(table: HeadTable, column: Column) -> HeadTable:
    groups, roles = list_groups(table), {"n": "count", "value": "measure", "value_se": "error"}
    counts = {group: set[Cell]() for group in [*groups, ALL_GROUPS]}
    for group, count in zip(read_cells(table, GROUP), read_cells(table, "n"), strict=True):
        counts[str(group)].add(count)
    names = []
    for group in groups:
        number = counts[group].pop() if len(counts[group]) == 1 else None  # the same for all rows
        names.append(f"{clean(group)[:24]}{f' ({number:,})' if isinstance(number, int) else ''}")
    data: dict[str, list[Cell]] = {name: [] for name in ("row", "group", *roles, "title")}
    numbers = {
        name: read_cells(table, of)
        for name, of in zip(roles, ("n", column.name, f"{column.name}_se"), strict=True)
    }
    for compared in compare_groups(table, column.name)[:12]:
        for name, row in zip(names, compared.rows[1:], strict=True):
            data["row"].append(f"{compared.label}{' *' if compared.p < SIGNIFICANT else ''}")
            data["group"].append(name)
            data["title"].append(title_axis(column))
            for part, cells in numbers.items():
                data[part].append(None if row is None else cells[row])
    columns = [Column(name, role=roles.get(name, "text")) for name in data]  # type: ignore[arg-type]
    return HeadTable(table.title, columns, data, provenance=table.provenance)
