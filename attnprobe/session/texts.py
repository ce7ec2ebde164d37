"""Texts and gold links, however a program holds them: strings, files, rows, tables with a named column."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from enum import Enum
from itertools import count, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attnprobe.corpus.source import EMBEDDED, FILE, STDIN, OpenSource, Source
from attnprobe.errors import UsageError
from attnprobe.run.process_group import Ranks
from attnprobe.tasks import OBJECTIVES

if TYPE_CHECKING:
    from attnprobe.corpus.document import Document, Label

#: What functions take: texts one by one or as a column, the path of a file or of a folder of images or
#: sound, the id of a hub dataset, a ``Source``, one that is open already, or a table of which a column is
#: named. None is the sentences that ship with attnprobe.
Texts = Iterable[Any] | str | Path | Source | OpenSource | None

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
    labels: "Iterable[Label] | None" = None,
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
    from attnprobe.corpus.open import open_anything
    from attnprobe.corpus.retrieval import relate_rows
    from attnprobe.session.in_memory import open_table, read_documents

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
        source = open_table(texts, wanted)
    else:
        keywords = {**named, "label_column": label_column}
        for keyword in (*_COLUMNS.values(), "label_column"):
            if keywords.get(keyword) is not None:
                raise UsageError(f"Texts that are given one by one have no columns; leave out {keyword}.")
        one_by_one, source = True, OpenSource(read_documents(texts, labels), "texts", {"name": "texts"})
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
    from attnprobe.corpus.groups import join_sources
    from attnprobe.corpus.links import read_linked_rows

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
    from attnprobe.corpus.open import open_anything
    from attnprobe.session.in_memory import open_table, read_pairs

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
        source = replace(open_table(pairs, wanted), name="pairs", described={"name": "pairs"})
    elif isinstance(pairs, Iterable):
        source = OpenSource(read_pairs(pairs, wanted), "pairs", {"name": "pairs"})
    else:
        raise UsageError(
            "Give pairs as the path of a file, a DataFrame, or dicts with clean, corrupted and answer, not "
            f"{type(pairs).__name__}."
        )
    return _rename(replace(source, documents=_require_pairs(source.documents, source.name)), options)


def _require_pairs(documents: "Iterable[Document]", name: str) -> "Iterator[Document]":
    from attnprobe.corpus.document import Contrast

    for document in documents:
        if not isinstance(document.label, Contrast):
            raise UsageError(
                f"{name} holds texts, not pairs of them; give a table (csv, tsv, jsonl, json, parquet, "
                "xlsx) with columns clean and corrupted."
            )
        yield document


def _is_table(texts: Any) -> bool:
    """Tell a DataFrame, a dict of columns or a dataset from its columns, whoever made it."""
    return isinstance(texts, Mapping) or hasattr(texts, "column_names") or hasattr(texts, "columns")


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
