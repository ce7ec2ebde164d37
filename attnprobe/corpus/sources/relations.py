"""Texts that belong together: pairs with a score, triplets, queries with passages; of a table or a folder."""

import hashlib
import math
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from attnprobe.corpus.sources.document import Document, Pair, Passage, Query, Triplet, find_gold
from attnprobe.corpus.sources.packing import PACKED, open_file
from attnprobe.corpus.sources.streams import explain_errors, shorten
from attnprobe.corpus.sources.tables import Row, Table, read_jsonl, read_tsv
from attnprobe.corpus.sources.text import OpenSource
from attnprobe.errors import AttnprobeError
from attnprobe.tasks import Gold

#: What a folder of queries and passages holds; each may be packed.
CORPUS, QUERIES, QRELS = "corpus.jsonl", "queries.jsonl", "qrels"
#: What names a query or a passage there.
_NAME = "_id"
#: Judgements that are read where none are named.
USUAL_SPLIT = "test"
#: No passage is more relevant.
MOST_RELEVANT = 1000
#: Columns of judgements.
_JUDGED = ("query-id", "corpus-id", "score")


def relate_rows(documents: Iterable[Document], gold: Gold) -> Iterator[Document]:
    """Read rows of a text, a text beside it and a label as what a task about several texts needs.

    Rows that lack one of them are left as they are; so are documents whose labels are such already.

    Args:
        documents: The rows. Of triplets, the label is the negative; of queries and passages, another passage
            that does not answer, where there is a label.
        gold: One of ``RELATIONS``.

    Yields:
        For pairs and triplets, a document a row; for passages each query once, with all of its passages, and
        then each passage once.
    """
    if gold is Gold.RELEVANCE:
        yield from _group_queries(documents)
        return
    for document in documents:
        label = document.label
        if document.pair is None or label is None or find_gold(label) is not Gold.CLASS:
            yield document
        elif gold is Gold.TRIPLETS:
            yield _replace(document, Triplet(document.pair, _read_negative(label)))
        else:
            assert isinstance(label, str | int | float)
            yield _replace(document, Pair(document.pair, label))


def _replace(document: Document, label: Pair | Triplet | Query) -> Document:
    """Give the text alone, with another label."""
    return Document(document.text, label=label, group=document.group, role=document.role)


def _read_negative(label: Any) -> str:
    if not isinstance(label, str):
        raise AttnprobeError(f"The negative {shorten(repr(label))} is no text; name its column.")
    return label


def _group_queries(documents: Iterable[Document]) -> Iterator[Document]:
    """Give the queries of rows, then their passages; texts go by the place of the first row they are in."""
    names: dict[str, str] = {}
    passages: dict[str, None] = {}
    queries: dict[str, tuple[Document, dict[str, int]]] = {}
    for document in documents:
        if document.pair is None or isinstance(document.label, Query | Passage):
            yield document
            continue
        found = [document.pair] if document.label is None else [document.pair, _read_negative(document.label)]
        for text in (document.text, *found):
            names.setdefault(text, f"{len(names):09d}")
        passages |= dict.fromkeys(found)
        queries.setdefault(document.text, (document, {}))[1][names[document.pair]] = 1
    for text, (document, judged) in queries.items():
        yield Document(
            text, label=Query(names[text], tuple(judged.items())), group=document.group, role="query"
        )
    for text in passages:
        yield Document(text, label=Passage(names[text]), role="document")


def is_benchmark(path: Path) -> bool:
    """Tell a folder of queries and passages, as BEIR lays it out."""
    return _find(path, CORPUS) is not None and _find(path, QUERIES) is not None


def open_benchmark(path: Path, split: str | None) -> OpenSource:
    """Open a folder of queries and passages, as BEIR and MTEB lay it out.

    It holds ``corpus.jsonl`` (``_id``, ``title``, ``text``), ``queries.jsonl`` (``_id``, ``text``) and
    ``qrels/SPLIT.tsv`` (``query-id``, ``corpus-id``, ``score``, under a line of these names). A passage is
    its title and its text, with a blank between them.

    Args:
        path: The folder.
        split: Which judgements; None takes ``test``, or the only ones.

    Raises:
        AttnprobeError: When a part is missing, or made otherwise.

    References:
        Thakur et al. (2021), BEIR: a heterogeneous benchmark for zero-shot evaluation of retrieval models.
    """
    qrels = _choose_qrels(path, split)
    files = [file for file in (_find(path, CORPUS), _find(path, QUERIES), qrels) if file is not None]
    digest, size = hashlib.sha256(), 0
    for file in files:
        with explain_errors(str(file)), file.open("rb") as stream:
            own = hashlib.file_digest(stream, "sha256")
        digest.update(own.digest())
        size += file.stat().st_size
    name = path.resolve().name
    described = {
        "name": name, "kind": "queries and passages", "sha256": digest.hexdigest(), "bytes": size,
        "split": qrels.name.split(".")[0],
    }  # fmt: skip
    return OpenSource(_read_benchmark(*files), name, described)


