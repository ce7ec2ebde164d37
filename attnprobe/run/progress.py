"""Who is told how far a run is, and what is worth knowing."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from attnprobe.errors import AttnprobeWarning


class Progress(Protocol):
    """Who is told how far a run is: stages, of so many steps if known, and sentences worth knowing."""

    def stage(self, name: str, total: int | None) -> None: ...
    def advance(self, steps: int) -> None: ...
    def say(self, sentence: str) -> None: ...


class SilentProgress:
    """A progress that nobody watches."""

    def stage(self, name: str, total: int | None) -> None: ...
    def advance(self, steps: int) -> None: ...
    def say(self, sentence: str) -> None: ...


class WarningProgress(SilentProgress):
    """A progress for programs: what is worth knowing becomes an ``AttnprobeWarning``."""

    def say(self, sentence: str) -> None:
        warnings.warn(sentence, AttnprobeWarning, stacklevel=2)


class PartProgress:
    """Progress of a run in parts: stages have the name of their part, and each sentence is said once."""

    def __init__(self, whole: Progress) -> None:
        self._whole, self._part = whole, ""
        self._known: dict[str, None] = {}
        self._told = 0

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        """Name the part; sentences become warnings when it is done, since what runs inside catches them."""
        self._part = name
        try:
            yield
        finally:
            self._tell()

    def stage(self, name: str, total: int | None) -> None:
        self._whole.stage(f"{self._part}: {name}", total)

    def advance(self, steps: int) -> None:
        self._whole.advance(steps)

    def say(self, sentence: str) -> None:
        self._known[sentence] = None
        if not isinstance(self._whole, WarningProgress):
            self._tell()

    def _tell(self) -> None:
        new = list(self._known)[self._told :]
        self._told = len(self._known)
        for sentence in new:
            self._whole.say(sentence)
