"""Rows of tables, whatever the format; those under a first line of column names are read in ``headed``."""

import io
import json
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from itertools import chain
from typing import Any, BinaryIO

from attnprobe.corpus.cells import ANSWER_KEYS, Row, Table, explain_damage, find_class_names, make_table
from attnprobe.corpus.document import group_parts
from attnprobe.corpus.headed import read_csv, read_tsv, read_xlsx
from attnprobe.corpus.source import Source
from attnprobe.corpus.streams import WHOLE, decode_lines, peek_lines, shorten, split_blocks
from attnprobe.errors import DataError

#: The columns of a CoNLL-style file: its words, and the labels of its last column.
WORDS, TAGS = "tokens", "tags"
#: Begins a line that stands between documents of such a file.
_DOCUMENT = "-DOCSTART-"
#: A comment before a sentence, such as "# id 8f3" or "# sent_id = 12".
_COMMENT = re.compile(r"# (id\s|\w+\s*=)")


def read_jsonl(stream: BinaryIO, source: Source) -> Table:
    return parse_jsonl(decode_lines(stream, source.spec), source.spec)


def parse_jsonl(lines: Iterable[str], name: str) -> Table:
    """Make a table of JSON Lines; blank lines are passed over."""

    def read() -> Iterator[Row]:
        for number, line in enumerate(lines, start=1):
            if line.strip():
                where = f"line {number} of {name}"
                try:
                    value = _parse_json(line)
                except ValueError as error:
                    raise DataError(
                        f"{where} is not JSON ({shorten(error)}); JSON Lines has an object a line"
                    ) from None
                yield _json_row(value, where)

    return make_table(name, read())


def read_json(stream: BinaryIO, source: Source) -> Table:
    """Read an array of objects or strings, or an object that holds one such array; or SQuAD's articles."""
    name = source.spec
    lines = list(decode_lines(stream, name, longest=WHOLE))
    if not any(map(str.strip, lines)):
        return Table(name, [], iter(()))
    try:
        value = _parse_json("".join(lines))
    except ValueError as error:
        # Many a .json file on the Hugging Face Hub is JSON Lines: an object, then "extra data".
        if starts_with_object(peek_lines(lines)[0]):
            return parse_jsonl(lines, name)
        where = f"line {error.lineno} of " if isinstance(error, json.JSONDecodeError) else ""
        raise DataError(
            f"{where}{name} is not JSON ({shorten(error)}); give an array of objects or strings"
        ) from None
    array = _find_array(value, name)
    articles = bool(array) and all(isinstance(item, dict) and "paragraphs" in item for item in array)
    what, items = ("question", _list_questions(array, name)) if articles else ("item", array)
    numbered = enumerate(items, start=1)
    return make_table(name, (_json_row(item, f"{what} {number} of {name}") for number, item in numbered))


def _find_array(value: object, name: str) -> list[Any]:
    arrays = [value]
    if isinstance(value, dict):
        if isinstance(value.get("text"), str) and "links" in value:
            return [value]  # one text with its gold links
        arrays = [item for item in value.values() if isinstance(item, list)]
    if len(arrays) == 1 and isinstance(arrays[0], list):
        return arrays[0]
    raise DataError(
        f"{name} holds neither an array nor an object with just one array in it; "
        "give an array of objects or strings, or rename JSON Lines to .jsonl"
    )


def _json_row(value: object, where: str) -> Row:
    if isinstance(value, str):
        value = {"text": value}
    if not isinstance(value, dict):
        raise DataError(f"{where} is neither a JSON object nor a string; make it one")
    return Row(where, value)


def starts_with_object(line: str) -> bool:
    with suppress(ValueError):
        return isinstance(_parse_json(line), dict)
    return False


