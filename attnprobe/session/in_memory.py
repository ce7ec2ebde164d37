"""Texts that a program holds: strings and pairs one by one, or a table of which a column is named."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import zip_longest
from typing import Any

from attnprobe.corpus.cells import Row, Table, find_class_names, is_missing, make_table, read_labels
from attnprobe.corpus.document import Document
from attnprobe.corpus.schema import list_usual, read_table, require
from attnprobe.corpus.source import OpenSource, Source
from attnprobe.corpus.streams import check_unicode
from attnprobe.errors import UsageError

#: Stands where a column has no cell any more.
_NOTHING = object()
#: Fields of a source that name columns; those that are on record where they are not named too come first.
_RECORDED = ("text_column", "pair_column", "document_column", "label_column")
_COLUMNS = (*_RECORDED, "group_column", "image_column")


def open_table(texts: Any, source: Source) -> OpenSource:
    """Open a table that a program holds: a DataFrame, a dict of columns, or a dataset.

    Raises UsageError if a column of texts must be named and is not, DataError if a named column is missing.
    """
    listed = texts if isinstance(texts, Mapping) else getattr(texts, "column_names", None)
    keys = {str(key): key for key in (getattr(texts, "columns", ()) if listed is None else listed)}
    kind = f"the {type(texts).__name__}"
    known, columns = [*keys], {field: getattr(source, field) for field in _COLUMNS}
    if source.text_column is None and not source.usual and not source.contrasts:
        raise UsageError(
            f"A {type(texts).__name__} is a table, not texts: name the column, "
            f"text_column={known[0] if known else 'text'!r} (its columns are "
            f"{', '.join(map(repr, known[:10])) or 'none'})."
        )
    named = [column for column in columns.values() if column is not None]
    for column in named:
        require(column, known, kind)
    name, usual, every = "pairs" if source.contrasts else "texts", list_usual(source), source.contrasts
    read = {one: key for one, key in keys.items() if every or one in named or one.lower() in usual}
    classes = find_class_names(getattr(texts, "features", None))
    documents = read_table(Table(kind, known, _read_rows(texts, read, kind), classes), source)
    described = {field: one for field, one in columns.items() if one is not None or field in _RECORDED}
    return OpenSource(documents, name, {"name": name, **described})


def open_rows(pairs: Any, source: Source) -> OpenSource:
    documents = read_table(make_table("pairs", _read_dicts(pairs)), source)
    return OpenSource(documents, "pairs", {"name": "pairs"})


def _read_dicts(pairs: Iterable[Any]) -> Iterator[Row]:
    for number, pair in enumerate(pairs, start=1):
        if not isinstance(pair, Mapping):
            raise UsageError(
                f"Pair {number} is of type {type(pair).__name__}; give dicts with clean, corrupted and "
                "answer."
            )
        yield Row(f"pair {number} of pairs", {str(key): cell for key, cell in pair.items()})


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
    """Yield pyarrow's, numpy's or Python's cells as Python's, missing as None; ``lists`` for arrays."""
    for cell in column:
        plain = cell.as_py() if hasattr(cell, "as_py") else cell
        dimensions = getattr(plain, "ndim", None)
        if dimensions == 0:
            plain = plain.item()
        elif dimensions and lists:
            plain = plain.tolist()
        yield None if is_missing(plain) or type(plain).__name__ == "NAType" else plain  # pandas' own


def read_documents(texts: Any, labels: Iterable[Any] | None = None) -> Iterator[Document]:
    """Make documents of texts, one by one, or with a label for each, all at once; refuse other types."""
    if not isinstance(texts, Iterable):
        raise UsageError(f"texts must be strings or pairs of strings, not {type(texts).__name__}.")
    read = _read_cells(texts, lists=False)
    if labels is None:
        return (_read_document(text, f"text {place}") for place, text in enumerate(read))
    every, right = list(read), list(_read_cells(labels))
    if len(right) != len(every):
        raise UsageError(f"There are {len(every)} texts, but {len(right)} labels.")
    pairs = zip(every, right, strict=True)
    return iter([_label(*both, f"text {place}") for place, both in enumerate(pairs)])


def _label(text: Any, label: Any, where: str) -> Document:
    label = read_labels(label, (), where) if isinstance(label, list | tuple) else label
    return replace(_read_document(text, where), label=label)


def _read_document(text: Any, where: str) -> Document:
    for part in text if isinstance(text, list | tuple) else [text]:
        if isinstance(part, str):
            check_unicode(part, where)
    match text:
        case Document():
            return text
        case str():
            return Document(text)
        case (str() as first, str() as second):
            return Document(first, second)
    what = "missing" if text is None else f"of type {type(text).__name__}"
    raise UsageError(f"texts must be strings or pairs of strings; {where} is {what}.")
