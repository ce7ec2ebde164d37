"""Excel's .xlsx: one sheet as a table."""

import io
import warnings
import zipfile
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, BinaryIO

from attnprobe.corpus.formats import UNSAVED, Row, Table, TableFormat, name_columns
from attnprobe.corpus.sources.streams import check_proportion, shorten
from attnprobe.errors import AttnprobeError, first_line

if TYPE_CHECKING:
    from attnprobe.corpus.sources.text import Source


def read(stream: BinaryIO, source: "Source") -> Table:
    """Read the sheet that --dataset-config names, or the first; its first row not blank names the columns.

    Raises:
        AttnprobeError: When there is no such sheet, or the file is no workbook.
    """
    name, sheet = source.spec, source.config
    try:
        import openpyxl
    except ImportError:
        raise AttnprobeError(
            f"{name} needs openpyxl to be read: pip install openpyxl, or save the sheet as csv"
        ) from None
    stream = io.BytesIO(stream.read())  # a zip is read from its end, and in jumps
    try:
        with zipfile.ZipFile(stream) as parts:
            sizes = [(part.file_size, part.compress_size) for part in parts.infolist()]
        check_proportion(sum(size for size, _ in sizes), sum(packed for _, packed in sizes), name)
        with _ignore_advice():
            book, written = (
                openpyxl.load_workbook(stream, read_only=True, data_only=values) for values in (True, False)
            )
        names = [one.title for one in book.worksheets]
    except AttnprobeError:
        raise
    except Exception as error:  # zip, xml and openpyxl raise what they like
        raise _refuse(error, name) from None
    if sheet is not None and sheet not in names:
        listed = ", ".join(repr(shorten(one)) for one in names[:20])
        raise AttnprobeError(f"{name} has no sheet {shorten(sheet)!r}; its sheets are {listed}")
    if not names:
        raise AttnprobeError(f"{name} has no sheet with cells; save it as csv")
    place = 0 if sheet is None else names.index(sheet)
    rows = enumerate(_iterate_rows(book.worksheets[place], written.worksheets[place], name), start=1)
    header = next((cells for _, cells in rows if any(cell is not None for cell in cells)), [])
    titles = ["" if cell is None else str(cell) for cell in header]
    columns, first = name_columns(titles, source)
    return Table(columns, _name_cells(columns, header if first else None, rows))


def _ignore_advice() -> Any:
    """Ignore what openpyxl warns of: styles and extensions that it drops."""
    return warnings.catch_warnings(action="ignore")


def _iterate_rows(sheet: Any, written: Any, name: str) -> Iterator[list[Any]]:
    """Read the values of a sheet row by row, beside the formulas that are ``written`` there.

    A program that does not compute writes formulas without their values, for which openpyxl gives nothing.
    They are ``UNSAVED``, or rows would be left out without a word. A formula that gives an empty string has a
    type, and is no such.
    """
    try:
        with _ignore_advice():
            for values, formulas in zip(sheet.iter_rows(), written.iter_rows(), strict=True):
                yield [
                    UNSAVED
                    if formula.data_type == "f" and cell.value is None and cell.data_type == "n"
                    else cell.value
                    for cell, formula in zip(values, formulas, strict=True)
                ]
    except Exception as error:
        raise _refuse(error, name) from None


def _name_cells(
    columns: list[str], first: list[Any] | None, rows: Iterator[tuple[int, list[Any]]]
) -> Iterator[Row]:
    if first is not None:
        yield Row("row 1", dict(zip(columns, first, strict=False)))
    for number, cells in rows:
        if any(cell is not None for cell in cells):
            yield Row(f"row {number}", dict(zip(columns, cells, strict=False)))


def _refuse(error: Exception, name: str) -> AttnprobeError:
    return AttnprobeError(f"{name} is not a sound .xlsx file ({first_line(error)}); save it again, or as csv")


FORMATS = [TableFormat((".xlsx",), read, sheets=True)]