def _parse_json(text: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        raise
    except RecursionError:
        raise ValueError("nested too deeply") from None
    except ValueError:  # Python's own advice is for programmers
        raise ValueError("a number of thousands of digits") from None


def _list_questions(articles: Iterable[Any], name: str) -> Iterator[dict[str, Any]]:
    """Give an object for each question of SQuAD, with its context and answers (Rajpurkar et al., 2016)."""
    for article in articles:
        title = {"title": article["title"]} if isinstance(article.get("title"), str) else {}
        for paragraph in _get_objects(article, "paragraphs", name):
            for question in _get_objects(paragraph, "qas", name):
                cells = {key: question.get(key) for key in ("question", "answers")}
                yield {**title, **cells, "context": paragraph.get("context")}


def _get_objects(holder: dict[str, Any], key: str, name: str) -> list[dict[str, Any]]:
    objects = holder.get(key)
    if not isinstance(objects, list) or not all(isinstance(item, dict) for item in objects):
        raise DataError(f"{name} holds an article without a list of {key}, which SQuAD's files have")
    return objects


def read_parquet(stream: BinaryIO, source: Source) -> Table:
    """Read the columns of text, numbers, categories, lists of them, and answers; and what is to be kept."""
    from pyarrow import parquet

    # Parquet is read from its end and in jumps, which neither gzip nor a pipe can do cheaply.
    if not stream.seekable():
        stream = io.BytesIO(stream.read())
    name = source.spec
    with explain_damage(name, "parquet"):
        file = parquet.ParquetFile(stream, pre_buffer=False)
        schema = file.schema_arrow
        kept = source.keep(schema.names)
    columns = [column.name for column in schema if column.name in kept or _is_read(column.type)]
    classes: dict[str, tuple[str, ...]] = {}
    with suppress(ValueError, KeyError, TypeError, RecursionError):  # whatever else somebody put there
        classes = find_class_names(json.loads((schema.metadata or {})[b"huggingface"])["info"]["features"])

    def read() -> Iterator[Row]:
        with explain_damage(name, "parquet"):
            batches = file.iter_batches(batch_size=8 if kept else 256, columns=columns)  # images are large
            rows = chain.from_iterable(batch.to_pylist() for batch in batches)
            yield from (Row(f"row {number} of {name}", cells) for number, cells in enumerate(rows, start=1))

    return Table(name, columns, read(), classes)


def _is_read(kind: Any) -> bool:
    from pyarrow import types

    if types.is_struct(kind):  # the answers to a question
        return {part.name for part in kind} == ANSWER_KEYS and all(_is_read(part.type) for part in kind)
    if types.is_list(kind) or types.is_large_list(kind):  # lists of floats are embeddings, which are wide
        return _is_read(kind.value_type) and not types.is_floating(kind.value_type)
    if types.is_dictionary(kind):
        kind = kind.value_type
    text = types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind)
    return text or types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind)


def read_tagged(stream: BinaryIO, source: Source) -> Table:
    """Read a sentence a row: column ``tokens`` for the words, ``tags`` for the last column of the file.

    Words stand a line each, with their labels beside them, and a blank line between sentences. Columns are
    parted by tabs, in a line that has one, else by blanks. Those between the first and the last are called
    ``column2``, ``column3`` and so on. A document begins behind a line that begins with -DOCSTART-. Comments
    such as ``# id 8f3`` or ``# sent_id = 12`` are passed over.

    References:
        Tjong Kim Sang and De Meulder (2003), Introduction to the CoNLL-2003 shared task.
    """
    rows = (replace(row, part_of=name) for name, row in group_parts(_read_sentences(stream, source.spec)))
    first = next(rows, None)
    columns = [WORDS, TAGS] if first is None else list(first.cells)
    return Table(source.spec, columns, chain([] if first is None else [first], rows))


def _read_sentences(stream: BinaryIO, name: str) -> Iterator[tuple[str | None, str, Row]]:
    begins = False
    for start, lines in split_blocks(decode_lines(stream, name)):
        begins = begins or any(line.startswith(_DOCUMENT) for line in lines)
        read = [_split_cells(line, start + place, name) for place, line in enumerate(lines)]
        cells = [row for row in read if row]
        if not cells:
            continue
        widths = {len(row) for row in cells}
        between = range(1, min(widths) - 1) if len(widths) == 1 else ()
        columns = {WORDS: [row[0] for row in cells]}
        columns |= {f"column{place + 1}": [row[place] for row in cells] for place in between}
        columns[TAGS] = [row[-1] for row in cells]
        opening, begins = _DOCUMENT if begins else None, False
        yield opening, " ".join(columns[WORDS]), Row(f"the sentence at line {start} of {name}", columns)


def _split_cells(line: str, number: int, name: str) -> list[str]:
    """Part a line; none at all of one that holds no word."""
    line = line.strip("\r\n")
    if line.startswith(_DOCUMENT) or _COMMENT.match(line):
        return []
    cells = [cell.strip() for cell in line.split("\t")] if "\t" in line else line.split()
    if len(cells) < 2 or not cells[0] or not cells[-1]:
        raise DataError(
            f"line {number} of {name} does not hold a word and its label; part them by a tab or a blank, and "
            "sentences by a blank line"
        )
    return cells


#: The formats of tables by extension.
TABLES: dict[str, Callable[[BinaryIO, Source], Table]] = {
    ".csv": read_csv,
    ".tsv": read_tsv,
    ".jsonl": read_jsonl,
    ".ndjson": read_jsonl,
    ".json": read_json,
    ".parquet": read_parquet,
    **dict.fromkeys((".conll", ".bio", ".iob"), read_tagged),
    ".xlsx": read_xlsx,
}
#: Those whose first line names the columns, those that can hold words and gold links, and those with sheets.
HEADED, LINKED, SHEETS = (".csv", ".tsv", ".xlsx"), (".jsonl", ".ndjson", ".json", ".parquet"), (".xlsx",)
