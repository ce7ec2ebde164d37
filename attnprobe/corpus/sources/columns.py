"""Columns: which one of a table holds the text, and from a row to a Document."""

import math
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice
from typing import TYPE_CHECKING, Any

from attnprobe.corpus.formats import PEEK_ROWS, Row, Table, is_number
from attnprobe.corpus.links import LINKS, TEXT_COLUMNS, WORD_COLUMNS, list_texts, read_annotation
from attnprobe.corpus.sources.document import Document, Label
from attnprobe.corpus.sources.gold import (
    ANSWERS,
    CONTEXT,
    QUESTION,
    USUAL_TAG_COLUMNS,
    USUAL_WORD_COLUMNS,
    read_answers,
    read_labels,
    read_tags,
    read_words,
)
from attnprobe.corpus.sources.streams import check_unicode, shorten
from attnprobe.errors import AttnprobeWarning, DataError

if TYPE_CHECKING:
    from attnprobe.corpus.sources.pictures import Images

# Where no column is asked for, the first of these that exists, in any letter case.
# The first sentence of sentence1/sentence2 and the like is read alone: a pair has to be asked for.
USUAL_TEXT_COLUMNS = ("text", "sentence", "sentence1", "content", "document", "premise", "question")

#: The same for labels, where they are wanted.
USUAL_LABEL_COLUMNS = ("label", "labels", "class", "target")

LISTED_COLUMNS = 20
#: How pandas calls the columns of an index without a name in parquet.
_INDEX = "__index_level_"


@dataclass(frozen=True)
class _Columns:
    """Which columns are read, and as what."""

    text: str
    pair: str | None = None
    label: str | None = None
    words: bool = False
    tags: bool = False
    context: str | None = None
    lists: bool = False


def read_table(
    table: Table,
    name: str,
    *,
    text: str | None,
    pair: str | None,
    label: str | None,
    document: str | None = None,
    group: str | None = None,
    find_labels: bool = False,
    annotated: bool = False,
    usual: Sequence[Sequence[str]] = (),
    images: "Images | None" = None,
) -> Iterator[Document]:
    """Yield a document, or a part of one, for each row whose text is not blank.

    Args:
        table: The rows.
        name: Of the table, for errors.
        text: Column of the text, or of lists of its words; None chooses.
        pair: Column of the second text.
        label: Column of the label.
        document: Column of what names documents: rows with one value are parts of one document. A row
            without a value is a document of its own. Where None is named, the format decides.
        group: Column of the group that each row counts in; None where nobody asks for groups.
        find_labels: Whether labels are wanted: columns of the usual names are taken where none is named, and
            a label may be a list, one for each word, or answers to a question.
        annotated: Whether words and links are read too; then columns called ``text_pair`` and ``target`` are
            the second text of a pair and what a decoder reads, where none are named.
        usual: Where two texts and what is said of them are wanted, the usual names of each of the three
            columns, which are taken where none is named.
        images: Which column holds images that are read with the texts; rows without one are left out.
    """
    first = list(islice(table.rows, PEEK_ROWS))
    if not first:
        return
    text, pair, label, document, group = (
        None if column is None else find_column(column, table.columns, name)
        for column in (text, pair, label, document, group)
    )
    if annotated:
        if not {LINKS, *WORD_COLUMNS.values()} & set(table.columns):
            raise DataError(
                f"{name} holds no gold links: it has no column {LINKS!r}; its columns are "
                f"{_list_columns(table.columns)}"
            )
        pair = pair if pair is not None else find_usual((TEXT_COLUMNS["pair"],), table.columns)
        label = label if label is not None else find_usual((TEXT_COLUMNS["target"],), table.columns)
        find_labels = False
    if usual:
        text, pair, label = _choose_related((text, pair, label), usual, table.columns, name)
        find_labels = False
    taken = {document, group} - {text, pair, label}
    free = [column for column in table.columns if column not in taken]
    image = None if images is None else images.find(table.columns, first, name)
    free = [column for column in free if column != image]
    columns = _choose_columns(
        free, first, name, text, pair, label, find_labels=find_labels, header=table.header
    )
    known: dict[str, str] = {}
    blind = 0
    for row in chain(first, table.rows):
        found = _read_linked(row, columns, name) if annotated else _read_plain(row, columns, table, name)
        if found is not None and images is not None and image is not None:
            found = images.add(found, row, image, name)
            blind += found is None
        if found is None:
            continue
        if group is not None:
            found = replace(found, stratum=_read_name(row, group, name, "--by-group"))
        value = None if document is None else _read_name(row, document, name, "--document-column")
        if value is not None:
            # By its first row too: 17 is another document in another file, and the same in a part of this.
            yield replace(found, group=known.setdefault(value, f"{value}\0{found.digest:x}"))
        else:
            yield found if document is not None or row.group is None else replace(found, group=row.group)
    if blind:
        sentence = f"{blind:,} row{'s' * (blind > 1)} of {name} without an image left out."
        warnings.warn(sentence, AttnprobeWarning, stacklevel=2)


