"""Standard output: bytes as they are, and a reader that leaves early is no error."""

import contextlib
import os
import sys
from collections.abc import Iterator

from attnprobe.errors import AttnprobeError
from attnprobe.files import reason


def is_terminal() -> bool:
    """Tell whether a person reads along, rather than a pipe or a file."""
    return sys.stdout is not None and sys.stdout.isatty()


def write(content: bytes) -> None:
    """Write to standard output, as UTF-8 and with bare newlines whatever the platform would prefer."""
    with closed_pipe_is_quiet():
        sys.stdout.flush()
        if hasattr(sys.stdout, "buffer"):
            sys.stdout.buffer.write(content)
        else:  # a stand-in made of text, as notebooks and tests use
            sys.stdout.write(content.decode())
        sys.stdout.flush()


@contextlib.contextmanager
def closed_pipe_is_quiet() -> Iterator[None]:
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
