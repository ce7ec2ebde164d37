"""Separated values: commas (.csv) or tabs (.tsv) between cells, under a line of column names."""

import csv
import re
from collections.abc import Iterator
from itertools import chain, islice
from typing import TYPE_CHECKING, BinaryIO

from attnprobe.corpus.formats import PEEK_ROWS, Row, Table, TableFormat, name_columns
from attnprobe.corpus.sources.streams import LONGEST_LINE, decode_lines, shorten, strip_ends
from attnprobe.errors import DataError

if TYPE_CHECKING:
    from attnprobe.corpus.sources.text import Source

#: csv's own limit is 128 KiB a cell. A quote that never closes would make a cell of all that follows.
CSV_CELL_LIMIT = LONGEST_LINE
#: A first line that names the separator of the cells.
_SEPARATOR = re.compile(r'"?sep=(.)"?', re.IGNORECASE)


def read_csv(stream: BinaryIO, source: "Source") -> Table:
    """Read comma-separated values, quoted as in RFC 4180, or with a blank before the quote.

    A first line such as ``sep=;``, which Excel reads and writes, names another separator.
    """
    csv.field_size_limit(CSV_CELL_LIMIT)
    separator, lines = _take_separator(decode_lines(stream, source.spec))
    rows = _csv_rows(lines, source.spec, separator or ",", 2 if separator else 1)
    return _split_header(rows, source, "commas", strays="" if separator else ";\t")


def _take_separator(lines: Iterator[str]) -> tuple[str | None, Iterator[str]]:
    first = next(lines, "")
    named = _SEPARATOR.fullmatch(first.rstrip("\r\n"))
    return (named[1], lines) if named else (None, chain([first] if first else [], lines))


def _csv_rows(lines: Iterator[str], name: str, separator: str, start: int) -> Iterator[tuple[int, list[str]]]:
    waiting, row = list[str](), list[str]()  # lines to be read again, and those of this row

    def feed() -> Iterator[str]:
        while (line := waiting.pop(0) if waiting else next(lines, None)) is not None:
            row.append(line)
            yield line

    # strict: a quote that never closes is refused, not made one cell of all that follows.
    reader, blanks = csv.reader(feed(), delimiter=separator, strict=True), False
    try:
        while (cells := next(reader, None)) is not None:
            if not blanks and any(cell[:1] == " " and cell.lstrip(" ")[:1] == '"' for cell in cells):
                waiting, row, blanks = row, [], True
                reader = csv.reader(feed(), delimiter=separator, strict=True, skipinitialspace=True)
                continue
            yield start, cells
            start += len(row)
            row.clear()
    except csv.Error as error:
        raise DataError(
            f"the row at line {start} of {name} is not well-formed CSV ({shorten(error)}); "
            "quote the cells that hold commas, quotes or line breaks, and double the quotes in them"
        ) from None


def read_tsv(stream: BinaryIO, source: "Source") -> Table:
    """Read tab-separated values, in which a quote is a character like any other.

    The files in use (SST-2, GAP, the UCI sentences) are written without quoting and hold cells
    such as ``"You'll love it!`` whose quote never closes: read as CSV, that swallows the rows
    below. The media type text/tab-separated-values has no quoting either. csv with QUOTE_NONE
    would still refuse a stray carriage return in a cell, so it is a plain split.
    """
    separator, lines = _take_separator(decode_lines(stream, source.spec))
    if separator not in {None, "\t"}:
        raise DataError(f"{source.spec} says sep={separator} in its first line; rename it to .csv")
    numbered = enumerate(strip_ends(lines), start=2 if separator else 1)
    return _split_header(
        ((number, line.split("\t")) for number, line in numbered), source, "tabs", strays=";,"
    )


def _split_header(
    rows: Iterator[tuple[int, list[str]]], source: "Source", separator: str, *, strays: str
) -> Table:
    number, header = next((row for row in rows if any(map(str.strip, row[1]))), (1, []))
    first = list(islice(rows, PEEK_ROWS))
    if len(header) == 1 and any(stray in header[0] for stray in strays):
        raise DataError(
            f"{source.spec} starts with the single column {shorten(header[0])!r}; separate its cells by "
            f"{separator} and start it with a line of column names"
        )
    columns = name_columns(header, [cells for _, cells in first], source)
    data = [] if source.header or not header else [(number, header)]
    return Table(columns, _name_cells(chain(data, first, rows), columns, source.spec), header=True)


def _name_cells(rows: Iterator[tuple[int, list[str]]], columns: list[str], name: str) -> Iterator[Row]:
    for number, cells in rows:
        if len(cells) > len(columns):
            raise DataError(
                f"line {number} of {name} has {len(cells)} cells under a first line of {len(columns)}; "
                "mend that line, or quote the cells that hold separators"
            )
        yield Row(f"line {number}", dict(zip(columns, cells, strict=False)))


FORMATS = [TableFormat((".csv",), read_csv, header=True), TableFormat((".tsv",), read_tsv, header=True)]
