"""Standard output, whose reader may leave early or whose disk may be full; progress on standard error."""

import contextlib
import os
import select
import stat
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from attnprobe.errors import AttnprobeError, shorten
from attnprobe.files import reason
from attnprobe.table.cells import clean

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID


def is_terminal() -> bool:
    """Tell whether standard output is a terminal, rather than a pipe or a file."""
    return sys.stdout is not None and sys.stdout.isatty()


def write(content: bytes) -> None:
    """Write to standard output; raises AttnprobeError if only a part arrives, such as on a full disk."""
    with ignore_closed_pipe():
        taken, error = _write_through(content)
        if error is not None:
            if taken:
                error.strerror = f"{reason(error)}; it holds the first {taken:,} of {len(content):,} bytes"
                error.errno = None
            raise error


def hand_over(content: bytes) -> int:
    """Write content that is kept nowhere else to standard output; returns how many bytes arrived.

    Not all arrive if the disk is full or nobody reads: ``> /dev/null``, ``>&-``, or a closed pipe.
    """
    if sys.stdout is None or _is_null_device():
        return 0
    try:
        taken, error = _write_through(content)
    except (OSError, ValueError):  # what was buffered before could not be written, or it is closed
        taken, error = 0, OSError()
    if error is not None:
        discard_the_rest()
    return taken


def _write_through(content: bytes) -> tuple[int, OSError | None]:
    """Write past all buffers; return how many bytes arrived, and what error stopped the others, if any."""
    sys.stdout.flush()
    buffer = getattr(sys.stdout, "buffer", None)
    if buffer is None:  # a stand-in made of text, as notebooks and tests use
        sys.stdout.write(content.decode())
        sys.stdout.flush()
        return len(content), None
    raw, rest, taken = getattr(buffer, "raw", buffer), memoryview(content), 0
    try:
        while taken < len(content):
            written = raw.write(rest[taken:])
            if written is None:  # a pipe that does not wait, and is full
                select.select([], [raw], [])
            taken += written or 0
        sys.stdout.flush()
        with contextlib.suppress(ValueError, AttributeError):  # a stand-in has no descriptor
            if stat.S_ISREG(os.fstat(sys.stdout.fileno()).st_mode):
                os.fsync(sys.stdout.fileno())
    except OSError as error:
        return max(0, min(taken, len(content) - 1)), error
    return taken, None


def _is_null_device() -> bool:
    with contextlib.suppress(OSError, ValueError, AttributeError):
        return os.path.samestat(os.fstat(sys.stdout.fileno()), Path(os.devnull).stat())
    return False


@contextlib.contextmanager
def ignore_closed_pipe() -> Iterator[None]:
    """End in silence when the reader has gone, as in ``attnprobe entropy demo | head -1``.

    Raises AttnprobeError if the output can't be written for another reason, such as a full disk.
    """
    try:
        yield
    except BrokenPipeError:
        discard_the_rest()
    except OSError as error:
        discard_the_rest()
        raise AttnprobeError(f"could not write to standard output: {reason(error)}") from error


def discard_the_rest() -> None:
    """Discard what is still buffered: at exit, Python would try again and print "Exception ignored"."""
    with contextlib.suppress(OSError, ValueError, AttributeError):  # a stand-in has no descriptor
        descriptor = sys.stdout.fileno()
        devnull = os.open(os.devnull, os.O_WRONLY)
        os.dup2(devnull, descriptor)
        os.close(devnull)


class TerminalProgress:
    """A line on a terminal that names the current stage, with a bar if the number of steps is known."""

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
        if self._shown is not None:
            if self._task is not None:
                self._shown.remove_task(self._task)
            self._task = self._shown.add_task(name, total=total)

    def advance(self, steps: int) -> None:
        if self._shown is not None and self._task is not None:
            self._shown.advance(self._task, steps)

    def say(self, sentence: str) -> None:
        if self._quiet:
            return
        sentence = clean(shorten(sentence))  # names of files and of groups are in it
        if self._shown is not None:
            self._shown.console.print(f"attnprobe: {sentence}", markup=False, highlight=False)
        else:
            print(f"attnprobe: {sentence}", file=sys.stderr)
