"""Excel workbooks, cell by cell: by itself, openpyxl rounds to 16 digits, and makes formulas of text."""

import io
import math
from collections.abc import Collection
from datetime import datetime
from pathlib import Path
from typing import Any

from attnprobe.errors import UsageError
from attnprobe.table.cells import Cell, format_cell, guard
from attnprobe.table.formats import Format, Sheet

_MOST_ROWS = 1_048_575  # that a sheet holds


def render(sheet: Sheet) -> bytes:
    """Give the bytes of a workbook of one sheet, always the same; raise UsageError for too many rows."""
    import zipfile

    from openpyxl import Workbook
    from openpyxl.writer.excel import ExcelWriter

    if len(sheet) > _MOST_ROWS:
        raise UsageError(f"xlsx holds {_MOST_ROWS:,} rows, and there are {len(sheet):,}: choose csv")
    book = Workbook(write_only=True)
    # Everything was made then, as far as the file says: the same table gives the same bytes.
    book.properties.created = book.properties.modified = datetime(1980, 1, 1)
    page = book.create_sheet("table")
    page.freeze_panes = "A2"
    page.sheet_format.defaultColWidth = 16
    page.append([_make_cell(page, column.name) for column in sheet.columns])
    for row in sheet.rows():
        page.append([_make_cell(page, value) for value in row])
    stamped, content = io.BytesIO(), io.BytesIO()
    ExcelWriter(book, zipfile.ZipFile(stamped, "w")).save()
    with zipfile.ZipFile(stamped) as given, zipfile.ZipFile(content, "w") as kept:
        for name in given.namelist():
            kept.writestr(zipfile.ZipInfo(name), given.read(name), zipfile.ZIP_DEFLATED)
    return content.getvalue()


def _make_cell(page: Any, value: Cell) -> Any:
    """Make a cell of a float with all its digits, or of text that is no formula; others stay as they are."""
    from openpyxl.cell import WriteOnlyCell

    if value is None or isinstance(value, int):
        return value
    is_text = isinstance(value, str) or not math.isfinite(value)
    text = format_cell(value)
    cell = WriteOnlyCell(page, text)
    cell.data_type = "s" if is_text else "n"
    cell.quotePrefix = is_text and guard(text) != text
    return cell


def read(path: Path, words: Collection[str]) -> Any:
    import pandas

    types: Any = dict.fromkeys(words, "str")
    return pandas.read_excel(path, keep_default_na=False, na_values=[""], dtype=types)


FORMAT = Format(render, read, binary=True, package="openpyxl")
