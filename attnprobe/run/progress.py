"""Progress of a run: who is told how far it is, and what a user should know."""

import warnings
from typing import Protocol

from attnprobe.errors import AttnprobeWarning


class Progress(Protocol):
    """Is told of stages, with their number of steps if known, of steps, and of sentences for the user."""

    def stage(self, name: str, total: int | None) -> None: ...
    def advance(self, steps: int) -> None: ...
    def say(self, sentence: str) -> None: ...


class SilentProgress:
    """A progress that nobody watches."""

    def stage(self, name: str, total: int | None) -> None: ...
    def advance(self, steps: int) -> None: ...
    def say(self, sentence: str) -> None: ...


class WarningProgress(SilentProgress):
    """A progress for programs: sentences become an ``AttnprobeWarning``."""

    def say(self, sentence: str) -> None:
        warnings.warn(sentence, AttnprobeWarning, stacklevel=2)


class PartProgress(SilentProgress):
    """Progress of a run in parts: stages have the name of their part, and each sentence is said once."""

    def __init__(self, whole: Progress) -> None:
        self._whole, self._known = whole, set[str]()
        self.part = ""

    def stage(self, name: str, total: int | None) -> None:
        self._whole.stage(f"{self.part}: {name}", total)

    def advance(self, steps: int) -> None:
        self._whole.advance(steps)

    def say(self, sentence: str) -> None:
        if sentence not in self._known:
            self._known.add(sentence)
            self._whole.say(sentence)
