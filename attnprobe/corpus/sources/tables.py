"""Tables: one small reader for each format, from bytes to named columns and a stream of rows."""

import csv
import io
import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import Any, BinaryIO

from attnprobe.corpus.sources.gold import find_class_names, is_squad, list_questions
from attnprobe.corpus.sources.streams import (
    LONGEST_LINE,
    WHOLE,
    decode_lines,
    peek_lines,
    shorten,
    strip_ends,
)
from attnprobe.errors import AttnprobeError

# csv's own limit is 128 KiB a cell. A quote that never closes would make a cell of all that follows.
CSV_CELL_LIMIT = LONGEST_LINE

# JSON rows name their columns one by one, so the columns of a stream are those of its first rows.
PEEK_ROWS = 32


@dataclass(frozen=True, slots=True)
class Row:
    """The cells of a row by column name, and the words that say where it stands ("line 3").

    Where the format itself says which rows are parts of one document, ``group`` names that document.
    """

    where: str
    cells: Mapping[str, Any]
    group: str | None = None


@dataclass(frozen=True)
class Table:
    """Column names and a stream of rows that is read once.

    Attributes:
        columns: Their names.
        rows: The rows.
        names: For columns that hold lists of class numbers, what the numbers mean, as far as that is known.
    """

    columns: Sequence[str]
    rows: Iterator[Row]
    names: Mapping[str, Sequence[str]] = field(default_factory=dict)


def make_table(rows: Iterator[Row], names: Mapping[str, Sequence[str]] | None = None) -> Table:
    """Make a table of rows that carry their own column names."""
    first = list(islice(rows, PEEK_ROWS))
    columns = list(dict.fromkeys(column for row in first for column in row.cells))
    return Table(columns, chain(first, rows), names or {})


# ---- separated values


def read_csv(stream: BinaryIO, name: str, *, by_number: bool = False) -> Table:
    """Read comma-separated values, quoted as in RFC 4180; ``by_number`` is as for ``name_columns``."""
    csv.field_size_limit(CSV_CELL_LIMIT)
    rows = _csv_rows(decode_lines(stream, name), name)
    return _split_header(rows, name, "commas", strays=";\t", by_number=by_number)


def _csv_rows(lines: Iterator[str], name: str) -> Iterator[tuple[int, list[str]]]:
    # strict: a quote that never closes is refused, not made one cell of all that follows.
    reader = csv.reader(lines, strict=True)
    start = 1
    try:
        for cells in reader:
            yield start, cells
            start = reader.line_num + 1
    except csv.Error as error:
        raise AttnprobeError(
            f"the row at line {start} of {name} is not well-formed CSV ({shorten(error)}); "
            "quote the cells that hold commas, quotes or line breaks, and double the quotes in them"
        ) from None


def read_tsv(stream: BinaryIO, name: str, *, by_number: bool = False) -> Table:
    """Read tab-separated values, in which a quote is a character like any other.

    The files in use (SST-2, GAP, the UCI sentences) are written without quoting and hold cells
    such as ``"You'll love it!`` whose quote never closes: read as CSV, that swallows the rows
    below. The media type text/tab-separated-values has no quoting either. csv with QUOTE_NONE
    would still refuse a stray carriage return in a cell, so it is a plain split.
    """
    lines = strip_ends(decode_lines(stream, name))
    rows = ((number, line.split("\t")) for number, line in enumerate(lines, start=1))
    return _split_header(rows, name, "tabs", strays=";,", by_number=by_number)


def name_columns(header: Sequence[str], *, by_number: bool) -> tuple[list[str], bool]:
    """Name the columns after the first row, or by their numbers, from 1, where that row is data.

    It is where columns are asked for ``by_number`` and a cell of it is empty or a number, as no name is.

    Returns:
        The names, and whether the first row is data.
    """
    columns = [cell.strip() for cell in header]
    if by_number and any(not column or is_number(column) for column in columns):
        return [str(number) for number in range(1, len(columns) + 1)], True
    return columns, False


