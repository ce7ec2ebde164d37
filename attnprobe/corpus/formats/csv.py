"""Separated values: commas (.csv) or tabs (.tsv) between cells, under a line of column names."""

import csv
from collections.abc import Iterator
from itertools import chain
from typing import TYPE_CHECKING, BinaryIO

from attnprobe.corpus.formats import Row, Table, TableFormat, name_columns
from attnprobe.corpus.sources.streams import LONGEST_LINE, decode_lines, shorten, strip_ends
from attnprobe.errors import AttnprobeError

if TYPE_CHECKING:
    from attnprobe.corpus.sources.text import Source

#: csv's own limit is 128 KiB a cell. A quote that never closes would make a cell of all that follows.
CSV_CELL_LIMIT = LONGEST_LINE


def read_csv(stream: BinaryIO, source: "Source") -> Table:
    """Read comma-separated values, quoted as in RFC 4180."""
    csv.field_size_limit(CSV_CELL_LIMIT)
    rows = _csv_rows(decode_lines(stream, source.spec), source.spec)
    return _split_header(rows, source, "commas", strays=";\t")


def _csv_rows(lines: Iterator[str], name: str) -> Iterator[tuple[int, list[str]]]:
    start, reader = 1, csv.reader(lines, strict=True)
    # strict: a quote that never closes is refused, not made one cell of all that follows.
    try:
        for cells in reader:
            yield start, cells
            start = reader.line_num + 1
    except csv.Error as error:
        raise AttnprobeError(
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
    numbered = enumerate(strip_ends(decode_lines(stream, source.spec)), start=1)
    return _split_header(
        ((number, line.split("\t")) for number, line in numbered), source, "tabs", strays=";,"
    )


def _split_header(
    rows: Iterator[tuple[int, list[str]]], source: "Source", separator: str, *, strays: str
) -> Table:
    """Take the first row that is not blank as the column names of the rest, if there is a header."""
    number, header = next((row for row in rows if any(map(str.strip, row[1]))), (1, []))
    if len(header) == 1 and any(stray in header[0] for stray in strays):
        raise AttnprobeError(
            f"{source.spec} starts with the single column {shorten(header[0])!r}; separate its cells by "
            f"{separator} and start it with a line of column names"
        )
    columns = name_columns(header, source)
    data = [] if source.header or not header else [(number, header)]
    return Table(columns, _name_cells(chain(data, rows), columns, source.spec), header=True)


def _name_cells(rows: Iterator[tuple[int, list[str]]], columns: list[str], name: str) -> Iterator[Row]:
    for number, cells in rows:
        if len(cells) > len(columns):
            raise AttnprobeError(
                f"line {number} of {name} has {len(cells)} cells under a first line of {len(columns)}; "
                "mend that line, or quote the cells that hold separators"
            )
        yield Row(f"line {number}", dict(zip(columns, cells, strict=False)))


FORMATS = [TableFormat((".csv",), read_csv, header=True), TableFormat((".tsv",), read_tsv, header=True)]
