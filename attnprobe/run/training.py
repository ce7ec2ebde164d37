"""Which step of training a checkpoint is of, as its name says."""

import glob
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from attnprobe.errors import AttnprobeError
from attnprobe.model.folders import DEMO

#: Words that stand before a number which counts steps, the surest first.
_STEPS, _SAVED, _EPOCHS = "steps?|iter(?:ation)?s?|updates?", "checkpoints?|ckpts?", "epochs?"
_THOUSANDS = {"": 1, "k": 1_000, "m": 1_000_000, "b": 1_000_000_000}
_INSTEAD = "give the steps in the order of the checkpoints: --steps 0,500,1000"


@dataclass(frozen=True)
class Saved:
    """A checkpoint of a training run.

    Attributes:
        step: When it was saved.
        model: The folder or the id of the hub.
        revision: Which revision of it, or None for the usual one.
    """

    step: int
    model: str
    revision: str | None = None

    @property
    def said(self) -> str:
        """The name that the user gave."""
        return self.revision or self.model


def run_of(
    models: Sequence[str], revisions: Sequence[str] | None = None, steps: Sequence[int] | None = None
) -> list[Saved]:
    """List the checkpoints of a training run, in the order of training.

    Args:
        models: Folders, patterns of folders, ids of the hub.
        revisions: Of the one model there is; None where each model is a checkpoint.
        steps: The step of each; None where names say it.

    Raises:
        AttnprobeError: When there are less than two, a name says no step, or two say the same.
    """
    if revisions is not None:
        names = at_revisions(models, revisions)
    else:
        if steps is not None and (pattern := next(filter(is_pattern, models), None)):
            raise AttnprobeError(
                f"--steps says the step of each checkpoint in order, and {pattern} names them in no order; "
                "name them one by one."
            )
        names = [(name, None) for name in expanded(models)]
    said = [revision or model for model, revision in names]
    if len(names) < 2:
        found = f"{said[0]} is one.{_hint(said[0])}" if said else "none is named."
        raise AttnprobeError(f"A training run has at least two checkpoints; {found}")
    numbers = steps_of(said) if steps is None else list(steps)
    if len(numbers) != len(names):
        raise AttnprobeError(f"There are {len(names)} checkpoints, but {len(numbers)} --steps.")
    by_step: dict[int, str] = {}
    for step, name in zip(numbers, said, strict=True):
        if step in by_step:
            raise AttnprobeError(f"{by_step[step]} and {name} are both of step {step}; {_INSTEAD}.")
        by_step[step] = name
    run = [Saved(step, *name) for step, name in zip(numbers, names, strict=True)]
    return sorted(run, key=lambda one: one.step)


def parsed_revisions(
    revisions: "str | Iterable[str] | None", revision: str | None = None
) -> list[str] | None:
    """Read the revisions that a user gives, as names or as ``step1000,step2000``.

    Raises:
        AttnprobeError: When a single one is named beside them.
    """
    if revisions is None:
        return None
    if revision is not None:
        raise AttnprobeError("--revision is one of --revisions; leave it out.")
    if isinstance(revisions, str):
        return [name.strip() for name in revisions.split(",") if name.strip()]
    return [str(name) for name in revisions]


def at_revisions(models: Sequence[Any], revisions: Iterable[str]) -> list[tuple[str, str]]:
    """Name the revisions of the one model there is.

    Raises:
        AttnprobeError: When there are several models, or it is none of the hub.
    """
    if len(models) != 1 or not isinstance(models[0], str | Path):
        raise AttnprobeError("--revisions are those of one MODEL; name one, or leave them out.")
    name = str(models[0])
    if name == DEMO or Path(name).is_dir():
        raise AttnprobeError(f"{name} is a folder, which has no revisions; leave out --revisions.")
    return [(name, revision) for revision in revisions]


def expanded(models: Iterable[str]) -> list[str]:
    """Put the folders that it matches in the place of each pattern, numbers in their order.

    Raises:
        AttnprobeError: When a pattern matches no folder.
    """
    found: list[str] = []
    for model in models:
        if not is_pattern(model):
            found.append(model)
            continue
        every = glob.glob(str(Path(model).expanduser()))  # noqa: PTH207 - the whole path is a pattern
        matches = sorted((match for match in every if Path(match).is_dir()), key=_natural)
        if not matches:
            raise AttnprobeError(f"No folder matches {model}.")
        found += matches
    return found


