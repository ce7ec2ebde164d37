"""Tables under a first line that names their columns, or is data: csv, tsv, xlsx."""

import csv
import io
import re
import warnings
import zipfile
from collections.abc import Iterator, Sequence
from itertools import chain, islice
from typing import Any, BinaryIO

from attnprobe.corpus.cells import PEEK_ROWS, Row, Table, explain_damage, is_number
from attnprobe.corpus.source import Source
from attnprobe.corpus.streams import LONGEST_LINE, check_proportion, decode_lines, shorten, strip_ends
from attnprobe.errors import AttnprobeWarning, DataError

#: A first line that names the separator of the cells, as Excel reads and writes it.
_SEPARATOR = re.compile(r'"?sep=(.)"?', re.IGNORECASE)


def _name_columns(first: Sequence[Sequence[str]], source: Source) -> list[str]:
    """Name columns after the first row ("column 1" where it is blank), or by number where that is data."""
    header, *rows = [[cell.strip() for cell in row] for row in first] or [[]]
    if not source.header:
        return [str(number) for number in range(1, len(header) + 1)]
    named = {source.text_column, source.pair_column, source.label_column}
    if _is_title(header, rows, named):
        title = " ".join(cell for cell in header if cell)
        raise DataError(
            f"{source.spec} starts with {shorten(repr(title))}, which looks like a title above the line of "
            "column names; delete what stands above that line, give each column a name, or quote the cells "
            "that hold separators"
        )
    if any(column is not None and column.isdecimal() for column in named) and any(map(is_number, header)):
        listed = ", ".join(shorten(repr(cell)) for cell in header[:8])
        sentence = (
            f"the first line of {source.spec} names its columns ({listed}); --no-header says that it is data."
        )
        warnings.warn(sentence, AttnprobeWarning, stacklevel=2)
    return [cell or f"column {number}" for number, cell in enumerate(header, start=1)]


def _is_title(first: Sequence[str], rows: Sequence[Sequence[str]], named: set[str | None]) -> bool:
    """Tell a title from column names: it leaves cells blank that the line of names below it fills."""
    # Column names may leave one blank too, as above an index. The row below them is then like the others,
    # with numbers where they have some; a line of names is not.
    filled = [row for row in rows if any(row)]
    wide = [place for place, row in enumerate(filled) if sum(map(bool, row)) > 1]
    full = [place for place, cell in enumerate(first) if cell]
    blank = [place for place, cell in enumerate(first) if not cell]
    if not full or 2 * len(wide) <= len(filled):
        return False
    if len(full) == 1 and (full[0] < len(first) - 1 or len(first) == 1):
        return True
    if not blank:
        return False
    width = max(map(len, [first, *filled]))
    names, *data = ([*row, *[""] * (width - len(row))] for row in filled[wide[0] :])
    kinds = [{is_number(row[place]) for row in data if row[place]} for place in range(width)]
    if any(is_number(names[place]) and False not in kinds[place] for place in blank if place < full[0]):
        return False  # an index, which numbers the rows
    differs = any(
        len(data) > 1 and kinds[place] == {not is_number(names[place])} and (names[place] or place in blank)
        for place in range(width)
    )
    if differs or named & set(names) - set(first):
        return True
    behind = blank[-1] > full[0] or (len(full) == 1 and len(blank) > 1)
    return behind and any(names[place] for place in blank) and not is_number(names[0])


def _split_header(
    rows: Iterator[tuple[int, list[str]]], source: Source, separator: str, *, strays: str
) -> Table:
    """Name the columns of separated values; ``strays`` are other separators, which a lone header may hold."""
    rows = (row for row in rows if any(map(str.strip, row[1])))
    first = list(islice(rows, 1 + PEEK_ROWS))
    if first and len(header := first[0][1]) == 1 and any(stray in header[0] for stray in strays):
        raise DataError(
            f"{source.spec} starts with the single column {shorten(header[0])!r}; separate its cells by "
            f"{separator} and start it with a line of column names"
        )
    columns = _name_columns([cells for _, cells in first], source)

    def name_cells() -> Iterator[Row]:
        for number, cells in chain(first[source.header :], rows):
            if len(cells) > len(columns):
                raise DataError(
                    f"line {number} of {source.spec} has {len(cells)} cells under a first line of "
                    f"{len(columns)}; mend that line, or quote the cells that hold separators"
                )
            yield Row(f"line {number} of {source.spec}", dict(zip(columns, cells, strict=False)))

    return Table(source.spec, columns, name_cells(), header=True)


