"""Progress on standard error: a bar on a terminal, nothing but sentences elsewhere."""

import sys
from typing import TYPE_CHECKING

from attnprobe.errors import shorten
from attnprobe.wording import spell

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID


class TerminalProgress:
    """A line that names the stage, with a bar where the number of steps is known."""

    def __init__(self, *, bar: bool, quiet: bool) -> None:
        self._bar, self._quiet = bar, quiet
        self._shown: Progress | None = None
        self._task: TaskID | None = None

    def __enter__(self) -> "TerminalProgress":
        if self._bar:
            from rich.console import Console
            from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

            name = TextColumn("{task.description}")
            columns = (name, BarColumn(), TimeElapsedColumn(), TimeRemainingColumn())
            self._shown = Progress(*columns, console=Console(stderr=True), transient=True)
            self._shown.start()
            self.stage("starting", None)  # what is imported now takes seconds
        return self

    def __exit__(self, *_: object) -> None:
        if self._shown is not None:
            self._shown.stop()

    def stage(self, name: str, total: int | None) -> None:
        """Begin a stage of ``total`` steps, if known."""
        if self._shown is None:
            return
        if self._task is not None:
            self._shown.remove_task(self._task)
        self._task = self._shown.add_task(name, total=total)

    def advance(self, steps: int) -> None:
        if self._shown is not None and self._task is not None:
            self._shown.advance(self._task, steps)

    def say(self, sentence: str) -> None:
        if self._quiet:
            return
        sentence = shorten(spell(sentence))
        if self._shown is not None:
            self._shown.console.print(f"attnprobe: {sentence}", markup=False, highlight=False)
        else:
            print(f"attnprobe: {sentence}", file=sys.stderr)
