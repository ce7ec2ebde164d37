"""Texts, gold links and pairs, however a user names or a program holds them, opened as one source."""

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attnprobe.corpus.source import EMBEDDED, FILE, STDIN, GivenTexts, OpenSource, Source
from attnprobe.errors import UsageError
from attnprobe.run.process_group import Ranks
from attnprobe.tasks import OBJECTIVES, RELATIONS

if TYPE_CHECKING:
    from attnprobe.corpus.document import Document
    from attnprobe.run.options import CorpusOptions

#: Fields of a source, and the keywords that set them.
_KEYWORDS = {
    "text_column": "text_column",
    "pair_column": "text_pair_column",
    "label_column": "label_column",
    "document_column": "document_column",
    "group_column": "by_group",
    "image_column": "image_column",
    "split": "split",
    "config": "dataset_config",
}
#: Kinds of gold links, and what an error says of a source that holds none.
NO_LINKS = {
    "treebank": "it holds no dependencies; give CoNLL-U whose words have heads",
    "coreference": "it holds no mention with an antecedent and another one to choose from",
    "links": "it holds no links",
}


def open_texts(
    texts: GivenTexts,
    options: Mapping[str, Any],
    labels: Iterable[Any] | None = None,
    *,
    find_labels: bool = False,
    **wanted: Any,
) -> OpenSource:
    """Open texts, with labels for each of those that come one by one.

    ``options`` are the keywords that name columns, a split, and what the ``dataset`` column says. With
    ``find_labels``, a column of a usual name has the labels where none is named. ``wanted`` are further
    fields of a ``Source``.
    """
    if isinstance(texts, OpenSource):
        return texts
    from attnprobe.corpus.open import open_anything
    from attnprobe.corpus.retrieval import relate_rows
    from attnprobe.session.in_memory import open_rows, open_table, read_documents

    named = texts is None or isinstance(texts, str | Path)
    source = texts if isinstance(texts, Source) else Source(str(texts) if named and texts else EMBEDDED)
    wanted |= {field: options[name] for field, name in _KEYWORDS.items() if options.get(name) is not None}
    wanted |= {"header": False} if options.get("no_header") else {}
    objective = OBJECTIVES.get(options.get("objective") or "") if find_labels else None
    if objective is not None:
        wanted["usual"] = objective.columns
    source = replace(source, find_labels=find_labels or source.find_labels, **wanted)
    table = isinstance(texts, Mapping) or any(hasattr(texts, name) for name in ("column_names", "columns"))
    if labels is not None and (named or table or source is texts):
        raise UsageError("labels go with a list of texts; of a file or a table, name label_column.")
    if named or isinstance(texts, Source):
        opened = open_anything(source)
    elif table:
        opened = open_table(texts, source)
    elif source.contrasts:
        opened = open_rows(texts, source)
    else:
        for keyword in _KEYWORDS.values():
            if options.get(keyword) is not None:
                raise UsageError(f"Texts that are given one by one have no columns; leave out {keyword}.")
        opened = OpenSource(read_documents(texts, labels), "texts", {"name": "texts"})
    if objective is not None and objective.relation and opened.kind == "text":
        opened = replace(opened, documents=relate_rows(opened.documents, objective.relation))
    name = options.get("name")
    return opened if name is None else replace(opened, name=name)


def list_files(texts: Any) -> list[Any]:
    """List files that are named alone or in a list."""
    return list(texts) if isinstance(texts, list | tuple) else [texts]


def check_standard_input(*texts: Any) -> None:
    """Refuse standard input that is named more than once, or that several processes would share.

    A list holds texts, and names nothing; of several files, give each.
    """
    piped = sum(isinstance(name, str) and name == STDIN for name in texts)
    if piped > 1:
        raise UsageError("Standard input can be read once only; name a file in the other places.")
    if piped and Ranks.detect().size > 1:
        raise UsageError("Standard input can be read by one process only; give a file to several.")


def open_gold(texts: Any, kind: str, options: Mapping[str, Any]) -> OpenSource:
    """Open files with gold links of a kind of ``NO_LINKS``, or documents that have some.

    ``texts`` are the path of a file, several of them, a ``Source``, or documents; None is what ships inside
    the package.
    """
    from attnprobe.corpus.links import read_linked_rows
    from attnprobe.corpus.open import join_sources

    texts = EMBEDDED if texts is None else texts
    files = list_files(texts) or [texts]
    if all(isinstance(one, str | Path | Source) for one in files):
        check_standard_input(*files)
        group = options.get("by_group") if len(files) > 1 else None
        if group == FILE:
            options = {**options, "by_group": None}
        mentions = kind == "coreference"
        wanted: dict[str, Any] = {"annotated": not mentions, "coreference": mentions}
        return join_sources([open_texts(one, options, **wanted) for one in files], group)
    name = options.get("name") or "texts"
    return OpenSource(read_linked_rows(texts, options.get("by_group")), name, {"name": name})


def open_pairs(pairs: Any, options: Mapping[str, Any], other: str | None) -> OpenSource:
    """Open pairs of a clean and a corrupted text: a file, a hub dataset, dicts or a table; refuse others."""
    check_standard_input(pairs)
    source = open_texts(pairs, options, other_column=other, contrasts=True)
    if source.kind != "text":
        raise UsageError(f"{source.name} holds {source.kind}; patch reads pairs of texts from a table.")
    described = {**source.described, "other_column": other}
    return replace(source, documents=_require_pairs(source.documents, source.name), described=described)


def _require_pairs(documents: "Iterable[Document]", name: str) -> "Iterator[Document]":
    from attnprobe.corpus.document import Contrast

    for document in documents:
        if not isinstance(document.label, Contrast):
            raise UsageError(
                f"{name} holds texts, not pairs of them; give a table (csv, tsv, jsonl, json, parquet) "
                "with columns clean and corrupted."
            )
        yield document


def replay(items: Any) -> Any:
    """Keep what an iterator gives in a list, so that it can be read again; give anything else back."""
    return list(items) if isinstance(items, Iterator) else items


def open_to_replay(
    texts: Any, options: Mapping[str, Any], labels: Any = None, *, find_labels: bool = False
) -> tuple[Any, OpenSource]:
    """Open texts; return first what can be opened again in their place, then the source."""
    source = open_texts(texts, options, labels, find_labels=find_labels)
    spec = getattr(texts, "spec", texts)
    if isinstance(spec, str) and spec == STDIN:
        source = replace(source, documents=list(source.documents))
        return source, source
    return texts, source


def identify_source(source: OpenSource, reading: "CorpusOptions") -> list[Any]:
    """Identify data by name and SHA-256: that of the file, or of the documents where there is no file."""
    from attnprobe.corpus.store import select
    from attnprobe.intervention.request import peek

    if source.kind != "text" or source.described.get("sha256") is not None:
        return [source.name, source.described]
    digest = hashlib.sha256()
    kind, every = peek(source.documents)
    documents: Any = every
    if kind not in RELATIONS:  # of which texts stay that no limit counts
        documents = select(every, reading.limit, reading.sample, reading.seed)
    for document in documents:
        digest.update(repr(document).encode("utf-8", "surrogatepass"))
    return [source.name, source.described, digest.hexdigest()]
