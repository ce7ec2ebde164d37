"""Texts that a program holds in memory: strings, rows, and tables of which a column is named."""

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import zip_longest
from typing import Any

from attnprobe.corpus.cells import (
    Row,
    Table,
    find_class_names,
    make_table,
    read_answers,
    read_labels,
    read_tags,
    read_words,
)
from attnprobe.corpus.document import Document, Label
from attnprobe.corpus.schema import choose_schema, require
from attnprobe.corpus.source import OpenSource, Source
from attnprobe.corpus.streams import check_unicode
from attnprobe.errors import UsageError

#: Stands where a column has no cell any more.
_NOTHING = object()
#: Fields of a source that name columns.
_COLUMNS = ("text_column", "pair_column", "document_column", "group_column", "image_column", "label_column")


def read_pairs(pairs: Iterable[Any], source: Source) -> Iterator[Document]:
    """Read pairs of a clean and a corrupted text, each a dict."""
    return choose_schema(source).read(make_table("pairs", _read_dicts(pairs)))


def _read_dicts(pairs: Iterable[Any]) -> Iterator[Row]:
    for number, pair in enumerate(pairs, start=1):
        if not isinstance(pair, Mapping):
            raise UsageError(
                f"Pair {number} is of type {type(pair).__name__}; give dicts with clean, corrupted and "
                "answer."
            )
        yield Row(f"pair {number} of pairs", {str(key): cell for key, cell in pair.items()})


def open_table(texts: Any, source: Source) -> OpenSource:
    kind, keys = f"the {type(texts).__name__}", {str(key): key for key in _list_columns(texts)}
    known, columns = [*keys], {field: getattr(source, field) for field in _COLUMNS}
    if source.text_column is None and not source.usual and not source.contrasts:
        listed = ", ".join(map(repr, known[:10])) or "none"
        raise UsageError(
            f"A {type(texts).__name__} is a table, not texts: name the column, "
            f"text_column={known[0] if known else 'text'!r} (its columns are {listed})."
        )
    schema, read = choose_schema(source), keys
    if not source.contrasts:
        named = [column for column in columns.values() if column is not None]
        for column in named:
            require(column, known, kind)
        read = {name: keys[name] for name in known if name in named or name.lower() in schema.usual()}
    names = find_class_names(getattr(texts, "features", None))
    documents = schema.read(Table(kind, known, _read_rows(texts, read, kind), names))
    unsaid = {field for field in ("group_column", "image_column") if columns[field] is None}
    described = {field: column for field, column in columns.items() if field not in unsaid}
    return OpenSource(documents, "texts", {"name": "texts", **described})


def _list_columns(texts: Any) -> Iterable[Any]:
    if isinstance(texts, Mapping):
        return texts
    return texts.column_names if hasattr(texts, "column_names") else texts.columns


def _read_rows(texts: Any, columns: Mapping[str, Any], kind: str) -> Iterator[Row]:
    parts = {name: texts[key] for name, key in columns.items()}
    for name, part in parts.items():
        if isinstance(part, str):
            raise UsageError(f"The column {name!r} of {kind} is one string; make it a list of strings.")
    rows = zip_longest(*map(_read_cells, parts.values()), fillvalue=_NOTHING)
    for number, cells in enumerate(rows, start=1):
        if any(cell is _NOTHING for cell in cells):
            raise UsageError(f"The columns {', '.join(map(repr, parts))} of {kind} differ in length.")
        yield Row(f"row {number} of {kind}", dict(zip(parts, cells, strict=True)))


def _read_cells(column: Iterable[Any], *, lists: bool = True) -> Iterator[Any]:
    """Read a column of pyarrow's, numpy's or Python's cells as Python's; with ``lists``, arrays as lists."""
    for cell in column:
        plain = cell.as_py() if hasattr(cell, "as_py") else cell
        dimensions = getattr(plain, "ndim", None)
        if dimensions == 0:
            plain = plain.item()
        elif dimensions and lists:
            plain = plain.tolist()
        yield None if _is_missing(plain) else plain


def _is_missing(cell: Any) -> bool:
    # pandas' NA compares to nothing, and NaN not even to itself.
    return type(cell).__name__ == "NAType" or (isinstance(cell, float) and math.isnan(cell))


def read_documents(texts: Iterable[Any], labels: Iterable[Label] | None) -> Iterator[Document]:
    if not isinstance(texts, Iterable):
        raise UsageError(f"texts must be strings or pairs of strings, not {type(texts).__name__}.")
    if labels is None:
        return (_read_document(text, place) for place, text in enumerate(_read_cells(texts, lists=False)))
    every, right = list(_read_cells(texts, lists=False)), list(_read_cells(labels))
    if len(right) != len(every):
        raise UsageError(f"There are {len(every)} texts, but {len(right)} labels.")
    pairs = zip(every, right, strict=True)
    return iter([_label_document(text, label, place) for place, (text, label) in enumerate(pairs)])


def _label_document(text: Any, label: Any, place: int) -> Document:
    where, words = f"text {place}", read_words(text)
    if isinstance(label, Mapping) or (isinstance(label, list) and label and isinstance(label[0], Mapping)):
        document = _read_document(text, place)
        if document.pair is None:
            raise UsageError(f"{where} has answers; give its question and its context as a pair.")
        return replace(document, label=read_answers(document.pair, label, where))
    if isinstance(label, list | tuple) and words is not None and not isinstance(text, tuple):
        document = _read_document(" ".join(word for word in words if word.strip()), place)
        return replace(document, label=read_tags(words, label, (), where))
    if isinstance(label, list | tuple):
        label = read_labels(label, (), where)
    return replace(_read_document(text, place), label=label)


def _read_document(text: Any, place: int) -> Document:
    for part in text if isinstance(text, list | tuple) else [text]:
        if isinstance(part, str):
            check_unicode(part, f"text {place}")
    match text:
        case Document():
            return text
        case str():
            return Document(text)
        case (str() as first, str() as second):
            return Document(first, second)
    what = "missing" if text is None else f"of type {type(text).__name__}"
    raise UsageError(f"texts must be strings or pairs of strings; text {place} is {what}.")
