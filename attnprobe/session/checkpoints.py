"""The checkpoints of a training run: which they are, and a measure over each, one after the other.

Each is loaded, measured, kept and freed before the next one.
"""

import gc
import glob
import hashlib
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from attnprobe.corpus.document import Document
from attnprobe.corpus.order import select
from attnprobe.corpus.source import OpenSource
from attnprobe.errors import AttnprobeError, UsageError
from attnprobe.intervention.request import peek
from attnprobe.model.folders import DEMO
from attnprobe.options import FREE, TextOptions
from attnprobe.registry import split_names
from attnprobe.run.process_group import Ranks
from attnprobe.run.progress import PartProgress
from attnprobe.run.record import record_versions
from attnprobe.run.state import name_process_file, open_state
from attnprobe.session.session import Call
from attnprobe.table.formats.json import to_json
from attnprobe.table.table import Column, HeadTable
from attnprobe.tasks import RELATIONS

if TYPE_CHECKING:
    from attnprobe.model.locate import CheckpointFiles

#: Words that stand before the number of a step, the surest first.
_WORDS = ("step", "checkpoint", "epoch")
_INSTEAD = "give the steps in the order of the checkpoints: --steps 0,500,1000"
#: Measures a checkpoint, given its name, and keywords that are its own.
Measurer = Callable[[str, dict[str, Any]], HeadTable]
#: Refuses a table that can't stand beside the first, given the step and the table of both.
Check = Callable[[tuple[int, HeadTable], tuple[int, HeadTable]], None]
#: What the record of the whole table has once for all checkpoints.
_SHARED = {"command", "created", "versions", "dataset"}


@dataclass(frozen=True)
class SavedCheckpoint:
    """A checkpoint of a training run: a folder or an id of the hub, and its revision if it names one."""

    step: int
    model: str
    revision: str | None = None

    @property
    def name(self) -> str:
        return self.revision or self.model


def list_run(
    models: Sequence[str], revisions: Sequence[str] | None = None, steps: Sequence[int] | None = None
) -> list[SavedCheckpoint]:
    """List the checkpoints of a training run, in the order of training.

    ``models`` are folders, patterns of folders, or ids of the hub; or one model, with its ``revisions``.
    Without ``steps``, names say the step of each: the number behind ``step``, ``checkpoint`` or ``epoch``.
    """
    if revisions is not None:
        names = pair_revisions(models, revisions)
    else:
        if steps is not None and (pattern := next(filter(_is_pattern, models), None)):
            raise UsageError(
                f"--steps says the step of each checkpoint in order, and {pattern} names them in no order; "
                "name them one by one."
            )
        names = [(name, None) for model in models for name in _list_folders(model)]
    if len(names) < 2:
        listed = f"{names[0][1] or names[0][0]} is one." if names else "none is named."
        raise UsageError(f"A training run has at least two checkpoints; {listed}")
    numbers = read_steps([revision or model for model, revision in names]) if steps is None else list(steps)
    if len(numbers) != len(names):
        raise UsageError(f"There are {len(names)} checkpoints, but {len(numbers)} --steps.")
    by_step: dict[int, SavedCheckpoint] = {}
    for saved in (SavedCheckpoint(step, *name) for step, name in zip(numbers, names, strict=True)):
        if (other := by_step.setdefault(saved.step, saved)) is not saved:
            raise UsageError(f"{other.name} and {saved.name} are both of step {saved.step}; {_INSTEAD}.")
    return [by_step[step] for step in sorted(by_step)]


def list_models(models: Iterable[Any]) -> list[str]:
    """List the names of checkpoints; refuse a loaded model, which could not be freed before the next."""
    listed = list(models)
    if wrong := next((model for model in listed if not isinstance(model, str | Path)), None):
        raise UsageError(
            "Checkpoints are loaded one after the other; give folders or ids of the hub, not a loaded "
            f"{type(wrong).__name__}."
        )
    return [str(model) for model in listed]


def parse_revisions(revisions: str | Sequence[str] | None, revision: str | None = None) -> list[str] | None:
    """Read the revisions that a user gives, as names or as ``step1000,step2000``."""
    if revisions is not None and revision is not None:
        raise UsageError("--revision is one of --revisions; leave it out.")
    return split_names(revisions)


