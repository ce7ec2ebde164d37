"""Tables of rows, and what their cells hold: texts, words, labels, answers, names of classes."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import Any

from attnprobe.corpus.document import Asked, Tagged, Value
from attnprobe.corpus.streams import check_unicode, shorten
from attnprobe.errors import DataError

#: The label of words that do not count, as in torch's cross entropy.
IGNORED = -100
#: So many rows are read ahead to find and choose columns.
PEEK_ROWS = 32
#: What errors call the cells that are refused.
_KINDS = {bool: "true or false", int: "a number", float: "a number", list: "a list", dict: "an object"}


@dataclass(frozen=True, slots=True)
class Row:
    """The cells of a row by column name."""

    where: str  # such as "line 3 of data.csv"
    cells: Mapping[str, Any]
    part_of: str | None = None  # the name of its document, where the format has documents of several rows


@dataclass(frozen=True)
class Table:
    """Column names and a stream of rows, which is read once."""

    name: str  # for errors
    columns: Sequence[str]
    rows: Iterator[Row]
    classes: Mapping[str, Sequence[str]] = field(default_factory=dict)  # their names, by column of numbers
    header: bool = False  # a first line names the columns, unless it is data


def make_table(name: str, rows: Iterator[Row], classes: Mapping[str, Sequence[str]] | None = None) -> Table:
    """Make a table of rows that have their own column names."""
    first = list(islice(rows, PEEK_ROWS))
    columns = list(dict.fromkeys(column for row in first for column in row.cells))
    return Table(name, columns, chain(first, rows), classes or {})


def is_missing(cell: Any) -> bool:
    return cell is None or (isinstance(cell, float) and math.isnan(cell))


def is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def read_text(
    row: Row, column: str | None, option: str | None = "--text-column or --text-pair-column"
) -> str | None:
    """Read a text; None where it is missing or blank. Errors name the ``option`` that chooses the column."""
    advice = "make it a string" if option is None else f"choose a column of text with {option}"
    return read_cell(row, column, advice, str)


def read_cell(row: Row, column: str | None, advice: str, kinds: Any = Value) -> Any:
    """Read a cell of the given types, or refuse another; None where it is missing or blank."""
    cell = None if column is None else row.cells.get(column)
    if is_missing(cell) or (isinstance(cell, str) and not cell.strip()):
        return None
    if not isinstance(cell, kinds):
        kind = _KINDS.get(type(cell), f"a value of type {type(cell).__name__}")
        raise DataError(f"{row.where} has {kind} in column {column!r}; {advice}")
    return check_unicode(cell, f"{row.where} (column {column!r})") if isinstance(cell, str) else cell


def read_words(cell: Any) -> list[str] | None:
    """Read a list of words; None where a cell is something else."""
    words = isinstance(cell, list | tuple) and all(isinstance(word, str) for word in cell)
    return list(cell) if words else None


def read_tags(words: Sequence[str], tags: Any, names: Sequence[str], where: str) -> Tagged | None:
    """Label the words that are not blank; a number is a place in ``names``. None where none has a label."""
    if tags is None:
        return None
    if not isinstance(tags, list | tuple) or len(words) != len(tags):
        raise DataError(f"{where} has {len(words)} words, but {shorten(repr(tags))}; give each a label")
    kept = []
    for word, tag in zip(words, tags, strict=True):
        if isinstance(tag, int) and not isinstance(tag, bool):
            tag = None if tag == IGNORED else names[tag] if 0 <= tag < len(names) else tag  # noqa: PLW2901
        elif not isinstance(tag, str) or not tag.strip():
            raise DataError(f"{where} has the label {shorten(repr(tag))}, not a string or a whole number")
        if word.strip():
            kept.append((word, tag))
    if all(tag is None for _, tag in kept):
        return None
    return Tagged(tuple(word for word, _ in kept), tuple(tag for _, tag in kept))


def read_labels(cell: Sequence[Any], names: Sequence[str], where: str) -> tuple[Value, ...]:
    """Read a list of labels; numbers become ``names``, unless the list has a 0 or 1 for each name."""
    labels = [int(label) if isinstance(label, bool) else label for label in cell]
    for label in labels:
        if not isinstance(label, Value) or is_missing(label):
            raise DataError(f"{where} has the label {shorten(repr(label))}, not a string or a number")
    if len(labels) == len(names) and all(label in (0, 1) for label in labels):
        return tuple(labels)
    known = dict(enumerate(names))
    return tuple(known.get(label, label) if isinstance(label, int) else label for label in labels)


def read_answers(context: str | None, cell: Any, where: str) -> Asked | None:
    """Read the answers to a question: an object with lists ``text`` and ``answer_start``, as in SQuAD.

    Empty lists mean that the context has no answer. None where the object or the context is missing. An
    answer that is not at its place is refused.
    """
    if cell is None or context is None:
        return None
    texts, starts = (cell.get(key) if isinstance(cell, Mapping) else None for key in ("text", "answer_start"))
    if not isinstance(texts, list) or not isinstance(starts, list) or len(texts) != len(starts):
        raise DataError(
            f"{where} has {shorten(repr(cell))} for its answers; give an object of two equally long lists, "
            "text and answer_start"
        )
    answers = [(text, start) for text, start in zip(texts, starts, strict=True) if text != ""]
    for text, start in answers:
        whole = isinstance(text, str) and type(start) is int and start >= 0
        if not whole or not context.startswith(text, start):
            raise DataError(
                f"{where}: the answer {shorten(repr(text))} does not stand at character "
                f"{shorten(repr(start))} of its context; count from 0, in Unicode code points"
            )
    return Asked(context, tuple(text for text, _ in answers), tuple(start for _, start in answers))


def find_class_names(features: Any) -> dict[str, tuple[str, ...]]:
    """Find the names of classes, by column with lists of classes, in the features of a dataset or parquet."""

    def get(feature: Any, name: str) -> Any:
        return feature.get(name) if isinstance(feature, Mapping) else getattr(feature, name, None)

    classes = {}
    for column, feature in features.items() if isinstance(features, Mapping) else ():
        inner = feature[0] if isinstance(feature, list) and feature else get(feature, "feature")
        names = get(inner, "names")
        if isinstance(names, list | tuple) and all(isinstance(name, str) for name in names):
            classes[str(column)] = tuple(names)
    return classes