def _read_name(row: Row, column: str, name: str, option: str) -> str | None:
    """Give what names the document of a row, or its group; None where the cell is empty."""
    cell = row.cells.get(column)
    if _is_missing(cell) or cell == "":
        return None
    if not isinstance(cell, str | int | float):
        raise DataError(
            f"{row.where} of {name} has {_describe_cell(cell)} in column {column!r}; choose a column of "
            f"strings or numbers with {option}"
        )
    return str(cell)


def _is_missing(cell: Any) -> bool:
    return cell is None or (isinstance(cell, float) and math.isnan(cell))


def _read_plain(row: Row, columns: _Columns, table: Table, name: str) -> Document | None:
    if columns.words and read_words(row.cells.get(columns.text)) is not None:
        return _read_listed(row, columns, table, name)
    text = _read_text(row, columns.text, name)
    if text is None:
        return None
    second = None if columns.pair is None else _read_text(row, columns.pair, name)
    return Document(text, second, _read_label(row, columns, table, name))


def _read_linked(row: Row, columns: _Columns, name: str) -> Document | None:
    text = _read_text(row, columns.text, name)
    if text is None:
        return None
    pair = None if columns.pair is None else _read_text(row, columns.pair, name)
    target = None if columns.label is None else _read_text(row, columns.label, name, "--target-column")
    annotation = read_annotation(row.cells, f"{row.where} of {name}", list_texts(text, pair, target))
    return Document(text, pair, target, annotation)


def _choose_columns(
    columns: Sequence[str],
    first: Sequence[Row],
    name: str,
    text: str | None,
    pair: str | None,
    label: str | None,
    *,
    find_labels: bool,
    header: bool,
) -> _Columns:
    if find_labels and (question := _find_question(columns, first, name, text, pair, label)) is not None:
        return question
    free = [column for column in columns if column != label]
    if find_labels and pair is None:
        words = text if text is not None else find_usual(USUAL_WORD_COLUMNS, free)
        if words is not None and _most_are(read_words, words, first):
            rest = [c for c in columns if c != words and _most_are(_as_list, c, first)]
            tags = label if label is not None else find_usual(USUAL_TAG_COLUMNS, rest)
            if tags is not None and tags in rest and _are_aligned(words, tags, first):
                require(tags, columns, name)
                return _Columns(words, None, tags, words=True, tags=True)
    if label is None and find_labels:
        label = find_usual(USUAL_LABEL_COLUMNS, [c for c in columns if c not in {text, pair}])
        if label is not None:
            require(label, columns, name)
    if label is not None and label in (text, pair):
        raise DataError(f"the column {label!r} of {name} can't be both text and label; name two columns")
    if text is None:
        text = _choose_text(columns, first, name, taken=(pair, label), header=header)
    return _Columns(text, pair, label, words=_most_are(read_words, text, first), lists=find_labels)


