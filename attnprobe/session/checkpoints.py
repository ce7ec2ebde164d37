"""Several checkpoints over the same texts: each is loaded, measured, kept and freed before the next one."""

import gc
import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from attnprobe.corpus.document import Document
from attnprobe.corpus.order import select
from attnprobe.corpus.source import OpenSource
from attnprobe.errors import AttnprobeError, UsageError
from attnprobe.intervention.request import peek
from attnprobe.options import DEFAULTS, FREE, TextOptions
from attnprobe.registry import list_names
from attnprobe.run.progress import PartProgress
from attnprobe.run.record import record_versions
from attnprobe.run.state import TableStore, decode_table, encode_table
from attnprobe.run.training import SavedCheckpoint
from attnprobe.session.session import (
    Call,
)
from attnprobe.table.table import HeadTable
from attnprobe.tasks import RELATIONS

if TYPE_CHECKING:
    from attnprobe.model.locate import CheckpointFiles

#: Measures a checkpoint, given its name, texts, labels and keywords.
Measurer = Callable[[str, Any, Any, dict[str, Any]], HeadTable]
#: Refuses a table that can't stand beside the first, given the checkpoints and the tables of both.
Check = Callable[["Member", HeadTable, "Member", HeadTable], None]
#: What the record of the whole table has once for all checkpoints.
_SHARED = {"command", "created", "versions", "dataset"}


@dataclass(frozen=True)
class Member:
    """A checkpoint of a series."""

    number: int
    checkpoint: "CheckpointFiles"
    name: str
    title: str


class Series:
    """Checkpoints that are loaded one after the other."""

    def __init__(self, models: Sequence[tuple[str, str | None]], call: Call) -> None:
        """Look at the checkpoints: of each its name, and its revision if it has one of its own."""
        from attnprobe.model.locate import find_checkpoints

        call.progress.stage("looking at the checkpoints", None)
        self._call = call
        self.checkpoints = find_checkpoints(models, call.load)

    def measure(
        self,
        measure: Measurer,
        texts: Any,
        labels: Any,
        options: Mapping[str, Any],
        key: Mapping[str, str],
        *,
        steps: Sequence[SavedCheckpoint],
        check: Check | None = None,
    ) -> list[HeadTable]:
        """Restore the tables of the checkpoints that are done, and measure the others."""
        call, resumed = self._call, self._call.resume is not None
        members = [
            Member(one.step, checkpoint, f"step {one.step}", f"Step {one.step} ({one.name})")
            for one, checkpoint in zip(steps, self.checkpoints, strict=True)
        ]
        store = TableStore(call.resume, key, "step")
        progress = PartProgress(call.progress)
        found: list[HeadTable] = []
        with store.save_on_exit():
            identities = {one.number: one.checkpoint.identity if resumed else "" for one in members}
            done = store.load(identities)
            if done:
                those = f"{len(done)} of {len(members)} {store.noun}s are done"
                call.progress.say(f"going on from {call.resume}: {those} ({', '.join(map(str, done))}).")
            for place, one in enumerate(members, start=1):
                table, revision = done.get(one.number), one.checkpoint.options.revision
                try:
                    if table is None:
                        own = {"progress": progress, "threads": None, "resume": store.part_file(one.number)}
                        own |= {} if revision is None else {"revision": revision}
                        with progress.part(f"{one.name} ({place} of {len(members)})"):
                            table = _round_trip(
                                measure(one.checkpoint.name, texts, labels, {**options, **own})
                            )
                    if found and check is not None:
                        check(members[0], found[0], one, table)
                except AttnprobeError as error:
                    raise _explain_failure(error, one) from error
                if one.number in done:
                    store.tidy(one.number)
                else:
                    store.keep(one.number, identities[one.number], table)
                    gc.collect()  # before the next one is loaded; hooks may lead from a model back to itself
                found.append(table)
        return found


def _round_trip(table: HeadTable) -> HeadTable:
    """Encode and decode a table as a state does, without what is on record once for all."""
    record = {name: one for name, one in table.provenance.items() if name not in _SHARED}
    return decode_table(encode_table(replace(table, provenance=record)))


def _explain_failure(error: AttnprobeError, member: Member) -> AttnprobeError:
    """Name the checkpoint that failed."""
    text = str(error) if member.title in str(error) else f"{member.title}: {error}"
    raised = AttnprobeError(f"{text.rstrip('.')}.")
    raised.exit_code = error.exit_code
    return raised


# How they are told apart in a state


def make_state_key(
    measure: str,
    question: Mapping[str, Any],
    sources: Callable[[], Sequence[OpenSource]],
    files: Iterable[Any],
    call: Call,
) -> dict[str, str]:
    """List what the numbers of all checkpoints depend on, for a state.

    ``question`` are the keywords, ``sources`` opens the data, and ``files`` are what else is read.
    """
    texts = {*list_names(TextOptions), "rank_texts"}
    asked = {name: one for name, one in question.items() if name not in {*FREE, *texts}}
    seed = call.corpus.seed  # of masks, directions and orders too; the usual one has no place in older states
    if seed != DEFAULTS["seed"] and call.corpus.sample is None:
        asked["seed"] = seed
    settings = {name: one for name, one in call.corpus.settings.items() if name not in FREE}
    settings["files"] = [hashlib.sha256(Path(file).read_bytes()).hexdigest() for file in files if file]
    return {
        "measure": measure,
        "dataset": json.dumps([_identify_source(source, call) for source in sources()], default=str),
        "setting": json.dumps([asked, settings], sort_keys=True, default=str),
        "version of a package": json.dumps(record_versions()["versions"]),
    }


def _identify_source(source: OpenSource, call: Call) -> list[Any]:
    """Tell data from other data: by the SHA-256 of a file, or of what was given."""
    if source.kind != "text" or source.described.get("sha256") is not None:
        return [source.name, source.described]
    digest, reading = hashlib.sha256(), call.corpus
    kind, found = peek(source.documents)
    documents = cast("Iterable[Document]", found)  # it is text
    if kind not in RELATIONS:  # of which texts stay that no limit counts
        documents = select(documents, reading.limit, reading.sample, reading.seed)
    for document in documents:
        digest.update(repr(document).encode("utf-8", "surrogatepass"))
    return [source.name, source.described, digest.hexdigest()]


def list_checkpoints(models: Iterable[Any]) -> list[str]:
    """List the names of checkpoints; refuse a loaded model, which could not be freed before the next."""
    found = list(models)
    if wrong := next((one for one in found if not isinstance(one, str | Path)), None):
        raise UsageError(
            "Checkpoints are loaded one after the other; give folders or ids of the hub, not a loaded "
            f"{type(wrong).__name__}."
        )
    return [str(one) for one in found]
