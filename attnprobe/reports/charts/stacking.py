"""Several tables as one, for one picture."""

from collections.abc import Sequence
from dataclasses import replace

from attnprobe.errors import AttnprobeError
from attnprobe.reports.columns import list_keys, read_cells
from attnprobe.reports.profile import join_beside_profile
from attnprobe.table.cells import clean, format_cell
from attnprobe.table.table import Column, HeadTable

#: The column that tells tables apart where neither model nor dataset does.
TABLE = "table"


def stack_tables(tables: Sequence[HeadTable], kind: str | None = None) -> HeadTable:
    """Stack tables of one kind; for a scatter, join two tables of the same heads side by side.

    Raises AttnprobeError when there is none, or their rows are named by different columns.
    """
    if not tables:
        raise AttnprobeError("plot needs a table")
    if len(tables) == 1:
        return tables[0]
    if kind == "atlas":
        return join_beside_profile(tables)
    if kind == "scatter":
        if len(tables) > 2:
            raise AttnprobeError("--kind scatter takes two tables at most, one for each axis")
        return join_sides(tables[0], tables[1])
    names = list_keys(tables[0])
    for other in tables[1:]:
        if list_keys(other) != names:
            raise AttnprobeError(
                "the tables are of different kinds: rows of the first are named by "
                f"{', '.join(names)}, rows of another by {', '.join(list_keys(other))}; plot them one by one"
            )
    columns = {column.name: column for table in reversed(tables) for column in table.columns}
    order = list(dict.fromkeys(column.name for table in tables for column in table.columns))
    data = {name: [cell for table in tables for cell in read_cells(table, name)] for name in order}
    described = [columns[name] for name in order]
    if not _are_distinct(tables):
        described.insert(0, Column(TABLE, role="key"))
        numbered = enumerate(tables, start=1)
        rows = [f"{n} {clean(table.title)}" for n, table in numbered for _ in range(len(table))]
        data = {TABLE: rows, **data}
    return HeadTable(", ".join(dict.fromkeys(clean(table.title) for table in tables)), described, data)


def join_sides(left: HeadTable, right: HeadTable) -> HeadTable:
    """Give each measure of two tables of the same heads twice: ``NAME_in`` and ``NAME_out``."""
    joined = left.join(right, "_out")
    columns, data = list(joined.columns), dict(joined.data)
    for column in left.columns:
        base = column.name
        if column.role != "measure" or base not in right.data:
            continue
        if f"{base}_out" not in data:  # the same in both tables, which join says once
            columns.append(replace(column, name=f"{base}_out"))
            data[f"{base}_out"] = data[base]
        for end in ("", "_se"):
            if f"{base}{end}" in data:
                columns.append(replace(left.column(f"{base}{end}"), name=f"{base}_in{end}"))
                data[f"{base}_in{end}"] = data[f"{base}{end}"]
    both = [table.data["dataset"][0] for table in (left, right) if "dataset" in table.data]
    said = " and ".join(dict.fromkeys(map(format_cell, both)))
    if "dataset" in data and said:
        data["dataset"] = [said] * len(left)
    return HeadTable(left.title, columns, data)


def _are_distinct(tables: Sequence[HeadTable]) -> bool:
    """Tell whether model and dataset tell the tables apart."""
    named = [
        set(zip(read_cells(table, "model"), read_cells(table, "dataset"), strict=True)) for table in tables
    ]
    return all(not one & other for place, one in enumerate(named) for other in named[:place])