def steps_of(names: Sequence[str]) -> list[int]:
    """Read the step of each checkpoint from its name.

    The number behind a word such as step, checkpoint or epoch counts; without such a word, the last number.

    Args:
        names: Folders, ids of the hub, or revisions.

    Raises:
        AttnprobeError: When a name says no step, or some count epochs and others steps.

    >>> steps_of(["run/checkpoint-500", "run/checkpoint-1000/", "step20k-tokens4B", "seed_0-step_2000k"])
    [500, 1000, 20000, 2000000]
    >>> steps_of(["epoch-04", "epoch-10"])
    [4, 10]
    """
    found = [_step_of(name) for name in names]
    epochs = [name for name, (word, _) in zip(names, found, strict=True) if word == _EPOCHS]
    others = [name for name, (word, _) in zip(names, found, strict=True) if word in {_STEPS, _SAVED}]
    if epochs and others:
        raise AttnprobeError(f"{epochs[0]} counts epochs and {others[0]} steps; {_INSTEAD}.")
    return [step for _, step in found]


def parsed_steps(steps: "str | Iterable[int] | None") -> list[int] | None:
    """Read the steps that a user gives, as numbers or as ``0,500,1000``.

    Raises:
        AttnprobeError: When one is no whole number from 0 up.
    """
    if steps is None:
        return None
    given = steps.split(",") if isinstance(steps, str) else list(steps)
    found: list[int] = []
    for one in given:
        step = one.strip() if isinstance(one, str) else one
        if isinstance(step, str) and re.fullmatch(r"\d{1,18}", step):
            step = int(step)
        if isinstance(step, bool) or not isinstance(step, int) or step < 0:
            raise AttnprobeError(f"--steps must be whole numbers such as 0,500,1000, not {one!r}.")
        found.append(step)
    return found


def _step_of(name: str) -> tuple[str, int]:
    """Give the word before the number, and the number."""
    last = Path(name).resolve().name if Path(name).is_dir() else name.rstrip("/").rpartition("/")[2]
    for word in (_STEPS, _SAVED, _EPOCHS):
        pattern = rf"(?<![a-z])(?:global[-_]?)?(?:{word})[-_=. ]*(\d+(?:\.\d+)?)([kmb]?)(?![a-z0-9])"
        if marked := re.findall(pattern, last, re.IGNORECASE):
            return word, _whole(name, *marked[-1])
    if numbers := re.findall(r"(\d+(?:\.\d+)?)(k?)(?![a-z0-9])", last, re.IGNORECASE):
        return "", _whole(name, *numbers[-1])
    raise AttnprobeError(f"The name {name} says no step of training; {_INSTEAD}.{_hint(name)}")


def _whole(name: str, number: str, thousands: str) -> int:
    if len(number) > 18:
        raise AttnprobeError(f"The number in {name} is too large for a step; {_INSTEAD}.")
    step = float(number) * _THOUSANDS[thousands.lower()]
    if not step.is_integer():
        raise AttnprobeError(f"{name} does not name a whole step; {_INSTEAD}.")
    return int(number) * _THOUSANDS[thousands.lower()] if number.isdecimal() else int(step)


def _natural(name: str) -> list[tuple[int, str]]:
    """Sort names by the numbers in them.

    >>> sorted(["run/10", "run/9"], key=_natural)
    ['run/9', 'run/10']
    """
    return [(int(part), "") if part.isdecimal() else (0, part) for part in re.split(r"([0-9]+)", name)]


def is_pattern(name: str) -> bool:
    """Tell a pattern of folders from the name of one."""
    return glob.has_magic(name) and not Path(name).exists()


def _hint(name: str) -> str:
    """Name the checkpoints inside a folder, as a trainer leaves them."""
    folder = Path(name)
    kept = "config.json", "adapter_config.json"
    inside = sorted(
        one.name for one in folder.glob("*[0-9]*/") if any((one / file).is_file() for file in kept)
    )
    if not inside:
        return ""
    return f" It holds {inside[0]}: give '{folder / re.sub(r'[0-9]+', '*', inside[0])}'."