def pair_revisions(models: Sequence[Any], revisions: Iterable[str]) -> list[tuple[str, str]]:
    """Pair the one model there is with each revision."""
    if len(models) != 1 or not isinstance(models[0], str | Path):
        raise UsageError("--revisions are those of one MODEL; name one, or leave them out.")
    name = str(models[0])
    if name == DEMO or Path(name).is_dir():
        raise UsageError(f"{name} is a folder, which has no revisions; leave out --revisions.")
    return [(name, revision) for revision in revisions]


def _is_pattern(name: str) -> bool:
    return glob.has_magic(name) and not Path(name).exists()


def _list_folders(name: str) -> list[str]:
    """List the folders that a pattern matches; of another name, itself."""
    if not _is_pattern(name):
        return [name]
    every = glob.glob(str(Path(name).expanduser()))  # noqa: PTH207 - the whole path is a pattern
    matches = sorted(match for match in every if Path(match).is_dir())
    if not matches:
        raise UsageError(f"No folder matches {name}.")
    return matches


def parse_steps(steps: "str | Iterable[int] | None") -> list[int] | None:
    """Read the steps that a user gives, as numbers or as ``0,500,1000``."""
    if steps is None:
        return None
    listed = steps.split(",") if isinstance(steps, str) else list(steps)
    for step in listed:
        if isinstance(step, bool) or not re.fullmatch(r"\s*[0-9]{1,18}\s*", str(step)):
            raise UsageError(f"--steps must be whole numbers such as 0,500,1000, not {step!r}.")
    return [int(step) for step in listed]


def read_steps(names: Sequence[str]) -> list[int]:
    """Read the step of each checkpoint from its name: a folder, an id of the hub, or a revision.

    The number behind ``step``, ``checkpoint`` or ``epoch`` counts.

    >>> read_steps(["run/checkpoint-500", "run/checkpoint-1000/", "step2000-tokens4B"])
    [500, 1000, 2000]
    >>> read_steps(["epoch-04", "epoch-10"])
    [4, 10]
    """
    steps = [_read_step(name) for name in names]
    epochs = [word == "epoch" for word, _ in steps]
    if len(set(epochs)) > 1:
        counting, other = (names[epochs.index(of)] for of in (True, False))
        raise UsageError(f"{counting} counts epochs and {other} steps; {_INSTEAD}.")
    return [step for _, step in steps]


def _read_step(name: str) -> tuple[str, int]:
    """Read the word before the number, and the number."""
    last = Path(name).resolve().name if Path(name).is_dir() else name.rstrip("/").rpartition("/")[2]
    for word in _WORDS:
        if numbers := re.findall(rf"(?<![a-z]){word}s?[-_=]?(\d{{1,18}})(?![.a-z0-9])", last, re.IGNORECASE):
            return word, int(numbers[-1])
    raise UsageError(f"The name {name} says no step of training; {_INSTEAD}.")


# A measure over each of them


def measure_steps(
    run: Sequence[SavedCheckpoint],
    checkpoints: "Sequence[CheckpointFiles]",
    measure: Measurer,
    key: Mapping[str, str],
    call: Call,
    check: Check,
) -> list[HeadTable]:
    """Restore the tables of the steps that are done, and measure the others; ``key`` is for the state."""
    store = TableStore(call.resume, key)
    progress = PartProgress(call.progress)
    tables: list[HeadTable] = []
    resumed = call.resume is not None  # or nothing has to be told from anything
    identities = {
        saved.step: checkpoint.identity if resumed else ""
        for saved, checkpoint in zip(run, checkpoints, strict=True)
    }
    with store.state.save_on_exit():
        done = store.load(identities) if resumed else {}
        if done:
            steps = f"{len(done)} of {len(run)} steps are done ({', '.join(map(str, done))})"
            call.progress.say(f"going on from {call.resume}: {steps}.")
        for place, (saved, checkpoint) in enumerate(zip(run, checkpoints, strict=True), start=1):
            step, revision = saved.step, checkpoint.options.revision
            table, part = done.get(step), None
            if call.resume is not None:
                part = call.resume.with_name(f"{call.resume.name}.step{step}")
            try:
                if table is None:
                    keywords = {"progress": progress, "threads": None, "resume": part}
                    keywords |= {} if revision is None else {"revision": revision}
                    with progress.part(f"step {step} ({place} of {len(run)})"):
                        table = _round_trip(measure(checkpoint.name, keywords))
                if tables:
                    check((run[0].step, tables[0]), (step, table))
            except AttnprobeError as error:
                title = f"Step {step} ({saved.name})"
                error.args = (str(error) if title in str(error) else f"{title}: {error}",)
                raise
            if step not in done:
                store.keep(step, identities[step], table)
                gc.collect()  # before the next one is loaded; hooks may lead from a model back to itself
            if part is not None:  # what it kept on the way
                name_process_file(part).unlink(missing_ok=True)
            tables.append(table)
    return tables