def _choose_related(
    named: Sequence[str | None], usual: Sequence[Sequence[str]], columns: Sequence[str], name: str
) -> tuple[str, str, str | None]:
    found: list[str | None] = []
    for column, names in zip(named, usual, strict=True):
        free = [one for one in columns if one not in {*named, *found}]
        found.append(column if column is not None else find_usual(names, free))
    text, pair, label = found
    options = {"--text-column": text, "--text-pair-column": pair}
    for (option, column), names in zip(options.items(), usual, strict=False):
        if column is None:
            raise DataError(
                f"{name} has no column called {' or '.join(names[:3])}; name one with {option}: its columns "
                f"are {_list_columns(columns)}"
            )
        require(column, columns, name)
    assert text is not None
    assert pair is not None
    return text, pair, label


def _find_question(
    columns: Sequence[str],
    first: Sequence[Row],
    name: str,
    text: str | None,
    pair: str | None,
    label: str | None,
) -> _Columns | None:
    answers = label if label is not None else find_usual((ANSWERS,), columns)
    if answers is None or not _most_are(_as_answers, answers, first):
        return None
    if label is None and (text, pair) != (None, None) and None in (text, pair):
        return None  # one of the texts alone was asked for
    question = text if text is not None else find_usual((QUESTION,), columns)
    context = pair if pair is not None else find_usual((CONTEXT,), columns)
    if question is None or context is None or question == context:
        if label is None:
            return None
        raise DataError(
            f"the column {label!r} of {name} holds answers, which need a question and a context; name them "
            "with --text-column and --text-pair-column"
        )
    for column in (question, context, answers):
        require(column, columns, name)
    return _Columns(question, pair, answers, context=context)


def _most_are(read: Callable[[Any], Any], column: str, rows: Sequence[Row]) -> bool:
    cells = [cell for row in rows if (cell := row.cells.get(column)) is not None]
    return 2 * sum(read(cell) is not None for cell in cells) > len(cells)


def _are_aligned(words: str, tags: str, rows: Sequence[Row]) -> bool:
    """Whether most lists of labels are as long as the words beside them: others are of the whole text."""
    pairs: list[tuple[Any, Any]] = [(row.cells.get(words), row.cells.get(tags)) for row in rows]
    lists = [pair for pair in pairs if all(isinstance(cell, list) for cell in pair)]
    alike = [len(ours) == len(theirs) for ours, theirs in lists]
    return 2 * sum(alike) > len(alike)


def _as_list(cell: Any) -> list[Any] | None:
    return cell if isinstance(cell, list) else None


def _as_answers(cell: Any) -> Any:
    """Take an object, or a list of objects, for answers; an empty list may be one of labels."""
    if isinstance(cell, Mapping):
        return cell
    return cell if isinstance(cell, list) and all(isinstance(one, Mapping) for one in cell) else None


def _read_listed(row: Row, columns: _Columns, table: Table, name: str) -> Document | None:
    """Give the document of a list of words, joined by blanks."""
    words = read_words(row.cells[columns.text]) or []
    text = " ".join(word for word in words if word.strip())
    if not text:
        return None
    check_unicode(text, f"{row.where} of {name} (column {columns.text!r})")
    if columns.label is None or not columns.tags:
        return Document(text, None, _read_label(row, columns, table, name))
    cell, names = row.cells.get(columns.label), table.names.get(columns.label, ())
    return Document(text, None, read_tags(words, cell, names, f"{row.where} of {name}"))


def find_column(column: str, columns: Sequence[str], name: str) -> str:
    """Find a column by its name, or else by its number, counted from 1."""
    if column not in columns and column.isdecimal() and 0 < int(column) <= len(columns):
        column = columns[int(column) - 1]
    require(column, columns, name)
    return column


def require(column: str, columns: Sequence[str], name: str) -> None:
    """Refuse a column that is not there, or there twice."""
    if column not in columns:
        raise DataError(f"{name} has no column {column!r}; its columns are {_list_columns(columns)}")
    if columns.count(column) > 1:
        raise DataError(f"{name} has more than one column {column!r}; give each its own name")


