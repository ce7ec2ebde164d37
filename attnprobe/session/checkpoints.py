"""The checkpoints of a training run: which they are, and a measure over each, one after the other."""

import gc
import glob
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attnprobe.errors import AttnprobeError, UsageError
from attnprobe.registry import split_names
from attnprobe.run.progress import PartProgress
from attnprobe.session.session import Call

if TYPE_CHECKING:
    from attnprobe.model.locate import CheckpointFiles
    from attnprobe.table.table import HeadTable

#: A step in a name, the surest word before it first.
_STEPS = [
    re.compile(rf"(?<![a-z])({word})s?[-_=]?(\d{{1,18}})(?![.a-z0-9])", re.IGNORECASE)
    for word in ("step", "checkpoint", "epoch")
]
_INSTEAD = "give the steps in the order of the checkpoints: --steps 0,500,1000"
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
    models: Iterable[Any],
    revisions: Sequence[str] | None = None,
    steps: "str | Iterable[int] | None" = None,
) -> list[SavedCheckpoint]:
    """List the checkpoints of a training run by ascending step, or refuse fewer than two or equal steps.

    ``models`` are folders, patterns of folders, or ids of the hub; or one model, with its ``revisions``.
    Without ``steps``, names say the step of each: the number behind ``step``, ``checkpoint`` or ``epoch``.
    """
    models, numbers = list(models), parse_steps(steps)
    if wrong := next((model for model in models if not isinstance(model, str | Path)), None):
        raise UsageError(
            "Checkpoints are loaded one after the other; give folders or ids of the hub, not a loaded "
            f"{type(wrong).__name__}."
        )
    if revisions is not None:
        names: list[tuple[str, str | None]] = [*pair_revisions(models, revisions)]
    else:
        if numbers is not None and (pattern := next((name for name in models if _is_pattern(name)), None)):
            raise UsageError(
                f"--steps says the step of each checkpoint in order, and {pattern} names them in no order; "
                "name them one by one."
            )
        names = [(name, None) for model in models for name in _list_folders(str(model))]
    if len(names) < 2:
        listed = f"{names[0][1] or names[0][0]} is one." if names else "none is named."
        raise UsageError(f"A training run has at least two checkpoints; {listed}")
    numbers = numbers or read_steps([revision or model for model, revision in names])
    if len(numbers) != len(names):
        raise UsageError(f"There are {len(names)} checkpoints, but {len(numbers)} --steps.")
    run = [SavedCheckpoint(step, *name) for step, name in zip(numbers, names, strict=True)]
    run.sort(key=lambda saved: saved.step)
    for first, second in pairwise(run):
        if first.step == second.step:
            raise UsageError(f"{first.name} and {second.name} are both of step {first.step}; {_INSTEAD}.")
    return run


def parse_revisions(revisions: str | Sequence[str] | None, revision: str | None = None) -> list[str] | None:
    """Read revisions, listed or as ``step1000,step2000``, or refuse them beside ``revision``."""
    if revisions is not None and revision is not None:
        raise UsageError("--revision is one of --revisions; leave it out.")
    return split_names(revisions)


def pair_revisions(models: Sequence[Any], revisions: Iterable[str]) -> list[tuple[str, str]]:
    """List the one model with each of its revisions, or refuse several models and a folder."""
    from attnprobe.model.folders import DEMO

    if len(models) != 1 or not isinstance(models[0], str | Path):
        raise UsageError("--revisions are those of one MODEL; name one, or leave them out.")
    name = str(models[0])
    if name == DEMO or Path(name).is_dir():
        raise UsageError(f"{name} is a folder, which has no revisions; leave out --revisions.")
    return [(name, revision) for revision in revisions]


def _is_pattern(name: str | Path) -> bool:
    return glob.has_magic(str(name)) and not Path(name).exists()


def _list_folders(name: str) -> list[str]:
    """List the folders that a pattern matches, sorted, or refuse none; of another name, itself."""
    if not _is_pattern(name):
        return [name]
    every = glob.glob(str(Path(name).expanduser()))  # noqa: PTH207 - the whole path is a pattern
    matches = sorted(match for match in every if Path(match).is_dir())
    if not matches:
        raise UsageError(f"No folder matches {name}.")
    return matches


def parse_steps(steps: "str | Iterable[int] | None") -> list[int] | None:
    """Read the steps that a user gives, as numbers or as ``0,500,1000``, or refuse them."""
    if steps is None:
        return None
    listed = steps.split(",") if isinstance(steps, str) else list(steps)
    for step in listed:
        if isinstance(step, bool) or not re.fullmatch(r"\s*[0-9]{1,18}\s*", str(step)):
            raise UsageError(f"--steps must be whole numbers such as 0,500,1000, not {step!r}.")
    return [int(step) for step in listed]


def read_steps(names: Sequence[str]) -> list[int]:
    """Read the step of each checkpoint from its name: a folder, an id of the hub, or a revision.

    The number behind ``step``, ``checkpoint`` or ``epoch`` counts; a name without one is refused.

    >>> read_steps(["run/checkpoint-500", "run/checkpoint-1000/", "step2000-tokens4B"])
    [500, 1000, 2000]
    """
    steps: list[tuple[bool, int]] = []
    for name in names:
        last = Path(name).resolve().name if Path(name).is_dir() else name.rstrip("/").rpartition("/")[2]
        matches = [match for pattern in _STEPS for match in pattern.findall(last)[-1:]]
        if not matches:
            raise UsageError(f"The name {name} says no step of training; {_INSTEAD}.")
        steps.append((matches[0][0].lower() == "epoch", int(matches[0][1])))
    if len({epochs for epochs, _ in steps}) > 1:
        raise UsageError(f"Some of the checkpoints count epochs, and others steps; {_INSTEAD}.")
    return [step for _, step in steps]


def measure_steps(
    run: Sequence[SavedCheckpoint],
    checkpoints: "Sequence[CheckpointFiles]",
    measure: "Callable[[str, dict[str, Any]], HeadTable]",
    call: Call,
    check: "Callable[[tuple[int, HeadTable], tuple[int, HeadTable]], None]",
) -> "list[HeadTable]":
    """Measure each checkpoint, given its name and keywords of its own; load none before the last is freed.

    With ``--resume STATE``, each keeps a state of its own, ``STATE.step500``. ``check`` refuses a table that
    can't stand beside the first, given the step and the table of both.
    """
    progress = PartProgress(call.progress)
    tables: list[HeadTable] = []
    for place, (saved, checkpoint) in enumerate(zip(run, checkpoints, strict=True), start=1):
        keywords: dict[str, Any] = {"progress": progress, "threads": None}
        if call.resume is not None:
            keywords["resume"] = call.resume.with_name(f"{call.resume.name}.step{saved.step}")
        if checkpoint.options.revision is not None:
            keywords["revision"] = checkpoint.options.revision
        try:
            progress.part = f"step {saved.step} ({place} of {len(run)})"
            table = replace(measure(checkpoint.name, keywords), below=None)  # which may hold a model
            record = {name: entry for name, entry in table.provenance.items() if name not in _SHARED}
            tables.append(replace(table, provenance=record))
            check((run[0].step, tables[0]), (saved.step, tables[-1]))
        except AttnprobeError as error:
            title = f"Step {saved.step} ({saved.name})"
            error.args = (str(error) if title in str(error) else f"{title}: {error}",)
            raise
        gc.collect()  # hooks may lead from a model back to itself
    return tables
