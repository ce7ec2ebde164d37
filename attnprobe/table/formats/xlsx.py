"""Excel workbooks: the table on one sheet, what is said about it on another."""

import io
import math
import re
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attnprobe.errors import AttnprobeError
from attnprobe.table.cells import Cell, clean, format_cell, guard, round_cell
from attnprobe.table.formats import Format
from attnprobe.table.formats.json import dump, to_json
from attnprobe.table.sheet import Sheet

if TYPE_CHECKING:
    import pandas


#: What a sheet holds.
MOST_ROWS = 1_048_575
_MOST_CHARACTERS = 32_767
#: Characters that XML has no place for, beside those that ``clean`` takes out.
_FORBIDDEN = re.compile("[\ufffe\uffff]")
#: Excel reads ``_x000D_`` as the character of that number, and the underscore itself as ``_x005F_``.
_ESCAPE = re.compile(r"_(?=x[0-9A-Fa-f]{4}_)")
ESCAPED = "_x005F" + _ESCAPE.pattern
#: When everything in the file was made, as far as the file says: the same table gives the same bytes.
_MADE = (1980, 1, 1, 0, 0, 0)
_STAMP = re.compile(rb"(<dcterms:(created|modified)[^>]*>)[^<]*")
_WIDTH = 16


def render(sheet: Sheet, precision: int | None = None) -> bytes:
    """Write a table as a workbook; title, notes, units and provenance stand on its second sheet.

    A string that a spreadsheet would take for a formula is a string, and marked as one.
    """
    try:
        from openpyxl import Workbook
    except ImportError as error:
        raise AttnprobeError("xlsx needs openpyxl: pip install openpyxl, or choose csv or json") from error
    if len(sheet) > MOST_ROWS:
        raise AttnprobeError(
            f"a sheet of xlsx holds {MOST_ROWS:,} rows, and the table has {len(sheet):,}: choose csv or "
            "parquet"
        )
    book = Workbook(write_only=True)
    rows, about = (book.create_sheet(name) for name in ("table", "about"))
    rows.freeze_panes = "A2"
    rows.sheet_format.defaultColWidth = about.sheet_format.defaultColWidth = _WIDTH
    rows.append([_make_cell(rows, column.name, bold=True) for column in sheet.columns])
    for row in sheet.rows():
        rows.append([_make_cell(rows, round_cell(value, precision)) for value in row])
    for name, value in _list_facts(sheet):
        about.append([_make_cell(about, name, bold=True), _make_cell(about, value)])
    content = io.BytesIO()
    book.save(content)
    return _remove_times(content.getvalue())


def _make_cell(sheet: Any, value: Cell, *, bold: bool = False) -> Any:
    from openpyxl.cell import WriteOnlyCell
    from openpyxl.styles import Font

    if value is None or isinstance(value, int):
        return value
    if isinstance(value, float) and math.isfinite(value):  # openpyxl itself would round to 16 digits
        cell = WriteOnlyCell(sheet, value=repr(value))
        cell.data_type = "n"
        return cell
    text = value if isinstance(value, str) else format_cell(value)
    text = _ESCAPE.sub("_x005F_", _FORBIDDEN.sub("", text))[:_MOST_CHARACTERS]
    cell = WriteOnlyCell(sheet, value=text)
    cell.data_type = "s"  # whatever it begins with
    cell.quotePrefix = guard(text) != text
    if bold:
        cell.font = Font(bold=True)
    return cell


def _list_facts(sheet: Sheet) -> Iterator[tuple[str, str]]:
    """List what is said about a table, with a name each."""
    yield "title", sheet.title
    for note in sheet.notes:
        yield "note", note
    for column in sheet.columns:
        yield f"column {column.name}", ", ".join(filter(None, (column.role, column.unit, column.title)))
    for name, value in sheet.provenance.items():
        yield clean(name), value if isinstance(value, str) else dump(to_json(value))


def _remove_times(content: bytes) -> bytes:
    """Take out when the file was made, so that equal tables give equal bytes."""
    import zipfile

    made = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as given, zipfile.ZipFile(made, "w") as kept:
        for name in given.namelist():
            part = given.read(name)
            if name == "docProps/core.xml":
                part = _STAMP.sub(rb"\g<1>1980-01-01T00:00:00Z", part)
            kept.writestr(zipfile.ZipInfo(name, _MADE), part, zipfile.ZIP_DEFLATED)
    return made.getvalue()


def read(path: Path, words: Collection[str]) -> "pandas.DataFrame":
    """Read the first sheet; columns of ``words`` hold text."""
    import pandas

    try:
        import openpyxl  # noqa: F401 - pandas needs it, and would say so in other words
    except ImportError as error:
        raise ValueError("xlsx needs openpyxl: pip install openpyxl") from error
    types: Any = dict.fromkeys(words, "str")
    frame = pandas.read_excel(path, keep_default_na=False, na_values=[""], dtype=types)
    return frame.replace(to_replace=ESCAPED, value="_", regex=True)


FORMAT = Format(render, read, binary=True, package="openpyxl")
