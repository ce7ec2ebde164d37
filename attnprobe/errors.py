"""The errors and the warning that attnprobe raises. Each carries one plain sentence."""

from typing import Any

#: What allocators say who have no exception of their own, in lower case.
_SAID = (
    "defaultcpuallocator: can't allocate memory",
    "defaultcpuallocator: not enough memory",
    "cublas_status_alloc_failed",
    "cudnn_status_alloc_failed",
    "out of memory",
)


class AttnprobeError(Exception):
    """The request can't be served: bad usage, input or configuration. Exit code 2."""

    exit_code = 2


class UnfinishedError(AttnprobeError):
    """The numbers are there, and what was to come after them failed.

    Attributes:
        table: The numbers.
    """

    def __init__(self, sentence: str, table: Any) -> None:
        """Refuse with a sentence, and keep the table."""
        super().__init__(sentence)
        self.table = table


class StateError(AttnprobeError):
    """A state of ``resume`` is damaged, or belongs to another run."""


class CheckFailedError(AttnprobeError):
    """The request was understood and a check on the checkpoint failed. Exit code 1."""

    exit_code = 1


class AttnprobeWarning(UserWarning):
    """Something worth knowing: a text that was cut, examples that were skipped, a model that is odd.

    The command line prints these sentences on standard error. In Python they are warnings of this class, so
    that ``warnings.filterwarnings("ignore", category=attnprobe.AttnprobeWarning)`` silences them.
    """


def first_line(error: BaseException) -> str:
    """Give the first line of somebody else's error, without its full stop."""
    lines = str(error).strip().splitlines()
    return lines[0].rstrip(".") if lines else type(error).__name__


def out_of_memory(error: BaseException) -> bool:
    """Tell an allocator's error from others, without importing torch: there is no one exception for it."""
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":
        return True
    said = str(error).lower()
    return isinstance(error, RuntimeError) and any(part in said for part in _SAID)