class TableStore:
    """The tables of the steps that are done, each in a stage of the run's state."""

    def __init__(self, path: Path | None, key: Mapping[str, str]) -> None:
        """Load the state at ``path`` if there is one; ``key`` is what all tables depend on."""
        self.state = open_state(path, key)

    def load(self, identities: Mapping[int, str]) -> dict[int, HeadTable]:
        """Load the tables of the steps that are done in every process.

        ``identities`` holds for each step what tells its checkpoint from any other.
        """
        stages = {step: self.state.stage(*_name_stage(step, one)) for step, one in identities.items()}
        done = {step for step, stage in stages.items() if stage.done}
        with Ranks.detect().join() as processes:  # one may have been stopped before it wrote its own
            done = set.intersection(*processes.gather(done))
        return {step: decode_table(stages[step].arrays["table"].tobytes()) for step in sorted(done)}

    def keep(self, step: int, identity: str, table: HeadTable) -> None:
        content = np.frombuffer(encode_table(table), np.uint8)
        self.state.keep(*_name_stage(step, identity), 1, lambda: {"table": content})
        self.state.write()


def _name_stage(step: int, identity: str) -> tuple[str, dict[str, str]]:
    return f"step {step}", {f"checkpoint of step {step}": identity}


def encode_table(table: HeadTable) -> bytes:
    """Encode a table so that ``decode_table`` gives the same numbers, to the last bit."""
    content = {
        "title": table.title,
        "columns": [asdict(column) for column in table.columns],
        "data": {name: list(cells) for name, cells in table.data.items()},
        "notes": list(table.notes),
        "provenance": to_json(table.provenance),
    }
    return json.dumps(content).encode()


def decode_table(content: bytes) -> HeadTable:
    """Decode what ``encode_table`` gives."""
    about = json.loads(content)
    return HeadTable(**{**about, "columns": [Column(**column) for column in about["columns"]]})


def _round_trip(table: HeadTable) -> HeadTable:
    """Encode and decode a table as a state does, without what is on record once for all."""
    record = {name: entry for name, entry in table.provenance.items() if name not in _SHARED}
    return decode_table(encode_table(replace(table, provenance=record)))


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
    texts = {*TextOptions.__annotations__, "rank_texts"}
    options = {name: value for name, value in question.items() if name not in {*FREE, *texts}}
    options["seed"] = call.corpus.seed  # of masks, directions and orders too
    settings = {name: value for name, value in call.corpus.settings.items() if name not in FREE}
    settings["files"] = [hashlib.sha256(Path(file).read_bytes()).hexdigest() for file in files if file]
    return {
        "measure": measure,
        "dataset": json.dumps([_identify_source(source, call) for source in sources()], default=str),
        "setting": json.dumps([options, settings], sort_keys=True, default=str),
        "version of a package": json.dumps(record_versions()["versions"]),
    }


def _identify_source(source: OpenSource, call: Call) -> list[Any]:
    """Tell data from other data: by the SHA-256 of a file, or of what was given."""
    if source.kind != "text" or source.described.get("sha256") is not None:
        return [source.name, source.described]
    digest, reading = hashlib.sha256(), call.corpus
    kind, peeked = peek(source.documents)
    documents = cast("Iterable[Document]", peeked)  # it is text
    if kind not in RELATIONS:  # of which texts stay that no limit counts
        documents = select(documents, reading.limit, reading.sample, reading.seed)
    for document in documents:
        digest.update(repr(document).encode("utf-8", "surrogatepass"))
    return [source.name, source.described, digest.hexdigest()]
