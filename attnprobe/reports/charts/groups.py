"""Groups of documents: the rows in which they differ most, with the number of each group."""

from attnprobe.reports.columns import DrawingRequest, read_cells, title_axis
from attnprobe.reports.groups import (
    lay_out_groups,
    list_compared,
    list_groups,
    sort_by_difference,
)
from attnprobe.sums.inference import SIGNIFICANT
from attnprobe.table.cells import Cell, clean
from attnprobe.table.kinds import GROUP
from attnprobe.table.table import Column, HeadTable

_COLUMNS = [
    Column("row", role="text"),
    Column("group", role="text"),
    Column("n", role="count"),
    Column("value"),
    Column("value_se", role="error"),
    Column("title", role="text"),
]


def take_groups(table: HeadTable, request: DrawingRequest) -> list[HeadTable]:
    """Take the rows in which groups differ most, a table for each measure with a row for each group."""
    tested = list_compared(table)
    named = [column for column in request.columns(table) if column in tested] if request.measures else []
    return [_take_measure(table, column) for column in (named or tested)[:2]]


def _take_measure(table: HeadTable, column: Column) -> HeadTable:
    groups, counts = list_groups(table), _count_texts(table)
    names = [f"{clean(one)[:24]}{f' ({counts[one]:,})' if one in counts else ''}" for one in groups]
    values, errors, n = (read_cells(table, name) for name in (column.name, f"{column.name}_se", "n"))
    rows, title = [], title_axis(column)
    for compared in sort_by_difference(lay_out_groups(table, column.name))[:12]:
        label = f"{compared.label}{' *' if compared.p < SIGNIFICANT else ''}"
        for name, row in zip(names, compared.rows, strict=True):
            cells = [None] * 3 if row is None else [n[row], values[row], errors[row]]
            rows.append([label, name, *cells, title])
    data = dict(zip((one.name for one in _COLUMNS), map(list, zip(*rows, strict=True)), strict=True))
    return HeadTable(table.title, _COLUMNS, data, provenance=table.provenance)


def _count_texts(table: HeadTable) -> dict[str, int]:
    """Count the texts of each group, where the table has one number for all rows of a group."""
    counts_of: dict[str, set[Cell]] = {}
    for name, count in zip(read_cells(table, GROUP), read_cells(table, "n"), strict=True):
        counts_of.setdefault(str(name), set()).add(count)
    known = {name: counts.pop() for name, counts in counts_of.items() if len(counts) == 1}
    return {name: count for name, count in known.items() if isinstance(count, int)}
