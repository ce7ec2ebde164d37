"""Several tables as one, for one picture."""

from collections.abc import Sequence
from dataclasses import replace

from attnprobe.errors import AttnprobeError
from attnprobe.reports.columns import list_keys, name_measure, read_cells
from attnprobe.reports.profile import join_beside_profile
from attnprobe.table.cells import clean, format_cell
from attnprobe.table.kinds import IN, OUT
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
    columns: dict[str, Column] = {}
    for column in (column for table in tables for column in table.columns):
        columns.setdefault(column.name, column)
    data = {name: [cell for table in tables for cell in read_cells(table, name)] for name in columns}
    described = list(columns.values())
    sources = [
        set(zip(read_cells(table, "model"), read_cells(table, "dataset"), strict=True)) for table in tables
    ]
    if len(set().union(*sources)) < sum(map(len, sources)):  # model and dataset don't tell tables apart
        described.insert(0, Column(TABLE, role="key"))
        titles = [f"{number} {clean(table.title)}" for number, table in enumerate(tables, start=1)]
        rows = [title for title, table in zip(titles, tables, strict=True) for _ in range(len(table))]
        data = {TABLE: rows, **data}
    return HeadTable(", ".join(dict.fromkeys(clean(table.title) for table in tables)), described, data)


def join_sides(left: HeadTable, right: HeadTable) -> HeadTable:
    """Give each measure of two tables of the same heads twice: ``NAME_in`` and ``NAME_out``."""
    joined = left.join(right, OUT)
    columns, data = {column.name: column for column in joined.columns}, dict(joined.data)
    for column in left.columns:
        name = column.name
        if column.role != "measure" or name not in right.data:
            continue
        # What is the same in both tables, join says once.
        other = f"{name}{OUT}" if f"{name}{OUT}" in joined.data else name
        for source, side, domain in ((name, f"{name}{IN}", "in"), (other, f"{name}{OUT}", "out of")):
            columns[side] = replace(column, name=side, title=f"{name_measure(column)}, {domain} domain")
            data[side] = joined.data[source]
            if f"{source}_se" in joined.data:
                columns[f"{side}_se"] = replace(joined.column(f"{source}_se"), name=f"{side}_se")
                data[f"{side}_se"] = joined.data[f"{source}_se"]
    datasets = [format_cell(table.data["dataset"][0]) for table in (left, right) if "dataset" in table.data]
    if "dataset" in data and any(datasets):
        data["dataset"] = [" and ".join(dict.fromkeys(datasets))] * len(left)
    return HeadTable(left.title, [columns[name] for name in data], data)
