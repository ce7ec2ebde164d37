"""Readers of tables: csv and tsv, JSON and parquet, and sentences whose words have labels."""

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
from attnprobe.corpus.streams import LONGEST_LINE, WHOLE, decode_lines, shorten, split_blocks, strip_ends
from attnprobe.errors import AttnprobeError, DataError

# ---- cells between commas or tabs

#: A first line that names the separator, as Excel reads and writes it.
_SEPARATOR = re.compile(r'"?sep=(.)"?', re.IGNORECASE)


def read_csv(stream: BinaryIO, source: Source) -> Table:
    """Read comma-separated values, quoted as in RFC 4180 or behind a blank; a first line may be ``sep=;``."""
    csv.field_size_limit(LONGEST_LINE)  # which is 128 KiB a cell by default
    lines = decode_lines(stream, source.spec)
    first = next(lines, "")
    if named := _SEPARATOR.fullmatch(first.rstrip("\r\n")):
        return _name_cells(_split_csv(lines, source.spec, 2, delimiter=named[1]), source, "commas", strays="")
    lines = chain([first] if first else [], lines)
    return _name_cells(_split_csv(lines, source.spec, 1), source, "commas", strays=";\t")


def read_tsv(stream: BinaryIO, source: Source) -> Table:
    return parse_tsv(decode_lines(stream, source.spec), source)


def parse_tsv(lines: Iterable[str], source: Source) -> Table:
    """Read tab-separated values; quotes are ordinary characters, as in SST-2 and GAP."""
    cells = (line.split("\t") for line in strip_ends(lines))
    return _name_cells(enumerate(cells, start=1), source, "tabs", strays=";,")


def _split_csv(
    lines: Iterator[str], name: str, start: int, **dialect: Any
) -> Iterator[tuple[int, list[str]]]:
    """Give rows with the numbers of their first lines; once a blank precedes a quote, such blanks go."""
    taken: list[str] = []  # the lines of this row

    def take() -> Iterator[str]:
        for line in lines:
            taken.append(line)
            yield line

    try:
        # Not strict, a quote that never closes would make one cell of all that follows.
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
    """Make a table of rows of cells; a title above the header, or a lone cell with ``strays``, is refused."""
    rows = (row for row in rows if any(map(str.strip, row[1])))
    first = list(islice(rows, 1 + PEEK_ROWS))
    header, *below = [[cell.strip() for cell in cells] for _, cells in first] or [[]]
    if len(header) == 1 and any(stray in first[0][1][0] for stray in strays):
        advice = f"separate its cells by {separator} and start it with a line of column names"
        raise DataError(f"{source.spec} starts with the single column {shorten(header[0])!r}; {advice}")
    # Under a title, columns other than the first, which may be an index, have no name.
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
    """Make a table of JSON Lines, without blank lines."""

    def read() -> Iterator[Row]:
        for number, line in enumerate(lines, start=1):
            if line.strip():
                where = f"line {number} of {name}"
                yield _make_row(_parse_json(line, where, "JSON Lines has an object a line"), where)

    return make_table(name, read())


def read_json(stream: BinaryIO, source: Source) -> Table:
    """Read an array of objects or strings, an object that holds just one such array, or JSON Lines."""
    name, advice = source.spec, "give an array of objects or strings"
    text = "".join(decode_lines(stream, name, longest=WHOLE))
    first, _, rest = text.strip().partition("\n")
    if first.startswith("{") and first.rstrip().endswith("}") and rest:
        return parse_jsonl(text.split("\n"), name)
    value = _parse_json(text, name, advice) if text.strip() else []
    arrays = [value]
    if isinstance(value, dict):  # a text with its links, or around an array
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

#: Types of columns, as pyarrow spells them, that are neither text nor numbers, and lists that are embeddings.
_SKIPPED = re.compile(r"binary|timestamp|date|time\d|duration|decimal|list<\w+: (halffloat|float|double)")


def read_parquet(stream: BinaryIO, source: Source) -> Table:
    """Read columns of text, numbers, categories and lists of them, and those in ``list_kept``."""
    from pyarrow import parquet

    if not stream.seekable():  # parquet is read from its end and in jumps
        stream = io.BytesIO(stream.read())
    with _explain_damage(name := source.spec):
        file = parquet.ParquetFile(stream, pre_buffer=False)
        schema = file.schema_arrow
    kept = list_kept(source, schema.names)
    columns = [field.name for field in schema if field.name in kept or not _SKIPPED.search(str(field.type))]
    classes: dict[str, tuple[str, ...]] = {}
    with suppress(ValueError, KeyError, TypeError, RecursionError):  # the metadata may be anything
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
        damage = "it is not a whole parquet file; write or download it again"
        raise DataError(f"{name} is damaged: {damage}") from None


# ---- words with labels

#: A comment before a sentence, such as "# id 8f3" or "# sent_id = 12".
_COMMENT = re.compile(r"# (id\s|\w+\s*=)")


def read_tagged(stream: BinaryIO, source: Source) -> Table:
    """Read a sentence a row: its words as the column ``tokens``, and their labels as ``tags``.

    A line holds a word and further columns, the last of which is the label; a blank line ends a sentence.
    Columns are separated by tabs, or in lines without any by blanks. A document begins behind a line that
    begins with -DOCSTART-. Comments such as ``# id 8f3`` or ``# sent_id = 12`` are skipped.

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
                        advice = "separate them by a tab or a blank, and sentences by a blank line"
                        raise DataError(
                            f"line {number} of {name} does not hold a word and its label; {advice}"
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
