"""Rows of tables: csv and tsv, JSON and parquet, and sentences whose words have a label each."""

import csv
import io
import json
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from itertools import chain, islice, zip_longest
from typing import Any, BinaryIO

from attnprobe.corpus.cells import PEEK_ROWS, Row, Table, find_class_names, make_table
from attnprobe.corpus.document import group_parts
from attnprobe.corpus.schema import list_kept
from attnprobe.corpus.source import Source
from attnprobe.corpus.streams import (
    LONGEST_LINE,
    WHOLE,
    decode_lines,
    shorten,
    split_blocks,
    strip_ends,
)
from attnprobe.errors import AttnprobeError, DataError

# ---- cells between commas or tabs

#: A first line that names the separator of the cells, as Excel reads and writes it.
_SEPARATOR = re.compile(r'"?sep=(.)"?', re.IGNORECASE)


def read_csv(stream: BinaryIO, source: Source) -> Table:
    """Read comma-separated values, quoted as in RFC 4180 or behind a blank; a first line may be ``sep=;``."""
    # csv's own limit is 128 KiB a cell. A quote that never closes would make a cell of all that follows.
    csv.field_size_limit(LONGEST_LINE)
    lines = decode_lines(stream, source.spec)
    first = next(lines, "")
    if named := _SEPARATOR.fullmatch(first.rstrip("\r\n")):
        return _name_cells(_split_csv(lines, source.spec, 2, delimiter=named[1]), source, "commas", strays="")
    lines = chain([first] if first else [], lines)
    return _name_cells(_split_csv(lines, source.spec, 1), source, "commas", strays=";\t")


def read_tsv(stream: BinaryIO, source: Source) -> Table:
    return parse_tsv(decode_lines(stream, source.spec), source)


def parse_tsv(lines: Iterable[str], source: Source) -> Table:
    """Read tab-separated values, in which a quote is a character like any other, as SST-2 and GAP have it."""
    cells = (line.split("\t") for line in strip_ends(lines))
    return _name_cells(enumerate(cells, start=1), source, "tabs", strays=";,")


def _split_csv(
    lines: Iterator[str], name: str, start: int, **dialect: Any
) -> Iterator[tuple[int, list[str]]]:
    """Give each row with the number of its first line; from the first blank before a quote, none counts."""
    taken: list[str] = []  # the lines of this row

    def take() -> Iterator[str]:
        for line in lines:
            taken.append(line)
            yield line

    try:
        # strict: a quote that never closes is refused, not made one cell of all that follows.
        for cells in csv.reader(take(), strict=True, **dialect):
            if "skipinitialspace" not in dialect and any(re.match(' +"', cell) for cell in cells):
                yield from _split_csv(chain(taken, lines), name, start, skipinitialspace=True, **dialect)
                return
            yield start, cells
            start += len(taken)
            taken.clear()
    except csv.Error as error:
        raise DataError(
            f"the row at line {start} of {name} is not well-formed CSV ({shorten(error)}); "
            "quote the cells that hold commas, quotes or line breaks, and double the quotes in them"
        ) from None


def _name_cells(
    rows: Iterator[tuple[int, list[str]]], source: Source, separator: str, *, strays: str
) -> Table:
    """Name the columns of separated values; ``strays`` are other separators, which a lone header may hold."""
    rows = (row for row in rows if any(map(str.strip, row[1])))
    first = list(islice(rows, 1 + PEEK_ROWS))
    header, *below = [[cell.strip() for cell in cells] for _, cells in first] or [[]]
    if len(header) == 1 and any(stray in first[0][1][0] for stray in strays):
        raise DataError(
            f"{source.spec} starts with the single column {shorten(header[0])!r}; separate its cells by "
            f"{separator} and start it with a line of column names"
        )
    # A title above the names leaves columns without one that are not the first, an index.
    for name, *cells in islice(zip_longest(header, *below, fillvalue=""), 1, None):
        if source.header and not name and 2 * sum(map(bool, cells)) > len(cells):
            title = shorten(repr(" ".join(filter(None, header))))
            raise DataError(
                f"{source.spec} starts with {title}, which does not name all columns; delete what stands "
                "above the line of column names, give each a name, or quote the cells that hold separators"
            )
    numbered = enumerate(header, start=1)
    columns = [(cell or f"column {number}") if source.header else str(number) for number, cell in numbered]

    def read() -> Iterator[Row]:
        for number, cells in chain(first[source.header :], rows):
            if len(cells) > len(columns):
                raise DataError(
                    f"line {number} of {source.spec} has {len(cells)} cells under a first line of "
                    f"{len(columns)}; mend that line, or quote the cells that hold separators"
                )
            yield Row(f"line {number} of {source.spec}", dict(zip(columns, cells, strict=False)))

    return Table(source.spec, columns, read(), header=True)


# ---- JSON


def read_jsonl(stream: BinaryIO, source: Source) -> Table:
    return parse_jsonl(decode_lines(stream, source.spec), source.spec)


def parse_jsonl(lines: Iterable[str], name: str) -> Table:
    """Make a table of JSON Lines; blank lines are passed over."""

    def read() -> Iterator[Row]:
        for number, line in enumerate(lines, start=1):
            if line.strip():
                where = f"line {number} of {name}"
                yield _make_row(_parse_json(line, where, "JSON Lines has an object a line"), where)

    return make_table(name, read())


