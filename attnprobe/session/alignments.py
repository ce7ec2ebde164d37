"""Pairs of texts with word alignments, however a person has them: two files, one, a table, or lists."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from attnprobe.corpus.source import EMBEDDED, STDIN, GivenTexts, OpenSource
from attnprobe.errors import UsageError
from attnprobe.files import hash_file
from attnprobe.session.texts import check_standard_input, list_files, open_texts


def open_aligned(
    texts: GivenTexts,
    alignments: "str | Path | Iterable[str]",
    targets: "str | Path | Sequence[str] | None",
    options: Mapping[str, Any],
    *,
    one_based: bool,
) -> OpenSource:
    """Open pairs of texts (files, a table, a list) with an alignment for each (a file, a list)."""
    from attnprobe.corpus.alignments import align_documents, read_lines

    source = _open_parallel(texts, targets, options)
    if isinstance(alignments, str | Path):
        path = Path(alignments)
        files = [*source.described.get("sources", [source.described]), _describe_file(path)]
        source = replace(source, described={"name": source.name, "sources": files})
        name, lines = str(path), read_lines(path)
    else:
        name, lines = "alignments", alignments
    documents = align_documents(source.documents, lines, name, source.name, one_based=one_based)
    return replace(source, documents=documents)


def _open_parallel(texts: Any, targets: Any, options: Mapping[str, Any]) -> OpenSource:
    """Open pairs of texts from two files, a file of joined pairs, a table or lists."""
    from attnprobe.corpus.alignments import read_joined, read_parallel
    from attnprobe.corpus.rows import TABLES
    from attnprobe.corpus.streams import strip_packing

    files = list_files(texts)
    if files and all(isinstance(one, str | Path) for one in files) and not isinstance(targets, list | tuple):
        texts, *more = files
        if more:
            raise UsageError(
                "--alignments goes with one file of pairs; name the file of the second texts with --targets."
            )
    if texts is None or (isinstance(texts, str) and texts == EMBEDDED):
        raise UsageError("--alignments needs the texts that are aligned; name their file with --dataset.")
    check_standard_input(texts)
    columns = any(options[name] for name in ("text_column", "label_column", "text_pair_column"))
    path = Path(texts) if isinstance(texts, str | Path) and str(texts) != STDIN and not columns else None
    if isinstance(targets, str | Path):
        if path is None:
            raise UsageError(
                "--targets is a file of second texts, a line for each line of --dataset, which is a file of "
                "text then; leave it out where columns or pairs hold both."
            )
        described = {"name": path.name, "sources": [_describe_file(path), _describe_file(Path(targets))]}
        source = OpenSource(read_parallel(path, Path(targets)), path.name, described)
    elif path is not None and strip_packing(path).suffix.lower() not in TABLES:
        source = OpenSource(read_joined(path), path.name, _describe_file(path))
    else:
        source = open_texts(texts, options, targets)
    return source if options["name"] is None else replace(source, name=options["name"])


def _describe_file(path: Path) -> dict[str, Any]:
    from attnprobe.corpus.alignments import read_lines

    read_lines(path)  # which refuses what is none
    digest = hash_file(path) if path.is_file() else None
    return {"name": path.name, "sha256": digest, "bytes": path.stat().st_size}
