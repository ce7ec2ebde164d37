"""What goes on record as the command that made a table or a page."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar

_words: ContextVar[Sequence[str] | None] = ContextVar("attnprobe_command", default=None)


@contextmanager
def record_as(words: Sequence[str]) -> Iterator[None]:
    """Record these words as the command of the functions that are called inside."""
    token = _words.set(words)
    try:
        yield
    finally:
        _words.reset(token)


def describe_call(name: str) -> str | Sequence[str]:
    """Describe a call for the record: by the words of the command line, or the name of the function."""
    return _words.get() or f"attnprobe.{name}"
