"""Texts that belong together: pairs with a score, triplets, queries with passages; of a table or a folder."""

import hashlib
import math
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from attnprobe.corpus.formats import Row, find_tables
from attnprobe.corpus.sources.document import Document, Pair, Passage, Query, Triplet, find_gold
from attnprobe.corpus.sources.streams import (
    PACKED,
    check_unicode,
    explain_errors,
    open_file,
    shorten,
    strip_packing,
)
from attnprobe.corpus.sources.text import OpenSource, Source
from attnprobe.errors import DataError
from attnprobe.tasks import Gold

#: What a folder of queries and passages holds, as files that may be packed or folders of them.
CORPUS, QUERIES, QRELS = "corpus", "queries", "qrels"
#: Folders in which judgements lie, the usual one first.
_QRELS = (QRELS, "default", "data")
_KINDS = (".jsonl", ".tsv", ".parquet")
#: What names a query or a passage there.
_NAMES = ("_id", "id")
#: What the hub writes behind the split of a file.
_SHARD = re.compile(r"-\d+-of-\d+$")
#: Files of one part that are read.
_MOST_FILES = 1000
#: Judgements that are read where none are named.
USUAL_SPLIT = "test"
#: No passage is more relevant.
MOST_RELEVANT = 1000
#: Columns of judgements.
_JUDGED = ("query-id", "corpus-id", "score")


