"""How text becomes sequences, as far as it can be refused before a model is loaded."""

import re
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from attnprobe.errors import AttnprobeError

_SIZE = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?|\.[0-9]+)\s*([kmgt])(i?)b\s*", re.IGNORECASE)


def parse_size(text: str) -> int:
    """Parse a size with its unit, in bytes.

    >>> parse_size("1.5GiB"), parse_size("2 MB")
    (1610612736, 2000000)
    """
    size = 0
    if found := _SIZE.fullmatch(text):
        number, unit, binary = found.groups()
        size = int(float(number) * (1024 if binary else 1000) ** (1 + "kmgt".index(unit.lower())))
    if not size:
        raise AttnprobeError(f"--memory must be a size with its unit, such as 256MiB or 2GB, not {text!r}.")
    return size


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
    memory: str | None = None
    queries: str | None = None

    @property
    def settings(self) -> dict[str, Any]:
        """The options that decide what is read; the seed does only where a sample is drawn."""
        named = asdict(self)
        seed = named.pop("seed")
        if self.queries is None:
            named.pop("queries")
        return named if self.sample is None else {**named, "sample_seed": seed}

    def __post_init__(self) -> None:
        for option in ("max_length", "limit", "sample", "batch_tokens"):
            value = getattr(self, option)
            if value is not None and value < 1:
                raise AttnprobeError(f"--{option.replace('_', '-')} must be at least 1, not {value}.")
        if self.seed < 0:
            raise AttnprobeError(f"--seed must be at least 0, not {self.seed}.")
        if self.memory is not None:
            parse_size(self.memory)
