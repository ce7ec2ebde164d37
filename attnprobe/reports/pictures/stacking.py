"""Several tables as one, for one picture: rows below each other, or heads side by side."""

from collections.abc import Sequence
from dataclasses import replace

from attnprobe.errors import AttnprobeError
from attnprobe.reports.pictures.rows import cells
from attnprobe.table.cells import written
from attnprobe.table.cleaning import clean
from attnprobe.table.head_table import HeadTable
from attnprobe.table.table import Column

#: The column that tells tables apart where neither model nor dataset does.
TABLE = "table"


def stacked(tables: Sequence[HeadTable], kind: str | None = None) -> HeadTable:
    """Put tables of one kind below each other; for a scatter, two tables of the same heads side by side.

    Raises:
        AttnprobeError: When there is none, or their rows are named by different columns.
    """
    if not tables:
        raise AttnprobeError("plot needs a table")
    if len(tables) == 1:
        return tables[0]
    if kind == "scatter":
        if len(tables) > 2:
            raise AttnprobeError("--kind scatter takes two tables at most, one for each axis")
        return side_by_side(tables[0], tables[1])
    first = tables[0]
    names = _keys(first)
    for other in tables[1:]:
        if _keys(other) != names:
            raise AttnprobeError(
                "the tables are of different kinds: rows of the first are named by "
                f"{', '.join(names)}, rows of another by {', '.join(_keys(other))}; plot them one by one"
            )
    columns = {column.name: column for table in reversed(tables) for column in table.columns}
    order = list(dict.fromkeys(column.name for table in tables for column in table.columns))
    data = {name: [cell for table in tables for cell in cells(table, name)] for name in order}
    described = [columns[name] for name in order]
    if not _apart(tables):
        described.insert(0, Column(TABLE, role="key"))
        titles = [f"{number} {clean(table.title)}" for number, table in enumerate(tables, start=1)]
        rows = [title for title, table in zip(titles, tables, strict=True) for _ in range(len(table))]
        data = {TABLE: rows, **data}
    titles = list(dict.fromkeys(clean(table.title) for table in tables))
    return HeadTable(titles[0] if len(titles) == 1 else ", ".join(titles), described, data)


def side_by_side(left: HeadTable, right: HeadTable) -> HeadTable:
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
    said = " and ".join(
        dict.fromkeys(written(table.data["dataset"][0]) for table in (left, right) if "dataset" in table.data)
    )
    if "dataset" in data and said:
        data["dataset"] = [said] * len(left)
    return HeadTable(left.title, columns, data)


def _keys(table: HeadTable) -> list[str]:
    return [column.name for column in table.columns if column.role == "key"]


def _apart(tables: Sequence[HeadTable]) -> bool:
    """Tell whether model and dataset tell the tables apart."""
    named = [set(zip(cells(table, "model"), cells(table, "dataset"), strict=True)) for table in tables]
    return all(not one & other for place, one in enumerate(named) for other in named[:place])
