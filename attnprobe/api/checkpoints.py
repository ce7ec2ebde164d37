"""Several checkpoints that read the same texts, one after the other: what their commands have in common."""

import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from attnprobe.api.calls import Call
from attnprobe.api.keywords import TextKeywords, given
from attnprobe.api.texts import opened
from attnprobe.corpus.sources.text import STDIN, OpenSource, Source
from attnprobe.errors import AttnprobeError
from attnprobe.run.finished import restored, written
from attnprobe.run.progress import Progress, Warned
from attnprobe.run.ranks import Ranks
from attnprobe.run.versions import made_with
from attnprobe.table.head_table import HeadTable

#: What the numbers do not depend on, or the checkpoint and the data say.
_FREE = {"token", "cache_dir", "offline", "threads", "workers", "progress", "resume", "memory", "revision"}
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
    named = given(options, TextKeywords)
    source = opened(
        texts, labels, named=named, label_column=options.get("label_column"), find_labels=find_labels
    )
    spec = texts.spec if isinstance(texts, Source) else texts
    if isinstance(spec, str) and spec == STDIN:
        source = replace(source, documents=Again(source.documents))
        return source, source
    return texts, source


class Again:
    """Items that can be read once, kept as they are read, so that they can be read again."""

    def __init__(self, items: Iterable[Any]) -> None:
        """Begin to read them."""
        self._rest = iter(items)
        self._kept: list[Any] = []

    def __iter__(self) -> Iterator[Any]:
        """Give what was kept, and then what is left."""
        place = 0
        while True:
            while place < len(self._kept):
                yield self._kept[place]
                place += 1
            try:
                self._kept.append(next(self._rest))
            except StopIteration:
                return


def again(items: Any) -> Any:
    """Keep what an iterator gives."""
    return Again(items) if isinstance(items, Iterator) else items


class Relay:
    """Passes on how far a checkpoint is, and says each sentence once for all."""

    def __init__(self, told: Progress) -> None:
        """Pass on to somebody."""
        self._told, self._prefix = told, ""
        self._said: set[str] = set()
        self._waiting: list[str] = []

    @contextmanager
    def at(self, prefix: str) -> Iterator[None]:
        """Name the checkpoint; what is said to a program becomes a warning when it is done.

        Until then, the measure's own function catches the warnings of those who know nothing of progress.
        """
        self._prefix = prefix
        try:
            yield
        finally:
            waiting, self._waiting = self._waiting, []
            for sentence in waiting:
                self._told.say(sentence)

    def stage(self, name: str, total: int | None) -> None:
        """Begin a stage of a checkpoint."""
        self._told.stage(f"{self._prefix}: {name}", total)

    def advance(self, steps: int) -> None:
        """Count."""
        self._told.advance(steps)

    def say(self, sentence: str) -> None:
        """Pass a sentence on, once."""
        if sentence in self._said:
            return
        self._said.add(sentence)
        if isinstance(self._told, Warned):
            self._waiting.append(sentence)
        else:
            self._told.say(sentence)


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
    texts = set(TextKeywords.__annotations__) | {"rank_texts"}
    asked = {name: one for name, one in question.items() if name not in {*_FREE, *texts}}
    settings = {name: one for name, one in asdict(call.corpus).items() if name not in _FREE}
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
    for place, document in enumerate(source.documents):
        if place == call.corpus.limit:
            break
        digest.update(repr(document).encode("utf-8", "surrogatepass"))
    return [source.name, source.described, digest.hexdigest()]


def _digest(file: Path) -> str:
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def first_here() -> bool:
    """Tell whether this process looks after the files of its machine."""
    return Ranks.found().size == 1 or os.environ.get("LOCAL_RANK", "0") == "0"
