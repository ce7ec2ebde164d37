"""Related texts of a table or a folder: pairs with a score, triplets, queries with passages."""

import hashlib
import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from attnprobe.corpus.cells import Row, read_text
from attnprobe.corpus.document import Document, Pair, Query, Triplet
from attnprobe.corpus.rows import TABLES
from attnprobe.corpus.schema import require
from attnprobe.corpus.source import OpenSource, Source
from attnprobe.corpus.streams import PACKED, explain_errors, hash_stream, open_file, shorten, strip_packing
from attnprobe.errors import DataError
from attnprobe.tasks import Gold

_JUDGED = ("query-id", "corpus-id", "score")
#: The largest grade of relevance.
MOST_RELEVANT = 1000


def relate_rows(documents: Iterable[Document], gold: Gold) -> Iterator[Document]:
    """Turn rows of two texts and a label into the documents of a task about several texts.

    The label of triplets is the negative, and that of queries and passages a further passage that does not
    answer, if any. Incomplete rows stay as they are. Queries come first, each once with all of its passages,
    and then each passage once.
    """
    if gold is Gold.RELEVANCE:
        yield from _group_queries(documents)
        return
    for document in documents:
        label, pair = document.label, document.pair
        if pair is not None and isinstance(label, str | int | float):
            triplets = gold is Gold.TRIPLETS
            label = Triplet(pair, _read_negative(label)) if triplets else Pair(pair, label)
            document = Document(document.text, label=label, part_of=document.part_of, role=document.role)  # noqa: PLW2901
        yield document


def _read_negative(label: Any) -> str:
    if not isinstance(label, str):
        raise DataError(f"The negative {shorten(repr(label))} is no text; name its column.")
    return label


def _group_queries(documents: Iterable[Document]) -> Iterator[Document]:
    """Give each query of rows once, then each passage; texts are named by the order in which they come."""
    names: dict[str, str] = {}
    passages: dict[str, None] = {}
    queries: dict[str, tuple[Document, dict[str, int]]] = {}
    for document in documents:
        if document.pair is None or isinstance(document.label, Query):
            yield document
            continue
        read = [document.pair] if document.label is None else [document.pair, _read_negative(document.label)]
        for text in (document.text, *read):
            names.setdefault(text, f"{len(names):09d}")
        passages |= dict.fromkeys(read)
        _, judged = queries.setdefault(document.text, (document, {}))
        judged[names[document.pair]] = 1
    for text, (document, judged) in queries.items():
        label = Query(names[text], tuple(judged.items()))
        yield Document(text, label=label, part_of=document.part_of, role="query")
    for text in passages:
        yield Document(text, label=Query(names[text]), role="document")


def find_benchmark(folder: Path) -> list[Path]:
    """Find the files of passages and queries of a folder, packed or not; none unless it has both."""
    files = list[Path]()
    for name in ("corpus", "queries"):
        paths = (folder / f"{name}.jsonl{packing}" for packing in ("", *PACKED))
        files += [path for path in paths if path.is_file()][:1]
    return files if len(files) == 2 else []


def open_benchmark(path: Path, split: str | None) -> OpenSource:
    """Open a folder of queries and passages, as BEIR lays it out.

    It holds ``corpus.jsonl`` (``_id``, ``title``, ``text``), ``queries.jsonl`` (``_id``, ``text``) and
    ``qrels/SPLIT.tsv`` (``query-id``, ``corpus-id``, ``score``). A passage is its title, a blank and its
    text. Without a ``split``, judgements are ``test``, or the only ones.

    References:
        Thakur et al. (2021), BEIR: a heterogeneous benchmark for zero-shot evaluation of retrieval models.
    """
    judged = {file.name.split(".")[0]: file for file in sorted((path / "qrels").glob("*.tsv*"))}
    if not judged:
        raise DataError(f"{path} has no qrels/test.tsv that says what is relevant.")
    wanted = split if split is not None else next(iter(judged)) if len(judged) == 1 else "test"
    if wanted not in judged:
        listed = ", ".join(map(shorten, judged))
        raise DataError(f"{path} has no judgements {shorten(wanted)!r}; pass --split with one of {listed}.")
    corpus, queries = find_benchmark(path)
    digest, size = hashlib.sha256(), 0
    for file in (corpus, queries, judged[wanted]):
        with explain_errors(str(file)), file.open("rb") as stream:
            inner = hashlib.sha256()
            size += hash_stream(stream, inner)
            digest.update(inner.digest())
    name = path.resolve().name
    described = {"name": name, "kind": "queries and passages", "split": wanted}
    described |= {"sha256": digest.hexdigest(), "bytes": size}
    return OpenSource(_read_benchmark(corpus, queries, judged[wanted]), name, described)


def _read_benchmark(corpus: Path, queries: Path, qrels: Path) -> Iterator[Document]:
    judged: dict[str, dict[str, int]] = {}
    for row in _read_rows(qrels, _JUDGED):
        judgement: list[Any] = [row.cells.get(name) for name in _JUDGED]
        query, passage, score = judgement
        if None in (query, passage, score):  # a blank line
            continue
        grade = math.nan
        with suppress(ValueError, TypeError, OverflowError):
            grade = float(score)
        if not (abs(grade) <= MOST_RELEVANT and grade.is_integer()):
            allowed = f"scores are whole numbers up to {MOST_RELEVANT:,}"
            raise DataError(f"{row.where} has the score {shorten(repr(score))}; {allowed}.")
        judged.setdefault(str(query), {})[str(passage)] = int(grade)
    for name, row in _read_items(queries):
        if name in judged and (text := read_text(row, "text", None)):
            yield Document(text, label=Query(name, tuple(judged[name].items())), role="query")
    for name, row in _read_items(corpus):
        title, text = (read_text(row, column, None) or "" for column in ("title", "text"))
        if text := f"{title} {text}".strip():
            yield Document(text, label=Query(name), role="document")


def _read_rows(path: Path, needed: Sequence[str] = ()) -> Iterator[Row]:
    with open_file(path, str(path)) as stream:
        table = TABLES[strip_packing(path).suffix](stream, Source(str(path)))
        for column in needed:
            require(column, table.columns, table.name)
        yield from table.rows


def _read_items(path: Path) -> Iterator[tuple[str, Row]]:
    """Read names and rows of a file of queries or passages; a missing or repeated name is refused."""
    known: set[str] = set()
    for row in _read_rows(path):
        name = row.cells.get("_id", row.cells.get("id"))
        if not isinstance(name, str | int) or isinstance(name, bool):
            raise DataError(f"{row.where} has no _id, which is a string or a number.")
        if str(name) in known:
            raise DataError(f"{row.where} has the _id {shorten(repr(name))} of a line above.")
        known.add(str(name))
        yield str(name), row
