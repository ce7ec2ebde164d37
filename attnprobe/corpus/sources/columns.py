"""Columns: which one of a table holds the text, and from a row to a Document."""

import math
import warnings
from collections.abc import Iterator, Sequence
from itertools import chain, islice
from typing import Any

from attnprobe.corpus.sources.annotation import Where
from attnprobe.corpus.sources.document import Document
from attnprobe.corpus.sources.lines import brief
from attnprobe.corpus.sources.links import annotation_of
from attnprobe.corpus.sources.tables import PEEK_ROWS, Row, Table
from attnprobe.errors import AttnprobeError, AttnprobeWarning
from attnprobe.spelling import spoken

# Where no column is asked for, the first of these that exists, in any letter case.
# The first sentence of sentence1/sentence2 and the like is read alone: a pair has to be asked for.
USUAL_TEXT_COLUMNS = ("text", "sentence", "sentence1", "content", "document", "premise", "question")

#: The same for labels, where they are wanted.
USUAL_LABEL_COLUMNS = ("label", "labels", "class", "target")

LISTED_COLUMNS = 20


def table_documents(
    table: Table,
    name: str,
    *,
    text: str | None,
    pair: str | None,
    label: str | None,
    find_labels: bool = False,
    annotated: bool = False,
) -> Iterator[Document]:
    """Yield a document for each row whose text is not blank; with ``annotated``, with its words and links."""
    first = list(islice(table.rows, PEEK_ROWS))
    if not first:
        return
    for column in (text, pair, label):
        if column is not None:
            require(column, table.columns, name)
    if label is None and find_labels:
        label = _usual(USUAL_LABEL_COLUMNS, [c for c in table.columns if c not in {text, pair}])
        if label is not None:
            require(label, table.columns, name)
    if label is not None and label in (text, pair):
        raise AttnprobeError(f"the column {label!r} of {name} can't be both text and label; name two columns")
    if text is None:
        text = _text_column(table.columns, first, name, taken=(pair, label))
    for row in chain(first, table.rows):
        words = _text(row, text, name)
        if words is not None:
            second = None if pair is None else _text(row, pair, name)
            said = None
            if annotated:
                texts: dict[Where, str] = {"text": words, **({} if second is None else {"pair": second})}
                said = annotation_of(row.cells, f"{row.where} of {name}", texts)
            yield Document(words, second, None if label is None else _label(row, label, name), said)


def require(column: str, columns: Sequence[str], name: str) -> None:
    """Refuse a column that is not there, or there twice."""
    if column not in columns:
        raise AttnprobeError(f"{name} has no column {column!r}; its columns are {_listed(columns)}")
    if columns.count(column) > 1:
        raise AttnprobeError(f"{name} has more than one column {column!r}; give each its own name")


def _text_column(
    columns: Sequence[str], first: Sequence[Row], name: str, taken: tuple[str | None, ...]
) -> str:
    """Choose by the usual names, else the only column of strings."""
    free = [column for column in columns if column not in taken]
    if (found := _usual(USUAL_TEXT_COLUMNS, free)) is not None:
        require(found, columns, name)
        others = [c for c in free if c != found and c.lower() in USUAL_TEXT_COLUMNS]
        if others:
            warnings.warn(
                spoken(
                    f"the text of {name} is taken from its column {brief(found)!r}, not from "
                    f"{_listed(others)}; name another with --text-column."
                ),
                AttnprobeWarning,
                stacklevel=2,
            )
        return found
    strings = [column for column in free if _holds_text(column, first)]
    # A number among the names means that the first line is data: words and frequencies, say.
    if len(strings) != 1 or any(map(_is_number, columns)):
        raise AttnprobeError(
            f"which column of {name} holds the text is not clear; pass --text-column with one of "
            f"{_listed(columns)}, or add a line of column names if it has none"
        )
    return strings[0]


def _usual(names: Sequence[str], columns: Sequence[str]) -> str | None:
    """Find the first of the usual names among columns, in any letter case but the exact one first."""
    for usual in names:
        found = sorted((column for column in columns if column.lower() == usual), key=lambda c: c != usual)
        if found:
            return found[0]
    return None


def _holds_text(column: str, rows: Sequence[Row]) -> bool:
    cells = [row.cells.get(column) for row in rows]
    cells = [cell for cell in cells if cell is not None and cell != ""]
    strings = all(isinstance(cell, str) for cell in cells)
    return bool(cells) and strings and not all(map(_is_number, cells))


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _text(row: Row, column: str, name: str) -> str | None:
    """Give the text of a cell, or None where it is missing or blank."""
    cell = row.cells.get(column)
    if cell is None:
        return None
    if not isinstance(cell, str):
        raise AttnprobeError(
            f"{row.where} of {name} has {_kind(cell)} in column {column!r}; "
            "choose a column of text with --text-column or --text-pair-column"
        )
    if not cell.strip():
        return None
    try:
        cell.encode()
    except UnicodeEncodeError:  # JSON can spell half of a surrogate pair, which no tokeniser takes
        raise AttnprobeError(
            f"{row.where} of {name} has half a surrogate pair in column {column!r}; "
            "write the text again as UTF-8"
        ) from None
    return cell


def _label(row: Row, column: str, name: str) -> str | int | float | None:
    """Give a label as the file spells it, or None where it is missing."""
    cell = row.cells.get(column)
    if isinstance(cell, bool):
        return int(cell)
    if cell is None or (isinstance(cell, float) and math.isnan(cell)):
        return None
    if isinstance(cell, str):
        return cell if cell.strip() else None
    if isinstance(cell, int | float):
        return cell
    raise AttnprobeError(
        f"{row.where} of {name} has {_kind(cell)} in column {column!r}; "
        "choose a column of strings or numbers with --label-column"
    )


def _kind(cell: Any) -> str:
    words = {bool: "true or false", int: "a number", float: "a number", list: "a list", dict: "an object"}
    return words.get(type(cell), f"a value of type {type(cell).__name__}")


def _listed(columns: Sequence[str]) -> str:
    # repr, since a hostile header may hold escape sequences that a terminal would obey.
    names = ", ".join(repr(brief(column)) for column in columns[:LISTED_COLUMNS])
    more = len(columns) - LISTED_COLUMNS
    return f"{names} and {more} more" if more > 0 else names
