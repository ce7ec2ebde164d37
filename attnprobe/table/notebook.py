"""A table in a notebook: rounded numbers with their errors, and its notes below."""

from html import escape

from attnprobe.table.cells import format_cell
from attnprobe.table.naming import STACKING
from attnprobe.table.sheet import Sheet

#: Of longer tables, the first and the last rows are shown, half of so many each.
MOST_ROWS = 60


def render_notebook(sheet: Sheet) -> str:
    """Render a table as HTML; every word is escaped."""
    import pandas

    constant, shown = list[str](), dict[str, list[str]]()
    for place, column in enumerate(sheet.columns):
        if column.name in STACKING and len(set(sheet.cells[place])) == 1:
            constant.append(f"{column.name} {format_cell(sheet.cells[place][0])}")
        elif not sheet.is_beside(column):
            header = f"{column.name} ({column.unit})" if column.unit else column.name
            shown[header] = sheet.write(place, undefined="\N{MIDDLE DOT}", plus_minus=" ± ")
    if len(sheet) > MOST_ROWS:
        constant.append(f"{len(sheet):,} rows")
    with pandas.option_context("display.max_colwidth", None):
        rows = pandas.DataFrame(shown, dtype=str).to_html(index=False, border=0, max_rows=MOST_ROWS)
    notes = "".join(f"<li>{escape(note)}</li>" for note in sheet.notes)
    return (
        f"<div><p><b>{escape(sheet.title)}</b> {escape(', '.join(constant))}</p>"
        f'<div style="overflow: auto; max-height: 32em">{rows}</div><ul>{notes}</ul></div>'
    )
