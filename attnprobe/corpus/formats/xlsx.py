"""Excel's .xlsx: one sheet as a table."""

import io
import warnings
import zipfile
from collections.abc import Iterator
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, BinaryIO

from attnprobe.corpus.formats import PEEK_ROWS, Row, Table, TableFormat, name_columns
from attnprobe.corpus.sources.streams import check_proportion, shorten
from attnprobe.errors import AttnprobeError, DataError

if TYPE_CHECKING:
    from attnprobe.corpus.sources.text import Source


def read(stream: BinaryIO, source: "Source") -> Table:
    """Read the sheet that --dataset-config names, or the first; its first row not blank names the columns."""
    name, sheet = source.spec, source.config
    try:
        import openpyxl
    except ImportError:
        raise DataError(
            f"{name} needs openpyxl to be read: pip install openpyxl, or save the sheet as csv"
        ) from None
    stream = io.BytesIO(stream.read())  # a zip is read from its end, and in jumps
    try:
        with zipfile.ZipFile(stream) as parts:
            sizes = [(part.file_size, part.compress_size) for part in parts.infolist()]
        check_proportion(sum(size for size, _ in sizes), sum(packed for _, packed in sizes), name)
        with warnings.catch_warnings(action="ignore"):  # styles and extensions that openpyxl drops
            book = openpyxl.load_workbook(stream, read_only=True, data_only=True)
        names = [one.title for one in book.worksheets]
    except (AttnprobeError, MemoryError):
        raise
    except Exception:  # zip, xml and openpyxl raise what they like
        raise _refuse(name) from None
    if sheet is not None and sheet not in names:
        listed = ", ".join(repr(shorten(one)) for one in names[:20])
        raise DataError(f"{name} has no sheet {shorten(sheet)!r}; its sheets are {listed}")
    if not names:
        raise DataError(f"{name} has no sheet with cells; save it as csv")
    rows = enumerate(
        _iterate_rows(book.worksheets[0 if sheet is None else names.index(sheet)], name), start=1
    )
    filled = ((number, cells) for number, cells in rows if any(cell is not None for cell in cells))
    first = list(islice(filled, PEEK_ROWS))
    spelled = [["" if cell is None else str(cell) for cell in cells] for _, cells in first]
    columns = name_columns(spelled[0] if spelled else [], spelled[1:], source)
    data = chain(first[source.header :], filled)
    named = (Row(f"row {number}", dict(zip(columns, cells, strict=False))) for number, cells in data)
    return Table(columns, named, header=True)


def _iterate_rows(sheet: Any, name: str) -> Iterator[tuple[Any, ...]]:
    rows = sheet.iter_rows(values_only=True)
    try:
        while True:
            with warnings.catch_warnings(action="ignore"):
                cells = next(rows, None)
            if cells is None:
                return
            yield cells
    except MemoryError:
        raise
    except Exception:
        raise _refuse(name) from None


def _refuse(name: str) -> AttnprobeError:
    return DataError(f"{name} is damaged: it is not a whole .xlsx file; save it again, or as csv")


FORMATS = [TableFormat((".xlsx",), read, sheets=True, header=True)]
