"""Excel's .xlsx: one sheet as a table."""

import io
import re
import warnings
import zipfile
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, BinaryIO

from attnprobe.corpus.formats import UNSAVED, Row, Table, TableFormat, name_columns
from attnprobe.corpus.sources.streams import check_proportion, shorten
from attnprobe.errors import AttnprobeError, first_line

if TYPE_CHECKING:
    from attnprobe.corpus.sources.text import Source


#: A cell with a formula and no value beside it, and the attributes of a cell.
_FORMULA = re.compile(rb"<c\b([^>]*)>\s*<f\b[^>]*(?:/>|>[^<]*</f>)\s*(?:<v\s*/>|<v>\s*</v>)?\s*</c>")
_PLACE, _STRING = re.compile(rb'\br="([A-Z]{1,3})([0-9]{1,7})"'), re.compile(rb'\bt="str"')
#: Bytes of a sheet that are searched at a time, and of a cell that two parts may share.
_PART, _CELL = 1 << 20, 1 << 16


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
            book = openpyxl.load_workbook(stream, read_only=True, data_only=True)
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
    found = book.worksheets[0 if sheet is None else names.index(sheet)]
    rows = enumerate(_iterate_rows(found, name, _find_unsaved(stream, found, name)), start=1)
    header = next((cells for _, cells in rows if any(cell is not None for cell in cells)), [])
    titles = ["" if cell is None else str(cell) for cell in header]
    columns, first = name_columns(titles, source)
    return Table(columns, _name_cells(columns, header if first else None, rows))


def _ignore_advice() -> Any:
    """Ignore what openpyxl warns of: styles and extensions that it drops."""
    return warnings.catch_warnings(action="ignore")


def _find_unsaved(stream: BinaryIO, sheet: Any, name: str) -> dict[int, list[int]]:
    """Find formulas whose values were not saved, as programs write them that don't compute: columns by row.

    openpyxl gives nothing for them, and rows would be left out without a word. A formula that gives an empty
    string has a type, and is no such.
    """
    found: dict[int, list[int]] = {}
    rest = b""
    try:
        with zipfile.ZipFile(stream) as parts, parts.open(sheet._worksheet_path.lstrip("/")) as content:
            while part := content.read(_PART):
                rest += part
                last = 0
                for match in _FORMULA.finditer(rest) if b"<f" in rest else ():
                    last = match.end()
                    place = _PLACE.search(match[1])
                    if place is not None and _STRING.search(match[1]) is None:
                        found.setdefault(int(place[2]), []).append(_count_columns(place[1]))
                rest = rest[max(last, len(rest) - _CELL) :]
    except Exception as error:
        raise _refuse(error, name) from None
    return found


def _count_columns(letters: bytes) -> int:
    """Count the columns before one.

    >>> _count_columns(b"A"), _count_columns(b"Z"), _count_columns(b"AA")
    (0, 25, 26)
    """
    number = 0
    for letter in letters:
        number = 26 * number + letter - ord("A") + 1
    return number - 1


def _iterate_rows(sheet: Any, name: str, unsaved: dict[int, list[int]]) -> Iterator[list[Any]]:
    try:
        with _ignore_advice():
            for number, row in enumerate(sheet.iter_rows(values_only=True), start=1):
                cells = list(row)
                for column in unsaved.get(number, ()):
                    if column < len(cells) and cells[column] is None:
                        cells[column] = UNSAVED
                yield cells
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
