"""Standard output: bytes as they are, and a reader that leaves early is no error."""

import contextlib
import os
import select
import stat
import sys
from collections.abc import Iterator
from pathlib import Path

from attnprobe.errors import AttnprobeError
from attnprobe.files import reason


def is_terminal() -> bool:
    """Tell whether a person reads along, rather than a pipe or a file."""
    return sys.stdout is not None and sys.stdout.isatty()


def write(content: bytes) -> None:
    """Write to standard output, as UTF-8 and with bare newlines whatever the platform would prefer.

    Raises AttnprobeError if it does not take all of it, such as on a full disk.
    """
    with ignore_closed_pipe():
        taken, error = _write_through(content)
        if error is not None:
            if taken:
                error.strerror = f"{reason(error)}; it holds the first {taken:,} of {len(content):,} bytes"
                error.errno = None
            raise error


def hand_over(content: bytes) -> int:
    """Write to standard output what is kept nowhere else; returns how many bytes arrived.

    Fewer than there are do where the disk is full, the reader has left, or nobody reads (``> /dev/null``,
    ``>&-``).
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
    """Write past all buffers; give how many bytes arrived, and what stopped them.

    An unbuffered stream takes a part and says so only in what ``write`` gives back; a full disk may show as
    late as in fsync.
    """
    sys.stdout.flush()
    buffer = getattr(sys.stdout, "buffer", None)
    if buffer is None:  # a stand-in made of text, as notebooks and tests use
        sys.stdout.write(content.decode())
        sys.stdout.flush()
        return len(content), None
    raw, rest, taken = getattr(buffer, "raw", buffer), memoryview(content), 0
    try:
        while taken < len(content):
            some = raw.write(rest[taken:])
            if some is None:  # a pipe that does not wait, and is full
                select.select([], [raw], [])
            taken += some or 0
        sys.stdout.flush()
        _sync()
    except OSError as error:
        return max(0, min(taken, len(content) - 1)), error
    return taken, None


def _sync() -> None:
    """Let a file on a full disk say so; pipes and terminals have nothing to say."""
    with contextlib.suppress(ValueError, AttributeError):
        descriptor = sys.stdout.fileno()
        if stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.fsync(descriptor)


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
    """Send standard output nowhere from here on.

    Whatever is printed later, or is still buffered when the interpreter shuts down, would fail again
    and print "Exception ignored". A stand-in for stdout has no file descriptor, and no such trouble.
    """
    with contextlib.suppress(OSError, ValueError, AttributeError):
        descriptor = sys.stdout.fileno()
        devnull = os.open(os.devnull, os.O_WRONLY)
        os.dup2(devnull, descriptor)
        os.close(devnull)