def relate_rows(documents: Iterable[Document], gold: Gold) -> Iterator[Document]:
    """Read rows of a text, a text beside it and a label as what a task about several texts needs.

    Rows that lack one of them are left as they are; so are documents whose labels are such already.

    ``documents``: the rows. Of triplets, the label is the negative; of queries and passages, another
    passage that does not answer, where there is a label.

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
        raise DataError(f"The negative {shorten(repr(label))} is no text; name its column.")
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
        _, judged = queries.setdefault(document.text, (document, {}))
        judged[names[document.pair]] = 1
    for text, (document, judged) in queries.items():
        label = Query(names[text], tuple(judged.items()))
        yield Document(text, label=label, group=document.group, role="query")
    for text in passages:
        yield Document(text, label=Passage(names[text]), role="document")


def is_benchmark(path: Path) -> bool:
    """Tell a folder of queries and passages, as BEIR lays it out, or MTEB on the hub."""
    return bool(path.is_dir() and _find(path, CORPUS) and _find(path, QUERIES))


def open_benchmark(path: Path, split: str | None) -> OpenSource:
    """Open a folder of queries and passages, as BEIR and MTEB lay it out.

    It holds ``corpus.jsonl`` (``_id``, ``title``, ``text``), ``queries.jsonl`` (``_id``, ``text``) and
    ``qrels/SPLIT.tsv`` (``query-id``, ``corpus-id``, ``score``, under a line of these names). A passage is
    its title and its text, with a blank between them. Each may be a folder of files, and of JSON lines or
    parquet, as on the hub, where judgements lie in ``qrels``, ``default`` or ``data``.

    ``split``: which judgements; None takes ``test``, or the only ones.

    References:
        Thakur et al. (2021), BEIR: a heterogeneous benchmark for zero-shot evaluation of retrieval models.
    """
    chosen, qrels = _choose_qrels(path, split)
    corpus, queries = _find(path, CORPUS), _find(path, QUERIES)
    digest, size = hashlib.sha256(), 0
    for file in (*corpus, *queries, *qrels):
        with explain_errors(str(file)), file.open("rb") as stream:
            own = hashlib.file_digest(stream, "sha256")
        digest.update(own.digest())
        size += file.stat().st_size
    name = path.resolve().name
    described = {
        "name": name, "kind": "queries and passages", "sha256": digest.hexdigest(), "bytes": size,
        "split": chosen,
    }  # fmt: skip
    return OpenSource(_read_benchmark(corpus, queries, qrels), name, described)


def _find(folder: Path, name: str) -> list[Path]:
    kinds = [kind for kind in _KINDS if kind != ".tsv" or name not in (CORPUS, QUERIES)]
    alone = (folder / f"{name}{kind}{packing}" for kind in kinds for packing in ("", *PACKED))
    if (found := next((path for path in alone if path.is_file()), None)) is not None:
        return [found]
    inside = sorted(path for path in (folder / name).glob("*") if _find_kind(path) in kinds)
    if len(inside) > _MOST_FILES:
        raise DataError(f"{folder / name} holds more than {_MOST_FILES:,} files; join them.")
    tables = [path for path in inside if _find_kind(path) == ".tsv"]  # the same is often there twice
    return [path for path in tables or inside if path.is_file()]


def _find_kind(path: Path) -> str:
    """Give the extension of a file that can be read, that of packing set aside; "" for others."""
    kind = strip_packing(path).suffix.lower()
    return kind if kind in _KINDS else ""


def _sort_by_split(files: Iterable[Path]) -> dict[str, list[Path]]:
    found: dict[str, list[Path]] = {}
    for file in files:
        found.setdefault(_SHARD.sub("", file.name.split(".")[0]), []).append(file)
    return found


def _choose_qrels(path: Path, split: str | None) -> tuple[str, list[Path]]:
    found = next((files for name in _QRELS if (files := _sort_by_split(_find(path, name)))), {})
    if not found:
        raise DataError(
            f"{path} has no judgements {QRELS}/{USUAL_SPLIT}.tsv, so nothing says what is relevant."
        )
    wanted = split if split is not None else USUAL_SPLIT if len(found) > 1 else next(iter(found))
    if wanted not in found:
        listed = ", ".join(shorten(one) for one in list(found)[:8])
        raise DataError(f"{path} has no judgements {shorten(wanted)!r}; pass --split with one of {listed}.")
    return wanted, found[wanted]


def _read_benchmark(
    corpus: Sequence[Path], queries: Sequence[Path], qrels: Sequence[Path]
) -> Iterator[Document]:
    judged = _read_judgements(qrels)
    for name, row, where in _read_items(queries):
        if name in judged and (text := _read_cell(row, "text", where)).strip():
            yield Document(text, label=Query(name, tuple(judged[name].items())), role="query")
    for name, row, where in _read_items(corpus):
        text = f"{_read_cell(row, 'title', where)} {_read_cell(row, 'text', where)}".strip()
        if text:
            yield Document(text, label=Passage(name), role="document")


def _read_rows(files: Iterable[Path], needed: Sequence[str] = ()) -> Iterator[tuple[Row, str]]:
    for path in files:
        with open_file(path, str(path)) as stream:
            table = find_tables()[_find_kind(path)].read(stream, Source(str(path)))
            if missing := [name for name in needed if name not in table.columns]:
                raise DataError(f"{path} has no column {missing[0]!r}; BEIR's has {', '.join(needed)}.")
            for row in table.rows:
                yield row, f"{row.where} of {path}"


def _read_judgements(files: Sequence[Path]) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = {}
    for row, where in _read_rows(files, _JUDGED):
        query, passage, score = (row.cells.get(name) for name in _JUDGED)
        if query is None or passage is None or score is None:
            continue  # a blank line
        found.setdefault(str(query), {})[str(passage)] = _read_grade(score, where)
    return found


def _read_grade(cell: Any, where: str) -> int:
    try:
        grade = float(cell)
    except (ValueError, TypeError, OverflowError):
        grade = math.nan
    if not (abs(grade) <= MOST_RELEVANT and grade.is_integer()):
        raise DataError(
            f"{where} has the score {shorten(repr(cell))}; scores are whole numbers up to {MOST_RELEVANT:,}."
        )
    return int(grade)


def _read_items(files: Sequence[Path]) -> Iterator[tuple[str, Row, str]]:
    known: set[str] = set()
    for row, where in _read_rows(files):
        name = next((row.cells[one] for one in _NAMES if row.cells.get(one) is not None), None)
        if not isinstance(name, str | int) or isinstance(name, bool):
            raise DataError(f"{where} has no _id, which is a string or a number.")
        if str(name) in known:
            raise DataError(f"{where} has the _id {shorten(repr(name))} of a line above.")
        known.add(str(name))
        yield str(name), row, where


def _read_cell(row: Row, name: str, where: str) -> str:
    cell = row.cells.get(name)
    if cell is None:
        return ""
    if not isinstance(cell, str):
        raise DataError(f"{where} has a {name} that is no text.")
    return check_unicode(cell, f"{where} ({name})")
