"""Progress of a run over one of several checkpoints."""

from collections.abc import Iterator
from contextlib import contextmanager

from attnprobe.run.progress import Progress, Warned


class Relay:
    """Passes on how far a checkpoint is, and says each sentence once for all."""

    def __init__(self, told: Progress) -> None:
        """Pass on to somebody."""
        self._told, self._prefix = told, ""
        self._said: set[str] = set()
        self._waiting: list[str] = []

    @contextmanager
    def at(self, prefix: str) -> Iterator[None]:
        """Name the checkpoint; what is said to a program becomes a warning when it is done.

        Until then, the measure's own function catches the warnings of those who know nothing of progress.
        """
        self._prefix = prefix
        try:
            yield
        finally:
            waiting, self._waiting = self._waiting, []
            for sentence in waiting:
                self._told.say(sentence)

    def stage(self, name: str, total: int | None) -> None:
        """Begin a stage of a checkpoint."""
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
