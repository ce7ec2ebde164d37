"""What glibc does with memory that is freed: it keeps large blocks while a command works."""

import ctypes
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from threading import Lock
from typing import Any

#: Parameters of ``mallopt``, as ``malloc.h`` numbers them.
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
#: Blocks below this are kept for the next batch, in bytes; and the most that mallopt(3) promises to take
#: (DEFAULT_MMAP_THRESHOLD_MAX on 64 bits), which is also how far glibc raises its threshold by itself.
KEPT, MOST_BY_ITSELF = 1 << 28, 1 << 25


@contextmanager
def keep_freed_memory() -> Iterator[None]:
    """Let glibc keep large freed blocks for the next batch while the work inside lasts.

    Its defaults map and unmap the activations of every batch anew, and zero their pages each time.
    Afterwards, what is free goes back to the system, and the thresholds are those that glibc raises its own
    to at most: once set, it no longer adjusts them. Another C library, or thresholds of the user's own in the
    environment, are left alone. Calls may be nested, and made by several threads.
    """
    library = None if _are_set(os.environ) else _find_library()
    if library is None:
        yield
        return
    _Users.enter(library)
    try:
        yield
    finally:
        _Users.leave(library)


class _Users:
    """How many calls need the memory; the settings are those of the whole process."""

    number, lock = 0, Lock()

    @classmethod
    def enter(cls, library: Any) -> None:
        with cls.lock:
            cls.number += 1
            if cls.number == 1:
                _set_thresholds(library, KEPT)

    @classmethod
    def leave(cls, library: Any) -> None:
        with cls.lock:
            cls.number -= 1
            if cls.number == 0 and _set_thresholds(library, MOST_BY_ITSELF):
                library.malloc_trim(0)


def _set_thresholds(library: Any, size: int) -> bool:
    """Keep blocks below ``size``, or below the most that this glibc takes; tell whether it took either.

    The threshold of trimming alone must not be set: it ends the adjustment of the other, at 128 KiB.
    """
    for some in (size, MOST_BY_ITSELF):
        if library.mallopt(M_MMAP_THRESHOLD, some):
            # As glibc does, twice the size of a block that is no longer mapped; 256 MiB are enough.
            return bool(library.mallopt(M_TRIM_THRESHOLD, min(2 * some, KEPT)))
    return False


@cache
def _find_library() -> Any:
    """Find the C library of this process, if it is glibc."""
    try:
        library: Any = ctypes.CDLL(None)
        library.malloc_trim.argtypes = [ctypes.c_size_t]
        library.gnu_get_libc_version  # noqa: B018 - which other C libraries lack
        library.mallopt  # noqa: B018
    except (AttributeError, OSError, TypeError):
        return None
    return library


def _are_set(environment: Mapping[str, str]) -> bool:
    """Tell whether the user has set a threshold of malloc.

    >>> _are_set({"MALLOC_TRIM_THRESHOLD_": "0"}), _are_set({"GLIBC_TUNABLES": "glibc.malloc.check=3"})
    (True, False)
    """
    tunables = environment.get("GLIBC_TUNABLES", "")
    return any(
        f"MALLOC_{name.upper()}_THRESHOLD_" in environment or f"glibc.malloc.{name}_threshold" in tunables
        for name in ("mmap", "trim")
    )