def _find(folder: Path, name: str) -> Path | None:
    possible = (folder / f"{name}{packing}" for packing in ("", *PACKED))
    return next((path for path in possible if path.is_file()), None)


def _choose_qrels(path: Path, split: str | None) -> Path:
    found = {
        file.name.split(".")[0]: file for file in sorted((path / QRELS).glob("*.tsv*")) if file.is_file()
    }
    if not found:
        raise AttnprobeError(
            f"{path} has no judgements {QRELS}/{USUAL_SPLIT}.tsv, so nothing says what is relevant."
        )
    wanted = split if split is not None else USUAL_SPLIT if len(found) > 1 else next(iter(found))
    if wanted not in found:
        listed = ", ".join(shorten(one) for one in list(found)[:8])
        raise AttnprobeError(
            f"{path} has no judgements {shorten(wanted)!r}; pass --split with one of {listed}."
        )
    return found[wanted]


def _read_benchmark(corpus: Path, queries: Path, qrels: Path) -> Iterator[Document]:
    judged = _read_judgements(qrels)
    for name, row, where in _read_items(queries):
        if name in judged and (text := _read_cell(row, "text", where)).strip():
            yield Document(text, label=Query(name, tuple(judged[name].items())), role="query")
    for name, row, where in _read_items(corpus):
        text = f"{_read_cell(row, 'title', where)} {_read_cell(row, 'text', where)}".strip()
        if text:
            yield Document(text, label=Passage(name), role="document")


def _read_judgements(path: Path) -> dict[str, dict[str, int]]:
    """Read how relevant passages are to queries."""
    found: dict[str, dict[str, int]] = {}
    with open_file(path, str(path)) as stream:
        table: Table = read_tsv(stream, str(path))
        if missing := [name for name in _JUDGED if name not in table.columns]:
            raise AttnprobeError(f"{path} has no column {missing[0]!r}; BEIR's has {', '.join(_JUDGED)}.")
        for row in table.rows:
            query, passage, score = (row.cells.get(name) for name in _JUDGED)
            if query is None or passage is None or score is None:
                continue  # a blank line
            found.setdefault(query, {})[passage] = _read_grade(score, f"{row.where} of {path}")
    return found


def _read_grade(cell: str, where: str) -> int:
    try:
        grade = float(cell)
    except ValueError:
        grade = math.nan
    if not (abs(grade) <= MOST_RELEVANT and grade.is_integer()):
        raise AttnprobeError(
            f"{where} has the score {shorten(repr(cell))}; scores are whole numbers up to {MOST_RELEVANT:,}."
        )
    return int(grade)


def _read_items(path: Path) -> Iterator[tuple[str, Row, str]]:
    """Read objects with their names and where they stand."""
    known: set[str] = set()
    with open_file(path, str(path)) as stream:
        for row in read_jsonl(stream, str(path)).rows:
            where, name = f"{row.where} of {path}", row.cells.get(_NAME)
            if not isinstance(name, str | int) or isinstance(name, bool):
                raise AttnprobeError(f"{where} has no _id, which is a string or a number.")
            if str(name) in known:
                raise AttnprobeError(f"{where} has the _id {shorten(repr(name))} of a line above.")
            known.add(str(name))
            yield str(name), row, where


def _read_cell(row: Row, name: str, where: str) -> str:
    cell = row.cells.get(name)
    if cell is None:
        return ""
    if not isinstance(cell, str):
        raise AttnprobeError(f"{where} has a {name} that is no text.")
    try:
        cell.encode()
    except UnicodeEncodeError:
        raise AttnprobeError(
            f"{where} has half a surrogate pair in {name}; write it again as UTF-8."
        ) from None
    return cell