def _choose_text(
    columns: Sequence[str], first: Sequence[Row], name: str, taken: tuple[str | None, ...], *, header: bool
) -> str:
    free = [column for column in columns if column not in taken]
    if (found := find_usual(USUAL_TEXT_COLUMNS, free)) is not None:
        require(found, columns, name)
        if others := [c for c in free if c != found and c.lower() in USUAL_TEXT_COLUMNS]:
            sentence = (
                f"the text of {name} is taken from its column {shorten(found)!r}, not from "
                f"{_list_columns(others)}; name another with --text-column."
            )
            warnings.warn(sentence, AttnprobeWarning, stacklevel=2)
        return found
    if (found := find_usual(USUAL_WORD_COLUMNS, free)) is not None and _most_are(read_words, found, first):
        require(found, columns, name)
        return found
    strings = [c for c in free if _holds_text(c, first) and not c.startswith(_INDEX)]
    # A number in a line of names means that it is data: words and frequencies, say.
    if len(strings) != 1 or (header and any(map(is_number, columns))):
        advice = " (--no-header where the first line is data)" if header else ""
        raise DataError(
            f"which column of {name} holds the text is not clear; pass --text-column with one of "
            f"{_list_columns(columns)}, or with its number, from 1{advice}"
        )
    return strings[0]


def find_usual(names: Sequence[str], columns: Sequence[str]) -> str | None:
    """Find the first of the usual names among columns, in any letter case but the exact one first."""
    for usual in names:
        found = [column for column in columns if column.lower() == usual]
        if found:
            return usual if usual in found else found[0]
    return None


def _holds_text(column: str, rows: Sequence[Row]) -> bool:
    cells = [cell for row in rows if (cell := row.cells.get(column)) not in (None, "")]
    strings = all(isinstance(cell, str) for cell in cells)
    return bool(cells) and strings and not all(map(is_number, cells))


def _read_text(
    row: Row, column: str, name: str, option: str = "--text-column or --text-pair-column"
) -> str | None:
    cell = row.cells.get(column)
    if cell is None:
        return None
    if not isinstance(cell, str):
        raise DataError(
            f"{row.where} of {name} has {_describe_cell(cell)} in column {column!r}; "
            f"choose a column of text with {option}"
        )
    if not cell.strip():
        return None
    return check_unicode(cell, f"{row.where} of {name} (column {column!r})")


def _read_label(row: Row, columns: _Columns, table: Table, name: str) -> Label | None:
    """Give a label as the file spells it, or None where it is missing."""
    column = columns.label
    if column is None:
        return None
    cell, where = row.cells.get(column), f"{row.where} of {name}"
    if columns.context is not None:
        return read_answers(_read_text(row, columns.context, name), cell, where)
    if isinstance(cell, list) and columns.lists:
        return read_labels(cell, table.names.get(column, ()), where)
    if _is_missing(cell):
        return None
    if isinstance(cell, str):
        return cell if cell.strip() else None
    if isinstance(cell, int | float):
        return int(cell) if isinstance(cell, bool) else cell
    raise DataError(
        f"{row.where} of {name} has {_describe_cell(cell)} in column {column!r}; "
        "choose a column of strings or numbers, or of lists of them, with --label-column"
    )


def _describe_cell(cell: Any) -> str:
    words = {bool: "true or false", int: "a number", float: "a number", list: "a list", dict: "an object"}
    return words.get(type(cell), f"a value of type {type(cell).__name__}")


def _list_columns(columns: Sequence[str]) -> str:
    # repr, since a hostile header may hold escape sequences that a terminal would obey.
    names = ", ".join(repr(shorten(column)) for column in columns[:LISTED_COLUMNS])
    more = len(columns) - LISTED_COLUMNS
    return f"{names} and {more} more" if more > 0 else names
