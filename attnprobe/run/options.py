"""How text becomes sequences, as far as it can be refused before a model is loaded."""

import math
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from attnprobe.errors import UsageError

_PART = re.compile(r"\s*([0-9]{1,18})\s*/\s*([0-9]{1,18})\s*")
#: No array has more jobs.
MOST_PARTS = 1_000_000


def parse_until(said: "str | float | Mapping[str, float]") -> dict[str, float]:
    """Read how precise columns are to be: a width for each by its name, or one for all, under no name.

    >>> parse_until("0.05"), parse_until("entropy=0.1,previous=.02")
    ({'': 0.05}, {'entropy': 0.1, 'previous': 0.02})
    """
    named = True
    if isinstance(said, Mapping):
        pairs = [(str(name).strip(), value) for name, value in said.items()]
    elif isinstance(said, str) and "=" in said:
        parts = [part.partition("=") for part in said.split(",") if part.strip()]
        pairs = [(name.strip(), value.strip()) for name, _, value in parts]
    else:
        pairs, named = [("", said)], False
    found: dict[str, float] = {}
    for name, value in pairs:
        number = _read_width(value)
        if number is None or (named and not name):
            raise UsageError(
                "--until must be the half-width of the widest 95 % interval, such as 0.05, or one for each "
                f"column, such as entropy=0.1,previous=0.02; not {said!r}."
            )
        if not 0 < number < math.inf:
            raise UsageError(
                f"--until must be above 0, not {value}: it is how far off a number may be, in its own unit."
            )
        if name in found:
            raise UsageError(f"--until names {name} twice; name it once.")
        found[name] = number
    if not found:
        raise UsageError("--until names no column; give a number such as 0.05, or entropy=0.1.")
    return found


def parse_part(said: str) -> tuple[int, int]:
    """Read which part of how many is read; parts are counted from 1.

    >>> parse_part("3/100")
    (3, 100)
    """
    found = _PART.fullmatch(str(said))
    if found is None:
        raise UsageError(
            f"--part must be the number of a part and how many there are, such as 3/100, not {said!r}."
        )
    number, of = map(int, found.groups())
    if not of:
        raise UsageError(f"--part needs at least one part, not {said!r}; give 1/1 for all documents.")
    if not number:
        raise UsageError(f"--part counts from 1, so there is no {said!r}: the first part is 1/{of}.")
    if of > MOST_PARTS:
        raise UsageError(f"--part takes at most {MOST_PARTS:,} parts, not {of:,}.")
    if number > of:
        raise UsageError(f"--part names part {number}, but there are {of}; the last is {of}/{of}.")
    return number, of


def _read_width(value: Any) -> float | None:
    if isinstance(value, bool):
        return None
    try:
        return float(value)
    except (TypeError, ValueError):
        return None


@dataclass(frozen=True)
class CorpusOptions:
    """How text becomes sequences: options of the command line, described in ``attnprobe.options``."""

    max_length: int | None = None
    truncate: bool = False
    limit: int | None = None
    sample: int | None = None
    seed: int = 42
    content_only: bool = False
    frequencies: Path | None = None
    batch_tokens: int | None = None
    queries: str | None = None
    until: "str | float | Mapping[str, float] | None" = None
    part: str | None = None

    @cached_property
    def turn(self) -> tuple[int, int] | None:
        """Which part of the documents is read, and of how many; None for all of them."""
        return None if self.part is None else parse_part(self.part)

    @cached_property
    def targets(self) -> dict[str, float]:
        """How precise columns are to be, by their names; under no name, all of them. Nothing if not asked."""
        return {} if self.until is None else parse_until(self.until)

    @property
    def settings(self) -> dict[str, Any]:
        """The options that decide what is read; the seed does only where documents are drawn."""
        named = asdict(self)
        seed = named.pop("seed")
        for name in ("queries", "part"):
            if named[name] is None:
                named.pop(name)
        if self.until is None:
            named.pop("until")
            return named if self.sample is None else {**named, "sample_seed": seed}
        return {**named, "until": self.targets, "sample_seed": seed}

    def __post_init__(self) -> None:
        for option in ("max_length", "limit", "sample", "batch_tokens"):
            value = getattr(self, option)
            if value is not None and value < 1:
                raise UsageError(f"--{option.replace('_', '-')} must be at least 1, not {value}.")
        if self.seed < 0:
            raise UsageError(f"--seed must be at least 0, not {self.seed}.")
        if self.turn and self.targets:
            raise UsageError(
                "--part reads its share of all documents, and --until as many as it takes; leave one out."
            )
