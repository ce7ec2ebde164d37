"""Who is told how far a run is, and what is worth knowing."""

import warnings
from typing import Protocol

from attnprobe.errors import AttnprobeWarning
from attnprobe.wording import spoken


class Progress(Protocol):
    """Who is told how far a run is."""

    def stage(self, name: str, total: int | None) -> None:
        """Begin a stage of ``total`` steps, if known."""
        ...

    def advance(self, steps: int) -> None:
        """Count steps of the current stage."""
        ...

    def say(self, sentence: str) -> None:
        """Tell the user something worth knowing."""
        ...


class Silent:
    """A progress that nobody watches."""

    def stage(self, name: str, total: int | None) -> None:
        """Ignore."""

    def advance(self, steps: int) -> None:
        """Ignore."""

    def say(self, sentence: str) -> None:
        """Ignore."""


class Warned(Silent):
    """A progress for programs: what is worth knowing becomes a warning of a class of its own."""

    def say(self, sentence: str) -> None:
        """Warn."""
        warnings.warn(spoken(sentence), AttnprobeWarning, stacklevel=2)
