"""What goes on record as the command: the function that was called, or the words of a command line."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar

_words: ContextVar[Sequence[str] | None] = ContextVar("attnprobe_command", default=None)


@contextmanager
def recorded_as(words: Sequence[str]) -> Iterator[None]:
    """Let functions called inside record a command line."""
    token = _words.set(words)
    try:
        yield
    finally:
        _words.reset(token)


def command(name: str) -> str | Sequence[str]:
    """Give what goes on record for a function."""
    return _words.get() or f"attnprobe.{name}"