def is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _split_header(
    rows: Iterator[tuple[int, list[str]]], name: str, separator: str, *, strays: str, by_number: bool
) -> Table:
    """Take the first row that is not blank as the column names of the rest."""
    number, header = next((row for row in rows if any(map(str.strip, row[1]))), (1, []))
    columns, first = name_columns(header, by_number=by_number)
    if first:
        rows = chain([(number, header)], rows)
    if len(columns) == 1 and any(stray in columns[0] for stray in strays):
        raise AttnprobeError(
            f"{name} starts with the single column {shorten(columns[0])!r}; separate its cells by "
            f"{separator} and start it with a line of column names"
        )
    return Table(columns, _name_cells(rows, columns, name))


def _name_cells(rows: Iterator[tuple[int, list[str]]], columns: list[str], name: str) -> Iterator[Row]:
    for number, cells in rows:
        if len(cells) > len(columns):
            raise AttnprobeError(
                f"line {number} of {name} has {len(cells)} cells under a header of {len(columns)}; "
                "mend that line, or quote the cells that hold separators"
            )
        yield Row(f"line {number}", dict(zip(columns, cells, strict=False)))


# ---- JSON


def read_jsonl(stream: BinaryIO, name: str) -> Table:
    return parse_jsonl(decode_lines(stream, name), name)


def parse_jsonl(lines: Iterable[str], name: str) -> Table:
    """Make a table of JSON Lines; blank lines are passed over."""
    return make_table(_json_rows(lines, name))


def _json_rows(lines: Iterable[str], name: str) -> Iterator[Row]:
    for number, line in enumerate(lines, start=1):
        if line.strip():
            where = f"line {number}"
            try:
                value = _parse_json(line)
            except ValueError as error:
                raise AttnprobeError(
                    f"{where} of {name} is not JSON ({shorten(error)}); JSON Lines has an object a line"
                ) from None
            yield _json_row(value, where, name)


def read_json(stream: BinaryIO, name: str) -> Table:
    """Read an array of objects or strings, or an object that holds one such array; or SQuAD's articles."""
    lines = list(decode_lines(stream, name, longest=WHOLE))
    if not any(map(str.strip, lines)):
        return Table([], iter(()))
    try:
        value = _parse_json("".join(lines))
    except ValueError as error:
        # Many a .json file on the Hugging Face Hub is JSON Lines: an object, then "extra data".
        if starts_with_object(peek_lines(lines)[0]):
            return parse_jsonl(lines, name)
        where = f"line {error.lineno} of " if isinstance(error, json.JSONDecodeError) else ""
        raise AttnprobeError(
            f"{where}{name} is not JSON ({shorten(error)}); give an array of objects or strings"
        ) from None
    array = _find_array(value, name)
    what, items = ("question", list_questions(array, name)) if is_squad(array) else ("item", iter(array))
    numbered = enumerate(items, start=1)
    return make_table(_json_row(item, f"{what} {number}", name) for number, item in numbered)


def _find_array(value: object, name: str) -> list[Any]:
    arrays = [value]
    if isinstance(value, dict):
        if isinstance(value.get("text"), str) and "links" in value:
            return [value]  # one text with its gold links
        arrays = [item for item in value.values() if isinstance(item, list)]
    if len(arrays) == 1 and isinstance(arrays[0], list):
        return arrays[0]
    raise AttnprobeError(
        f"{name} holds neither an array nor an object with just one array in it; "
        "give an array of objects or strings, or rename JSON Lines to .jsonl"
    )


def _json_row(value: object, where: str, name: str) -> Row:
    if isinstance(value, dict):
        return Row(where, value)
    if isinstance(value, str):
        return Row(where, {"text": value})
    raise AttnprobeError(f"{where} of {name} is neither a JSON object nor a string; make it one")


