"""The errors and the warning that attnprobe raises. Each carries one plain sentence."""

from typing import Any

#: What allocators say who have no exception of their own, in lower case.
_OF_ALLOCATORS = (
    "defaultcpuallocator",
    "cublas_status_alloc_failed",
    "cudnn_status_alloc_failed",
    "out of memory",
)

#: Letters of the longest sentence, and how much is kept of its beginning and its end.
_MOST, _BEGIN, _END = 2000, 1000, 500


def shorten(sentence: str) -> str:
    """Cut a sentence that fills a screen, by a name or by a list, in its middle.

    >>> len(shorten(f"There is no file {'a' * 90_000}."))
    1526
    """
    left = len(sentence) - _BEGIN - _END
    if len(sentence) <= _MOST:
        return sentence
    return f"{sentence[:_BEGIN]} ... ({left:,} letters) ... {sentence[-_END:]}"


class AttnprobeError(Exception):
    """The request can't be served: one sentence on what is wrong and what to do. Exit code 2.

    Attributes:
        table: What was measured before the failure: a table, or several by name; None for nothing.
    """

    exit_code = 2
    table: Any = None

    def __init__(self, sentence: str = "") -> None:
        super().__init__(shorten(str(sentence)))


class UsageError(AttnprobeError):
    """Options that don't go together, a value that none can have, or a name of nothing."""


class DataError(AttnprobeError):
    """A text, a label, a table or a state that can't be read."""


class NothingToMeasureError(DataError):
    """None of some documents gives anything to measure."""


class ModelError(AttnprobeError):
    """A checkpoint whose files are there, but can't be used."""


class AttnprobeWarning(UserWarning):
    """A note: a text was cut, examples were skipped, a model has a peculiarity."""


def first_line(error: BaseException) -> str:
    """Give the first line of an error without its full stop; a lone word has the error's type before it."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    if not lines:
        return type(error).__name__
    line = f"{lines[0]} {lines[1]}" if lines[0].endswith(":") and len(lines) > 1 else lines[0]
    line = line if " " in line or isinstance(error, AttnprobeError) else f"{type(error).__name__}: {line}"
    return shorten(line.rstrip("."))


def out_of_memory(error: BaseException) -> bool:
    """Tell an allocator's error from others, without importing torch: there is no one exception for it."""
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":
        return True
    sentence = str(error).lower()
    return isinstance(error, RuntimeError) and any(part in sentence for part in _OF_ALLOCATORS)