def read_csv(stream: BinaryIO, source: Source) -> Table:
    """Read comma-separated values, quoted as in RFC 4180 or behind a blank; a first line may be ``sep=;``."""
    # csv's own limit is 128 KiB a cell. A quote that never closes would make a cell of all that follows.
    csv.field_size_limit(LONGEST_LINE)
    separator, lines = _take_separator(decode_lines(stream, source.spec))
    rows = _csv_rows(lines, source.spec, separator or ",", 2 if separator else 1)
    return _split_header(rows, source, "commas", strays="" if separator else ";\t")


def read_tsv(stream: BinaryIO, source: Source) -> Table:
    """Read tab-separated values, in which a quote is a character like any other.

    The files in use (SST-2, GAP, the UCI sentences) hold cells such as ``"You'll love it!`` whose quote never
    closes: read as CSV, that swallows the rows below.
    """
    separator, lines = _take_separator(decode_lines(stream, source.spec))
    if separator not in {None, "\t"}:
        raise DataError(f"{source.spec} says sep={separator} in its first line; rename it to .csv")
    cells = (line.split("\t") for line in strip_ends(lines))
    return _split_header(enumerate(cells, start=2 if separator else 1), source, "tabs", strays=";,")


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


def read_xlsx(stream: BinaryIO, source: Source) -> Table:
    """Read the sheet that --dataset-config names, or the first; its first row not blank names the columns."""
    name, sheet = source.spec, source.config
    try:
        import openpyxl
    except ImportError:
        raise DataError(
            f"{name} needs openpyxl to be read: pip install openpyxl, or save the sheet as csv"
        ) from None
    stream = io.BytesIO(stream.read())  # a zip is read from its end, and in jumps
    with explain_damage(name, ".xlsx"):
        with zipfile.ZipFile(stream) as parts:
            sizes = [(part.file_size, part.compress_size) for part in parts.infolist()]
        check_proportion(sum(size for size, _ in sizes), sum(packed for _, packed in sizes), name)
        with warnings.catch_warnings(action="ignore"):  # styles and extensions that openpyxl drops
            book = openpyxl.load_workbook(stream, read_only=True, data_only=True)
        sheets = {each.title: each for each in book.worksheets}
    if sheet is not None and sheet not in sheets:
        listed = ", ".join(repr(shorten(title)) for title in [*sheets][:20])
        raise DataError(f"{name} has no sheet {shorten(sheet)!r}; its sheets are {listed}")
    if not sheets:
        raise DataError(f"{name} has no sheet with cells; save it as csv")
    rows = _iterate_rows(sheets[next(iter(sheets)) if sheet is None else sheet], name)
    first = list(islice(rows, 1 + PEEK_ROWS))
    columns = _name_columns(
        [["" if cell is None else str(cell) for cell in cells] for _, cells in first], source
    )
    data = chain(first[source.header :], rows)
    named = (
        Row(f"row {number} of {name}", dict(zip(columns, cells, strict=False))) for number, cells in data
    )
    return Table(name, columns, named, header=True)


def _iterate_rows(sheet: Any, name: str) -> Iterator[tuple[int, tuple[Any, ...]]]:
    """Give the rows that are not blank, with their numbers."""
    numbered = enumerate(sheet.iter_rows(values_only=True), start=1)
    with explain_damage(name, ".xlsx"):
        while True:
            with warnings.catch_warnings(action="ignore"):
                number, cells = next(numbered, (0, ()))
            if not number:
                return
            if any(cell is not None for cell in cells):
                yield number, cells