def starts_with_object(line: str) -> bool:
    try:
        return isinstance(_parse_json(line), dict)
    except ValueError:
        return False


def _parse_json(text: str) -> Any:
    """Parse JSON; whatever is wrong with it is a ValueError."""
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        raise
    except RecursionError:
        raise ValueError("nested too deeply") from None
    except ValueError:  # Python's own advice is for programmers
        raise ValueError("a number of thousands of digits") from None


# ---- Parquet


def read_parquet(stream: BinaryIO, name: str, nested: Collection[str] = (), rows: int = 256) -> Table:
    """Read the columns of text, numbers and categories, of lists of them, and of answers to questions.

    Others, such as those of bytes, are left out, but for those called one of ``nested``. So many rows are
    held at a time.
    """
    import pyarrow
    from pyarrow import parquet

    # Parquet is read from its end and in jumps, which neither gzip nor a pipe can do cheaply.
    if not stream.seekable():
        stream = io.BytesIO(stream.read())
    broken = (pyarrow.ArrowException, OSError, ValueError, OverflowError)
    try:
        file = parquet.ParquetFile(stream, pre_buffer=False)
        schema = file.schema_arrow
        columns = [c.name for c in schema if c.name in nested or _is_read(c.type, pyarrow.types)]
    except broken as error:
        raise _refuse_parquet(error, name) from None
    found = _parquet_rows(file, columns, rows, broken, name)
    return Table(columns, found, _read_class_names(schema.metadata))


def list_parquet_columns(stream: BinaryIO, name: str) -> list[str]:
    """Name all columns, also those that are not read."""
    import pyarrow
    from pyarrow import parquet

    try:
        whole = stream if stream.seekable() else io.BytesIO(stream.read())
        return list(parquet.ParquetFile(whole).schema_arrow.names)
    except (pyarrow.ArrowException, OSError, ValueError, OverflowError) as error:
        raise _refuse_parquet(error, name) from None


def _parquet_rows(
    file: Any, columns: list[str], size: int, broken: tuple[type[Exception], ...], name: str
) -> Iterator[Row]:
    try:
        batches = file.iter_batches(batch_size=size, columns=columns)
        rows = chain.from_iterable(batch.to_pylist() for batch in batches)
        for number, cells in enumerate(rows, start=1):
            yield Row(f"row {number}", cells)
    except broken as error:
        raise _refuse_parquet(error, name) from None


def _read_class_names(metadata: Mapping[bytes, bytes] | None) -> dict[str, tuple[str, ...]]:
    """Read the names of classes that the Hugging Face hub writes into its files."""
    try:
        return find_class_names(json.loads((metadata or {})[b"huggingface"])["info"]["features"])
    except (ValueError, KeyError, TypeError, RecursionError):  # whatever else somebody put there
        return {}


def _is_read(kind: Any, types: Any) -> bool:
    if types.is_struct(kind):  # the answers to a question
        return {field.name for field in kind} == {"text", "answer_start"} and all(
            _is_read(field.type, types) for field in kind
        )
    if types.is_list(kind) or types.is_large_list(kind):  # lists of floats are embeddings, which are wide
        return _is_flat(kind.value_type, types) and not types.is_floating(kind.value_type)
    return _is_flat(kind, types)


def _is_flat(kind: Any, types: Any) -> bool:
    if types.is_dictionary(kind):
        kind = kind.value_type
    text = types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind)
    return text or types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind)


def _refuse_parquet(error: Exception, name: str) -> AttnprobeError:
    return AttnprobeError(
        f"{name} is not a sound parquet file ({shorten(error)}); write or download it again"
    )


#: By extension; those of .csv and .tsv take ``by_number`` too.
TABLE_READERS: dict[str, Callable[..., Table]] = {
    ".csv": read_csv,
    ".tsv": read_tsv,
    ".jsonl": read_jsonl,
    ".ndjson": read_jsonl,
    ".json": read_json,
    ".parquet": read_parquet,
}
