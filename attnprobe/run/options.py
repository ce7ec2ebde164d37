"""The options that decide what is read, checked before a model is loaded, and their record."""

import math
import platform
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from attnprobe.errors import UsageError

_PART = re.compile(r"\s*([0-9]{1,18})\s*/\s*([0-9]{1,18})\s*")
#: Options that are recorded only where they are given.
_RARE = {"queries", "part", "until"}
#: No array has more jobs.
MOST_PARTS = 1_000_000


def parse_until(given: "str | float | Mapping[str, float]") -> dict[str, float]:
    """Parse --until, or refuse it: a width for each named column, or one for all under the empty name.

    >>> parse_until("0.05"), parse_until("entropy=0.1,previous=.02")
    ({'': 0.05}, {'entropy': 0.1, 'previous': 0.02})
    """
    if isinstance(given, Mapping):
        pairs = [*given.items()]
    else:
        pairs = [part.rpartition("=")[::2] for part in str(given).split(",")]
    widths: dict[str, float] = {}
    with suppress(TypeError, ValueError):
        widths = {str(name).strip(): float(value) for name, value in pairs}
    named = len(widths) == len(pairs) and ("" not in widths or len(pairs) == 1)
    if not (widths and named and all(0 < width < math.inf for width in widths.values())):
        raise UsageError(
            "--until must be the half-width of the widest 95 % interval, above 0, such as 0.05, or one for "
            f"each column, such as entropy=0.1,previous=0.02; not {given!r}."
        )
    return widths


def parse_part(given: str) -> tuple[int, int]:
    """Parse --part, or refuse it: the number of the part, from 1 on, and the number of parts.

    >>> parse_part("3/100")
    (3, 100)
    """
    match = _PART.fullmatch(str(given))
    number, of = map(int, match.groups()) if match else (0, 0)
    if not 1 <= number <= of <= MOST_PARTS:
        raise UsageError(
            f"--part must be the number of a part, from 1, and how many there are, at most {MOST_PARTS:,}, "
            f"such as 3/100; not {given!r}."
        )
    return number, of


@dataclass(frozen=True)
class CorpusOptions:
    """How texts become sequences; each option is described in ``attnprobe.options``."""

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

    def __post_init__(self) -> None:
        if self.chosen_part and self.targets:
            raise UsageError(
                "--part reads its share of all documents, and --until as many as it takes; leave one out."
            )

    @cached_property
    def chosen_part(self) -> tuple[int, int] | None:
        """The number of the part that is read, and the number of parts; None for all documents."""
        return None if self.part is None else parse_part(self.part)

    @cached_property
    def targets(self) -> dict[str, float]:
        """The widths that --until asks for, by column; see ``parse_until``."""
        return {} if self.until is None else parse_until(self.until)

    @property
    def settings(self) -> dict[str, Any]:
        """The options for the record; the seed only where documents are drawn at random."""
        named = {name: value for name, value in asdict(self).items() if name != "seed"}
        named["until"] = self.targets or None
        named = {name: value for name, value in named.items() if value is not None or name not in _RARE}
        return named if self.sample is None and not self.targets else {**named, "sample_seed": self.seed}


def add_corpora(first: Mapping[str, Any], second: Mapping[str, Any]) -> dict[str, Any]:
    """Add up the records of two parts of a corpus: counts and digests; the rest is the first one's."""
    counts = {name: value + second[name] for name, value in first.items() if type(value) is int}
    lists = {"texts": [*first["texts"], *second["texts"]]}
    return {**first, **counts, **lists, "spelled_token": first["spelled_token"] or second["spelled_token"]}


#: The record of rare tokens where they were not counted over the whole corpus.
NOT_COUNTED = {"rare_types": 0, "rarity": "", "rare_decided": False}

_PACKAGES = ("attnprobe", "torch", "transformers", "numpy", "numba", "scipy")


def record_versions() -> dict[str, Any]:
    """Record the versions of the packages that compute, and the time."""
    return {"versions": dict(_versions()), "created": datetime.now(UTC).isoformat(timespec="seconds")}


@cache
def _versions() -> dict[str, str]:
    from importlib.metadata import version  # which slows the start

    return {"python": platform.python_version()} | {name: version(name) for name in _PACKAGES}
