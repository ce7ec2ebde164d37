"""A table in a notebook: rounded numbers with their errors, and its notes below."""

from collections.abc import Sequence
from html import escape

from attnprobe.table.cells import Cell, clean, format_cell, to_plain_column
from attnprobe.table.naming import STACKING
from attnprobe.table.rounding import find_errors, format_rounded
from attnprobe.table.table import Column, Table

#: Of longer tables, the first and the last rows are shown, half of so many each.
MOST_ROWS = 60
#: How high the rows may be before they scroll; how wide, the cell of the notebook decides.
_HEIGHT = "32em"
_UNDEFINED = "\N{MIDDLE DOT}"
#: How the error of a measure ends, and the measure over a half of the examples.
_BESIDE = {"error": ("_se",), "half": ("_half_a", "_half_b")}
_LEFT = ' style="text-align: left; white-space: normal"'


def render_table(table: Table) -> str:
    """Render a table as HTML of its own, without styles or scripts of a page; every word is escaped.

    An error stands behind its measure, and both have the digits of ``table.rounding``. Halves, which are for
    computing a reliability, are left out. A model or a dataset that is the same in all rows stands above.
    """
    columns = [column for column in table.columns if not _stands_beside(table, column)]
    cells = {column.name: to_plain_column(table.data[column.name], column) for column in columns}
    same = [one for one in columns if one.name in STACKING and len(set(cells[one.name])) == 1]
    columns = [column for column in columns if column not in same]
    rows, half = list(range(len(table))), MOST_ROWS // 2
    shown: list[int | None] = [*rows]
    if len(rows) > MOST_ROWS:
        shown = [*rows[:half], None, *rows[-half:]]
    written = {column.name: _write_cells(table, column, cells[column.name], shown) for column in columns}
    above = ", ".join(f"{one.name} {format_cell(cells[one.name][0])}" for one in same)
    head = "".join(_write_header(column, _is_text(cells[column.name])) for column in columns)
    tags = {column.name: f"<td{_LEFT if _is_text(cells[column.name]) else ''}>" for column in columns}
    body = "".join(
        f"<tr>{''.join(f'{tag}{written[name][place]}</td>' for name, tag in tags.items())}</tr>"
        for place in range(len(shown))
    )
    numbers = 'style="text-align: right; white-space: nowrap"'
    notes = "".join(f"<li>{_escape(note)}</li>" for note in table.notes)
    size = f"{len(table):,} rows" if len(table) > MOST_ROWS else ""
    said = "; ".join(part for part in (_escape(above), size) if part)
    return (
        f"<div><p><b>{_escape(table.title)}</b>{'<br>' if said else ''}{said}</p>"
        f'<div style="overflow: auto; max-height: {_HEIGHT}; max-width: 100%">'
        f'<table class="dataframe"><thead {numbers}><tr>{head}</tr></thead>'
        f"<tbody {numbers}>{body}</tbody></table></div>"
        f"{f'<ul>{notes}</ul>' if notes else ''}</div>"
    )


def _stands_beside(table: Table, column: Column) -> bool:
    """Tell whether a column is the error or a half of a measure that the table has."""
    return any(
        column.name.endswith(ending) and column.name.removesuffix(ending) in table.data
        for ending in _BESIDE.get(column.role, ())
    )


def _is_text(cells: Sequence[Cell]) -> bool:
    return any(isinstance(cell, str) for cell in cells)


def _write_header(column: Column, is_text: bool) -> str:
    unit = f'<br><span style="font-weight: normal">{_escape(column.unit)}</span>' if column.unit else ""
    return f"<th{_LEFT if is_text else ''}>{_escape(column.name)}{unit}</th>"


def _write_cells(
    table: Table, column: Column, cells: Sequence[Cell], shown: Sequence[int | None]
) -> list[str]:
    """Write the cells of the rows that are shown; of None, which stands for rows left out, dots."""
    errors = find_errors(table, column) if column.role in {"measure", "error"} else [None] * len(table)
    found = []
    for row in shown:
        if row is None:
            found.append("&#8943;")
            continue
        value, error = cells[row], errors[row]
        said = _UNDEFINED if value is None else format_rounded(value, error)
        if column.role == "measure" and value is not None and error is not None:
            said += f" \N{PLUS-MINUS SIGN} {format_rounded(error, error)}"
        found.append(_escape(said))
    return found


def _escape(text: str) -> str:
    return escape(clean(text))
