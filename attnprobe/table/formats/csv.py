"""CSV: one header, one row a head, numbers that read back exactly."""

import csv
import io
import re
import warnings
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING

from attnprobe.table.cells import GUARDED, Cell, format_cell, guard
from attnprobe.table.formats import Format
from attnprobe.table.sheet import Sheet

if TYPE_CHECKING:
    import pandas


def render(sheet: Sheet, precision: int | None = None) -> str:
    """Write a table as RFC 4180 comma-separated values."""

    def field(value: Cell) -> str:
        return guard(value) if isinstance(value, str) else format_cell(value, precision)

    out = io.StringIO()
    # RFC 4180 ends its lines with CRLF, but every reader takes a bare newline, and Unix pipes
    # (cut, awk, diff) would carry the carriage return along inside the last column.
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([guard(column.name) for column in sheet.columns])
    writer.writerows([field(value) for value in row] for row in sheet.rows())
    return out.getvalue()


def read(path: Path, words: Collection[str]) -> "pandas.DataFrame":
    """Read a table, as we or a spreadsheet wrote it; columns of ``words`` hold text."""
    import pandas

    with path.open(encoding="utf-8-sig") as stream:
        header = stream.readline()
    # Spreadsheets of many countries write semicolons, and commas in numbers.
    own = header.count(";") <= header.count(",")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", pandas.errors.ParserWarning)
            frame = pandas.read_csv(
                path,
                sep="," if own else ";",
                decimal="." if own or not _has_decimal_commas(path) else ",",
                index_col=False,
                keep_default_na=False,  # a model may well be called "null"
                na_values=[""],  # an empty cell is an undefined number
                encoding="utf-8-sig",
                skip_blank_lines=False,
                dtype=dict.fromkeys(words, "str"),  # or a model called 007 would be a number
            )
    except pandas.errors.ParserWarning as error:
        raise ValueError("a row has more cells than columns") from error
    # Words that a spreadsheet would take for formulas were written with a quote before them.
    return frame.replace(to_replace=GUARDED, value="", regex=True)


def _has_decimal_commas(path: Path) -> bool:
    """Tell whether a table with semicolons has numbers such as 0,5; a word may have a comma too."""
    text = path.read_text(encoding="utf-8-sig")
    return re.search(r"(?:^|;)-?\d+,\d+(?:;|$)", text, re.MULTILINE) is not None


FORMAT = Format(render, read)
