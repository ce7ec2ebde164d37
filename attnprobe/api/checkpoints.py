"""Several checkpoints that read the same texts, one after the other: what their commands have in common."""

import hashlib
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from attnprobe.commands.call.call import Call
from attnprobe.commands.call.texts import opened
from attnprobe.corpus.sources.sampling import select
from attnprobe.corpus.sources.text import STDIN, OpenSource, Source
from attnprobe.errors import AttnprobeError
from attnprobe.options import DEFAULTS, FREE, Batches, Hub, Reading, names_of
from attnprobe.run.again import Again
from attnprobe.run.finished import restored, written
from attnprobe.run.process_group import Ranks
from attnprobe.run.versions import made_with
from attnprobe.table.head_table import HeadTable

#: What the record of the whole table says for all.
_SAID = {"command", "created", "versions", "dataset"}


def named(models: Iterable[Any]) -> list[str]:
    """Give the names of checkpoints.

    Raises:
        AttnprobeError: When one is a loaded model, which could not be freed before the next.
    """
    found = list(models)
    if wrong := next((one for one in found if not isinstance(one, str | Path)), None):
        raise AttnprobeError(
            "Checkpoints are loaded one after the other; give folders or ids of the hub, not a loaded "
            f"{type(wrong).__name__}."
        )
    return [str(one) for one in found]


def settled(table: HeadTable) -> HeadTable:
    """Give a table as a state would give it back, without what the whole table says."""
    record = {name: said for name, said in table.provenance.items() if name not in _SAID}
    return restored(written(replace(table, provenance=record)))


def readable(
    texts: Any, labels: Any, options: Mapping[str, Any], *, find_labels: bool
) -> tuple[Any, OpenSource]:
    """Give texts that every checkpoint can read, and open them; what standard input gives is kept."""
    if isinstance(texts, OpenSource):
        return texts, texts
    named = options
    source = opened(
        texts, labels, named=named, label_column=options.get("label_column"), find_labels=find_labels
    )
    spec = texts.spec if isinstance(texts, Source) else texts
    if isinstance(spec, str) and spec == STDIN:
        source = replace(source, documents=Again(source.documents))
        return source, source
    return texts, source


def setting_of(
    question: Mapping[str, Any], sources: Sequence[OpenSource], files: Iterable[Any], call: Call
) -> dict[str, str]:
    """Say what the numbers of all checkpoints depend on, for a state.

    Args:
        question: The keywords.
        sources: What is read.
        files: Other files that are read.
        call: The keywords, sorted.
    """
    texts = names_of(Hub, Reading, Batches) | {"rank_texts"}
    asked = {name: one for name, one in question.items() if name not in {*FREE, *texts}}
    seed = call.corpus.seed  # of masks, directions and orders too; the usual one has no place in older states
    if seed != DEFAULTS["seed"] and call.corpus.sample is None:
        asked["seed"] = seed
    settings = {name: one for name, one in call.corpus.settings.items() if name not in FREE}
    settings["files"] = [_digest(Path(file)) for file in files if file]
    return {
        "dataset": json.dumps([_identified(source, call) for source in sources], default=str),
        "setting": json.dumps([asked, settings], sort_keys=True, default=str),
        "version of a package": json.dumps(made_with()["versions"]),
    }


def _identified(source: OpenSource, call: Call) -> Any:
    """Tell data from other data: by the SHA-256 of a file, or of what was given."""
    if source.kind != "text" or source.described.get("sha256") is not None:
        return [source.name, source.described]
    digest = hashlib.sha256()
    reading = call.corpus
    for document in select(source.documents, reading.limit, reading.sample, reading.seed):
        digest.update(repr(document).encode("utf-8", "surrogatepass"))
    return [source.name, source.described, digest.hexdigest()]


def _digest(file: Path) -> str:
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def first_here() -> bool:
    """Tell whether this process looks after the files of its machine."""
    return Ranks.found().size == 1 or os.environ.get("LOCAL_RANK", "0") == "0"
