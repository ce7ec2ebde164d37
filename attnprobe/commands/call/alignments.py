"""Pairs of texts with word alignments, however a person has them: two files, one, a table, or lists."""

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from attnprobe.corpus.alignments import (
    align_documents,
    list_lines,
    open_lines,
    read_joined,
    read_parallel,
)
from attnprobe.corpus.document import Document
from attnprobe.corpus.rows import TABLES
from attnprobe.corpus.source import EMBEDDED, STDIN, OpenSource
from attnprobe.corpus.streams import strip_packing
from attnprobe.errors import UsageError
from attnprobe.session.texts import Texts, check_standard_input, open_texts

#: What errors call alignments, or pairs, that a program holds.
_ALIGNMENTS, _PAIRS = "alignments", "texts"


def open_aligned(
    texts: Texts,
    alignments: "str | Path | Iterable[str]",
    targets: "str | Path | Sequence[str] | None",
    options: Mapping[str, Any],
    *,
    one_based: bool,
) -> OpenSource:
    """Open pairs of texts (files, a table, a list) with an alignment for each (a file, a list)."""
    listed = targets is not None and not isinstance(targets, str | Path)
    texts = texts if listed else _take_one(texts)
    source = _open_pairs(texts, targets, options)
    path = alignments if isinstance(alignments, str | Path) else None
    name = _ALIGNMENTS if path is None else str(path)
    lines = list_lines(alignments) if path is None else _read_lines(Path(path))
    documents = align_documents(source.documents, lines, name, source.name, one_based=one_based)
    described = source.described
    if path is not None:
        files = described.get("sources", [described])
        described = {"name": source.name, "sources": [*files, _describe_file(Path(path))]}
    return replace(source, documents=documents, described=described)


def _take_one(texts: Any) -> Any:
    files: list[Any] = list(texts) if isinstance(texts, list | tuple) else [texts]
    if files and all(isinstance(one, str | Path) for one in files):
        if len(files) > 1:
            raise UsageError(
                "--alignments goes with one file of pairs; name the file of the second texts with --targets."
            )
        texts = files[0]
    if texts is None or texts == EMBEDDED:
        raise UsageError("--alignments needs the texts that are aligned; name their file with --dataset.")
    check_standard_input(texts)
    return texts


def _open_pairs(texts: Any, targets: Any, options: Mapping[str, Any]) -> OpenSource:
    columns = [name for name in ("text_column", "label_column", "text_pair_column") if options.get(name)]
    spec = str(texts) if isinstance(texts, str | Path) else None
    path = None if spec in (None, STDIN) else Path(spec)
    if targets is not None and (columns or path is None) and isinstance(targets, str | Path):
        raise UsageError(
            "--targets is a file of second texts, a line for each line of --dataset, which is a file of text "
            "then; leave it out where columns or pairs hold both."
        )
    plain = path is not None and _is_there(path) and strip_packing(path).suffix.lower() not in TABLES
    if isinstance(targets, str | Path):
        assert path is not None
        other = Path(targets)
        files = [_describe_file(path), _describe_file(other)]
        found = OpenSource(read_parallel(path, other), path.name, {"name": path.name, "sources": files})
    elif plain and path is not None and not columns:
        found = OpenSource(read_joined(path), path.name, _describe_file(path))
    else:
        found = open_texts(texts, targets, named=options, label_column=options.get("label_column"))
        if found.kind != "text":
            raise UsageError(f"{found.name} holds {found.kind}; alignments are between words of text.")
    name = options.get("name")
    return found if name is None else replace(found, name=name)


def _is_there(path: Path) -> bool:
    try:
        return path.is_file()
    except (OSError, ValueError):  # a name too long, or with a NUL in it
        return False


def _read_lines(path: Path) -> Iterator[str]:
    with open_lines(path) as lines:
        yield from lines


def _describe_file(path: Path) -> dict[str, Any]:
    with open_lines(path):  # which refuses what is none
        pass
    with path.open("rb") as stream:
        digest = hashlib.file_digest(stream, "sha256").hexdigest() if path.is_file() else None
    return {"name": path.name, "sha256": digest, "bytes": path.stat().st_size}


def check_pairs(documents: Iterable[Document]) -> Iterator[Document]:
    """Refuse a text that stands alone, as alignments are between two."""
    for document in documents:
        if document.pair is None and not isinstance(document.label, str):
            raise UsageError(
                f"The text {document.text[:60]!r} stands alone, and --metric aer is about alignments of two "
                "texts; give each a target that a decoder reads, or a text_pair."
            )
        yield document
