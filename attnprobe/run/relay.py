"""Progress of a run that is a step of a longer one."""

from collections.abc import Iterator
from contextlib import contextmanager

from attnprobe.run.progress import Progress, Warned


class Relay:
    """Passes on how far a step is, and says each sentence once for all steps."""

    def __init__(self, told: Progress) -> None:
        """Speak to somebody for all steps."""
        self._told, self._prefix = told, ""
        self._said: set[str] = set()
        self._waiting: list[str] = []

    @contextmanager
    def at(self, prefix: str) -> Iterator[None]:
        """Name the step; what is said to a program becomes a warning when the step is done.

        Until then, the step's own function catches the warnings of those who know nothing of progress.
        """
        self._prefix = prefix
        try:
            yield
        finally:
            waiting, self._waiting = self._waiting, []
            for sentence in waiting:
                self._told.say(sentence)

    def stage(self, name: str, total: int | None) -> None:
        """Begin a stage of a step."""
        self._told.stage(f"{self._prefix}: {name}", total)

    def advance(self, steps: int) -> None:
        """Count."""
        self._told.advance(steps)

    def say(self, sentence: str) -> None:
        """Pass a sentence on, once."""
        if sentence in self._said:
            return
        self._said.add(sentence)
        if isinstance(self._told, Warned):
            self._waiting.append(sentence)
        else:
            self._told.say(sentence)
