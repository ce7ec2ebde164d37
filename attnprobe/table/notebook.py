"""A table in a notebook: rounded numbers with their errors, and its notes below."""

from html import escape

from attnprobe.table.cells import clean, format_cell, to_plain_column
from attnprobe.table.naming import STACKING
from attnprobe.table.rounding import find_errors, format_rounded
from attnprobe.table.table import Column, Table

#: Of longer tables, the first and the last rows are shown, half of so many each.
MOST_ROWS = 60
_UNDEFINED = "\N{MIDDLE DOT}"


def render_table(table: Table) -> str:
    """Render a table as HTML; every word is escaped."""
    import pandas

    columns = [column for column in table.columns if not _stands_beside(table, column)]
    cells = {column.name: to_plain_column(table.data[column.name], column) for column in columns}
    same = [one for one in columns if one.name in STACKING and len(set(cells[one.name])) == 1]
    frame = pandas.DataFrame({
        clean(f"{one.name} ({one.unit})" if one.unit else one.name): _write_cells(table, one)
        for one in columns if one not in same
    }, dtype=str)  # fmt: skip
    with pandas.option_context("display.max_colwidth", None):
        rows = frame.to_html(index=False, border=0, max_rows=MOST_ROWS)
    said = [_escape(f"{one.name} {format_cell(cells[one.name][0])}") for one in same]
    said += [f"{len(table):,} rows"] if len(table) > MOST_ROWS else []
    notes = "".join(f"<li>{_escape(note)}</li>" for note in table.notes)
    return (
        f"<div><p><b>{_escape(table.title)}</b> {', '.join(said)}</p>"
        f'<div style="overflow: auto; max-height: 32em">{rows}</div><ul>{notes}</ul></div>'
    )


def _stands_beside(table: Table, column: Column) -> bool:
    name = column.name
    return column.role == "error" and name.endswith("_se") and name.removesuffix("_se") in table.data


def _write_cells(table: Table, column: Column) -> list[str]:
    measured = column.role in {"measure", "error"}
    errors = find_errors(table, column) if measured else [None] * len(table)
    found = []
    for value, error in zip(to_plain_column(table.data[column.name], column), errors, strict=True):
        said = _UNDEFINED if value is None else clean(format_rounded(value, error))
        if column.role == "measure" and value is not None and error is not None:
            said += f" \N{PLUS-MINUS SIGN} {format_rounded(error, error)}"
        found.append(said)
    return found


def _escape(text: str) -> str:
    return escape(clean(text))
