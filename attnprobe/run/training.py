"""Which step of training a checkpoint is of, as its name says."""

import glob
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from attnprobe.errors import UsageError
from attnprobe.model.folders import DEMO

#: Words that stand before the number of a step, the surest first.
_WORDS = ("step", "checkpoint", "epoch")
_INSTEAD = "give the steps in the order of the checkpoints: --steps 0,500,1000"


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
    Without ``steps``, names say the step of each.
    """
    if revisions is not None:
        names = pair_revisions(models, revisions)
    else:
        if steps is not None and (pattern := next(filter(is_pattern, models), None)):
            raise UsageError(
                f"--steps says the step of each checkpoint in order, and {pattern} names them in no order; "
                "name them one by one."
            )
        names = [(name, None) for name in expand_patterns(models)]
    given = [revision or model for model, revision in names]
    if len(names) < 2:
        found = f"{given[0]} is one." if given else "none is named."
        raise UsageError(f"A training run has at least two checkpoints; {found}")
    numbers = read_steps(given) if steps is None else list(steps)
    if len(numbers) != len(names):
        raise UsageError(f"There are {len(names)} checkpoints, but {len(numbers)} --steps.")
    by_step: dict[int, SavedCheckpoint] = {}
    for saved in (SavedCheckpoint(step, *name) for step, name in zip(numbers, names, strict=True)):
        if (other := by_step.setdefault(saved.step, saved)) is not saved:
            raise UsageError(f"{other.name} and {saved.name} are both of step {saved.step}; {_INSTEAD}.")
    return [by_step[step] for step in sorted(by_step)]


def parse_revisions(revisions: "str | Iterable[str] | None", revision: str | None = None) -> list[str] | None:
    """Read the revisions that a user gives, as names or as ``step1000,step2000``."""
    if revisions is None:
        return None
    if revision is not None:
        raise UsageError("--revision is one of --revisions; leave it out.")
    if isinstance(revisions, str):
        return [name.strip() for name in revisions.split(",") if name.strip()]
    return [str(name) for name in revisions]


def pair_revisions(models: Sequence[Any], revisions: Iterable[str]) -> list[tuple[str, str]]:
    """Pair the one model there is with each revision."""
    if len(models) != 1 or not isinstance(models[0], str | Path):
        raise UsageError("--revisions are those of one MODEL; name one, or leave them out.")
    name = str(models[0])
    if name == DEMO or Path(name).is_dir():
        raise UsageError(f"{name} is a folder, which has no revisions; leave out --revisions.")
    return [(name, revision) for revision in revisions]


def expand_patterns(models: Iterable[str]) -> list[str]:
    """Replace each pattern by the folders that it matches, numbers in their order."""
    found: list[str] = []
    for model in models:
        if not is_pattern(model):
            found.append(model)
            continue
        every = glob.glob(str(Path(model).expanduser()))  # noqa: PTH207 - the whole path is a pattern
        matches = sorted((match for match in every if Path(match).is_dir()), key=_natural_key)
        if not matches:
            raise UsageError(f"No folder matches {model}.")
        found += matches
    return found


def read_steps(names: Sequence[str]) -> list[int]:
    """Read the step of each checkpoint from its name: a folder, an id of the hub, or a revision.

    The number behind ``step``, ``checkpoint`` or ``epoch`` counts.

    >>> read_steps(["run/checkpoint-500", "run/checkpoint-1000/", "step2000-tokens4B"])
    [500, 1000, 2000]
    >>> read_steps(["epoch-04", "epoch-10"])
    [4, 10]
    """
    found = [_read_step(name) for name in names]
    epochs = [name for name, (word, _) in zip(names, found, strict=True) if word == "epoch"]
    others = [name for name, (word, _) in zip(names, found, strict=True) if word != "epoch"]
    if epochs and others:
        raise UsageError(f"{epochs[0]} counts epochs and {others[0]} steps; {_INSTEAD}.")
    return [step for _, step in found]


def parse_steps(steps: "str | Iterable[int] | None") -> list[int] | None:
    """Read the steps that a user gives, as numbers or as ``0,500,1000``."""
    if steps is None:
        return None
    found: list[int] = []
    for one in steps.split(",") if isinstance(steps, str) else steps:
        step = one.strip() if isinstance(one, str) else one
        if isinstance(step, str) and re.fullmatch(r"\d{1,18}", step):
            step = int(step)
        if isinstance(step, bool) or not isinstance(step, int) or step < 0:
            raise UsageError(f"--steps must be whole numbers such as 0,500,1000, not {one!r}.")
        found.append(step)
    return found


def _read_step(name: str) -> tuple[str, int]:
    """Read the word before the number, and the number."""
    last = Path(name).resolve().name if Path(name).is_dir() else name.rstrip("/").rpartition("/")[2]
    for word in _WORDS:
        if numbers := re.findall(rf"(?<![a-z]){word}s?[-_=]?(\d{{1,18}})(?![.a-z0-9])", last, re.IGNORECASE):
            return word, int(numbers[-1])
    raise UsageError(f"The name {name} says no step of training; {_INSTEAD}.")


def _natural_key(name: str) -> list[tuple[int, str]]:
    """Sort names by the numbers in them.

    >>> sorted(["run/10", "run/9"], key=_natural_key)
    ['run/9', 'run/10']
    """
    return [(int(part), "") if part.isdecimal() else (0, part) for part in re.split(r"([0-9]+)", name)]


def is_pattern(name: str) -> bool:
    """Tell a pattern of folders from the name of one."""
    return glob.has_magic(name) and not Path(name).exists()
