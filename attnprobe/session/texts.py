"""Texts and gold links, however a program holds them: strings, files, rows, tables with a named column."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from enum import Enum
from itertools import count, islice, zip_longest
from pathlib import Path
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
from attnprobe.corpus.document import Contrast, Document, Label
from attnprobe.corpus.groups import join_sources
from attnprobe.corpus.links import read_linked_rows
from attnprobe.corpus.open import open_anything
from attnprobe.corpus.retrieval import relate_rows
from attnprobe.corpus.schema import list_usual, read_table, require
from attnprobe.corpus.source import EMBEDDED, FILE, STDIN, OpenSource, Source
from attnprobe.corpus.streams import check_unicode
from attnprobe.errors import UsageError
from attnprobe.run.process_group import Ranks
from attnprobe.tasks import OBJECTIVES

#: One text: a string, a pair that is read together, or a document.
Text = str | tuple[str, str] | Document
#: What functions take: texts one by one or as a column, the path of a file or of a folder of images or
#: sound, the id of a hub dataset, a ``Source``, one that is open already, or a table of which a column is
#: named. None is the sentences that ship with attnprobe.
Texts = Iterable[Any] | str | Path | Source | OpenSource | None

#: Stands where a column has no cell any more.
_NOTHING = object()
#: Fields of a source that name columns, and their keywords.
_COLUMNS = {
    "text_column": "text_column",
    "pair_column": "text_pair_column",
    "document_column": "document_column",
    "group_column": "by_group",
    "image_column": "image_column",
}
_OF_HUB = {"split": "split", "config": "dataset_config"}


def open_texts(
    texts: Texts,
    labels: Iterable[Label] | None = None,
    *,
    named: Mapping[str, Any],
    label_column: str | None = None,
    find_labels: bool = False,
    sees: Callable[[], bool] | None = None,
) -> OpenSource:
    """Open texts, with labels for each of those that come one by one.

    ``named`` are the keywords that name columns, a split, and what the ``dataset`` column says; its ``order``
    is that in which documents are wanted. With ``find_labels``, a column of a usual name has the labels where
    none is named. ``sees``, where images may be read with the texts, tells whether the model does so.
    """
    if isinstance(texts, OpenSource):
        return texts
    objective = OBJECTIVES.get(named.get("objective") or "") if find_labels else None
    usual = objective.columns if objective is not None else ()
    find_labels = find_labels or (isinstance(texts, Source) and texts.find_labels)
    wanted = _make_source(texts, named, label_column, find_labels=find_labels, usual=usual, sees=sees)
    one_by_one = False
    if texts is None or isinstance(texts, str | Path | Source):
        source = open_anything(wanted)
    elif named.get("no_header"):
        raise UsageError("Only a file has a line of column names; leave out --no-header.")
    elif hub := next((keyword for keyword in _OF_HUB.values() if named.get(keyword) is not None), None):
        raise UsageError(f"Only a dataset of the hub has a split and a configuration; leave out {hub}.")
    elif _is_table(texts):
        source = _open_table(texts, wanted)
    else:
        keywords = {**named, "label_column": label_column}
        for keyword in (*_COLUMNS.values(), "label_column"):
            if keywords.get(keyword) is not None:
                raise UsageError(f"Texts that are given one by one have no columns; leave out {keyword}.")
        one_by_one, source = True, OpenSource(_read_documents(texts, labels), "texts", {"name": "texts"})
    if labels is not None and not one_by_one:
        raise UsageError("labels go with a list of texts; of a file or a table, name label_column.")
    if objective is not None and objective.relation and source.kind == "text":
        source = replace(source, documents=relate_rows(source.documents, objective.relation))
    return _rename(source, named)


def _make_source(texts: Any, named: Mapping[str, Any], label_column: str | None, **more: Any) -> Source:
    """Make the source that keywords describe; one that is given keeps what they do not say."""
    source = texts if isinstance(texts, Source) else Source(EMBEDDED)
    if isinstance(texts, str | Path):
        source = Source(str(texts))
    keywords = {**_COLUMNS, **_OF_HUB, "order": "order"}
    given = {field: named[name] for field, name in keywords.items() if named.get(name) is not None}
    given |= {} if label_column is None else {"label_column": label_column}
    given |= {"header": False} if named.get("no_header") else {}
    return replace(source, **given, **more)


def _rename(source: OpenSource, named: Mapping[str, Any]) -> OpenSource:
    name = named.get("name")
    return source if name is None else replace(source, name=name)


def check_standard_input(*texts: Any) -> None:
    """Refuse standard input that is named more than once, or that several processes would share."""
    named = [name for one in texts for name in (one if isinstance(one, list | tuple) else [one])]
    piped = sum(isinstance(name, str) and name == "-" for name in named)
    if piped > 1:
        raise UsageError("Standard input can be read once only; name a file in the other places.")
    if piped and Ranks.detect().size > 1:
        raise UsageError("Standard input can be read by one process only; give a file to several.")


class GoldLinks(Enum):
    """A kind of gold links: how a source of it is opened, and what is wrong where it holds none."""

    TREEBANK = "treebank"
    COREFERENCE = "coreference"
    LINKS = "links"

    @property
    def nothing(self) -> str:
        """The complaint about a source without a single link."""
        return {
            GoldLinks.TREEBANK: "it holds no dependencies; give CoNLL-U whose words have heads",
            GoldLinks.COREFERENCE: "it holds no mention with an antecedent and another one to choose from",
            GoldLinks.LINKS: "it holds no links",
        }[self]


def open_gold(texts: Texts, gold: GoldLinks, options: Mapping[str, Any]) -> OpenSource:
    """Open files with gold links, or documents that have some.

    ``texts`` are the path of a file, several of them, a ``Source``, or documents; None is what ships inside
    the package.
    """
    texts = EMBEDDED if texts is None else texts
    files = texts if isinstance(texts, list | tuple) and texts else [texts]
    if all(isinstance(one, str | Path | Source) for one in files):
        check_standard_input(files)
        mentions = gold is GoldLinks.COREFERENCE
        how: dict[str, Any] = {"annotated": not mentions, "coreference": mentions}
        specs = [one if isinstance(one, Source) else Source(str(one), **how) for one in files]
        if len(specs) > 1:  # one order for all of them
            options = {**options, "order": None}
        column = options.get("label_column")
        group = options.get("by_group") if len(specs) > 1 else None
        if group == FILE:
            options = {**options, "by_group": None}
        return join_sources([open_texts(spec, named=options, label_column=column) for spec in specs], group)
    if not isinstance(texts, Iterable) or isinstance(texts, Mapping):
        raise UsageError(
            f"Give the path of a file, several, or dicts with text and links, not {type(texts).__name__}."
        )
    name = options.get("name") or "texts"
    return OpenSource(read_linked_rows(texts, options.get("by_group")), name, {"name": name})


def open_pairs(pairs: Any, options: Mapping[str, Any], other: str | None) -> OpenSource:
    """Open pairs of a clean and a corrupted text: a file, a hub dataset, dicts, or a table of columns."""
    check_standard_input(pairs)
    column = options.get("label_column")
    wanted = _make_source(pairs, options, column, other_column=other, contrasts=True)
    if pairs is None or isinstance(pairs, str | Path | Source):
        if wanted.spec == EMBEDDED and any((column, other, *map(options.get, _COLUMNS.values()))):
            raise UsageError("The pairs that ship with attnprobe have columns of their own; name none.")
        source = open_anything(wanted)
        if source.kind != "text":
            raise UsageError(f"{source.name} holds {source.kind}; patch reads pairs of texts from a table.")
        source = replace(source, described={**source.described, "other_column": other})
    elif _is_table(pairs):
        source = replace(_open_table(pairs, wanted), name="pairs", described={"name": "pairs"})
    elif isinstance(pairs, Iterable):
        documents = read_table(make_table("pairs", _read_dicts(pairs)), wanted)
        source = OpenSource(documents, "pairs", {"name": "pairs"})
    else:
        raise UsageError(
            "Give pairs as the path of a file, a DataFrame, or dicts with clean, corrupted and answer, not "
            f"{type(pairs).__name__}."
        )
    return _rename(replace(source, documents=_require_pairs(source.documents, source.name)), options)


def _require_pairs(documents: Iterable[Document], name: str) -> Iterator[Document]:
    for document in documents:
        if not isinstance(document.label, Contrast):
            raise UsageError(
                f"{name} holds texts, not pairs of them; give a table (csv, tsv, jsonl, json, parquet) "
                "with columns clean and corrupted."
            )
        yield document


def _read_dicts(pairs: Iterable[Any]) -> Iterator[Row]:
    for number, pair in enumerate(pairs, start=1):
        if not isinstance(pair, Mapping):
            raise UsageError(
                f"Pair {number} is of type {type(pair).__name__}; give dicts with clean, corrupted and "
                "answer."
            )
        yield Row(f"pair {number} of pairs", {str(key): cell for key, cell in pair.items()})


def _is_table(texts: Any) -> bool:
    """Tell a DataFrame, a dict of columns or a dataset from its columns, whoever made it."""
    return isinstance(texts, Mapping) or hasattr(texts, "column_names") or hasattr(texts, "columns")


def _open_table(texts: Any, source: Source) -> OpenSource:
    kind, keys = f"the {type(texts).__name__}", {str(key): key for key in _list_columns(texts)}
    known, columns = [*keys], {field: getattr(source, field) for field in (*_COLUMNS, "label_column")}
    if source.text_column is None and not source.usual and not source.contrasts:
        listed = ", ".join(map(repr, known[:10])) or "none"
        raise UsageError(
            f"A {type(texts).__name__} is a table, not texts: name the column, "
            f"text_column={known[0] if known else 'text'!r} (its columns are {listed})."
        )
    read = keys
    if not source.contrasts:
        named = [column for column in columns.values() if column is not None]
        for column in named:
            require(column, known, kind)
        usual = list_usual(source)
        read = {name: keys[name] for name in known if name in named or name.lower() in usual}
    names = find_class_names(getattr(texts, "features", None))
    documents = read_table(Table(kind, known, _read_rows(texts, read, kind), names), source)
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


def _read_documents(texts: Iterable[Any], labels: Iterable[Label] | None) -> Iterator[Document]:
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


# What is read more than once


class Replay:
    """Items that can be read once, kept as they are read, so that they can be read again."""

    def __init__(self, items: Iterable[Any]) -> None:
        self._rest = iter(items)
        self._kept: list[Any] = []

    def __iter__(self) -> Iterator[Any]:
        for place in count():
            if place == len(self._kept):
                more = list(islice(self._rest, 1))
                if not more:
                    return
                self._kept += more
            yield self._kept[place]


def replay(items: Any) -> Any:
    """Make an iterator readable more than once; anything else is as it is."""
    return Replay(items) if isinstance(items, Iterator) else items


def open_to_replay(
    texts: Any, labels: Any, options: Mapping[str, Any], *, find_labels: bool
) -> tuple[Any, OpenSource]:
    """Open texts, and return them beside the source in a form that can be opened again."""
    if isinstance(texts, OpenSource):
        return texts, texts
    named, column = options, options.get("label_column")
    source = open_texts(texts, labels, named=named, label_column=column, find_labels=find_labels)
    spec = texts.spec if isinstance(texts, Source) else texts
    if isinstance(spec, str) and spec == STDIN:
        source = replace(source, documents=Replay(source.documents))
        return source, source
    return texts, source