def read_json(stream: BinaryIO, source: Source) -> Table:
    """Read an array of objects or strings, or an object with just one such array in it."""
    name, advice = source.spec, "give an array of objects or strings, or rename JSON Lines to .jsonl"
    text = "".join(decode_lines(stream, name, longest=WHOLE))
    value = _parse_json(text, name, advice) if text.strip() else []
    arrays = [value]
    if isinstance(value, dict):  # which may be a text with its links
        arrays = [[value]] if "text" in value else [item for item in value.values() if type(item) is list]
    if len(arrays) != 1 or not isinstance(arrays[0], list):
        raise DataError(f"{name} holds neither an array nor an object with just one array in it; {advice}")
    numbered = enumerate(arrays[0], start=1)
    return make_table(name, (_make_row(item, f"item {number} of {name}") for number, item in numbered))


def _make_row(value: object, where: str) -> Row:
    row = {"text": value} if isinstance(value, str) else value
    if not isinstance(row, dict):
        raise DataError(f"{where} is neither a JSON object nor a string; make it one")
    return Row(where, row)


def _parse_json(text: str, where: str, advice: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{where} is not JSON ({shorten(error)}); {advice}") from None


# ---- parquet

#: What is neither text nor number, and lists that are embeddings, as pyarrow spells the type of a column.
_SKIPPED = re.compile(r"binary|timestamp|date|time\d|duration|decimal|list<\w+: (halffloat|float|double)")


def read_parquet(stream: BinaryIO, source: Source) -> Table:
    """Read the columns of text, numbers, categories and lists of them; and those that are to be kept."""
    from pyarrow import parquet

    # Parquet is read from its end and in jumps, which neither gzip nor a pipe can do cheaply.
    if not stream.seekable():
        stream = io.BytesIO(stream.read())
    with _explain_damage(name := source.spec):
        file = parquet.ParquetFile(stream, pre_buffer=False)
        schema = file.schema_arrow
    kept = list_kept(source, schema.names)
    columns = [field.name for field in schema if field.name in kept or not _SKIPPED.search(str(field.type))]
    classes: dict[str, tuple[str, ...]] = {}
    with suppress(ValueError, KeyError, TypeError, RecursionError):  # whatever else somebody put there
        classes = find_class_names(json.loads((schema.metadata or {})[b"huggingface"])["info"]["features"])

    def read() -> Iterator[Row]:
        with _explain_damage(name):
            batches = file.iter_batches(batch_size=8 if kept else 256, columns=columns)  # images are large
            rows = chain.from_iterable(batch.to_pylist() for batch in batches)
            yield from (Row(f"row {number} of {name}", cells) for number, cells in enumerate(rows, start=1))

    return Table(name, columns, read(), classes)


@contextmanager
def _explain_damage(name: str) -> Iterator[None]:
    try:
        yield
    except (AttnprobeError, MemoryError):
        raise
    except Exception:
        raise DataError(
            f"{name} is damaged: it is not a whole parquet file; write or download it again"
        ) from None


# ---- words with labels

#: A comment before a sentence, such as "# id 8f3" or "# sent_id = 12".
_COMMENT = re.compile(r"# (id\s|\w+\s*=)")


def read_tagged(stream: BinaryIO, source: Source) -> Table:
    """Read a sentence a row: column ``tokens`` for the words, ``tags`` for the last column of the file.

    Words stand a line each, with their labels behind them, and a blank line between sentences. Columns are
    parted by tabs, in a line that has one, else by blanks. A document begins behind a line that begins with
    -DOCSTART-. Comments such as ``# id 8f3`` or ``# sent_id = 12`` are passed over.

    References:
        Tjong Kim Sang and De Meulder (2003), Introduction to the CoNLL-2003 shared task.
    """
    name = source.spec

    def read() -> Iterator[tuple[str | None, str, Row]]:
        opening = None
        for start, block in split_blocks(strip_ends(decode_lines(stream, name))):
            words, tags = list[str](), list[str]()
            for number, line in enumerate(block, start):
                if line.startswith("-DOCSTART-"):
                    opening = "-DOCSTART-"
                elif not _COMMENT.match(line):
                    cells = [cell.strip() for cell in line.split("\t" if "\t" in line else None)]
                    if len(cells) < 2 or not cells[0] or not cells[-1]:
                        raise DataError(
                            f"line {number} of {name} does not hold a word and its label; part them by a tab "
                            "or a blank, and sentences by a blank line"
                        )
                    words.append(cells[0])
                    tags.append(cells[-1])
            if words:
                row = Row(f"the sentence at line {start} of {name}", {"tokens": words, "tags": tags})
                yield opening, " ".join(words), row
                opening = None

    return make_table(name, (replace(row, part_of=whole) for whole, row in group_parts(read())))


#: The formats of tables by extension.
TABLES: dict[str, Callable[[BinaryIO, Source], Table]] = {
    ".csv": read_csv,
    ".tsv": read_tsv,
    ".jsonl": read_jsonl,
    ".ndjson": read_jsonl,
    ".json": read_json,
    ".parquet": read_parquet,
    **dict.fromkeys((".conll", ".bio", ".iob"), read_tagged),
}
#: Those whose first line names the columns.
HEADED = (".csv", ".tsv")
