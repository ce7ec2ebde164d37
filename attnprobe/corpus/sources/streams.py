"""Bytes of files and of standard input, and what can go wrong with them in one plain sentence."""

import gzip
import io
import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, cast

from attnprobe.errors import AttnprobeError

#: How many bytes a packed byte may unpack to, beyond the first ``_FREELY``: text unpacks to 3 to 50, and a
#: bomb to 1,000.
_MOST = 200
_FREELY = 1 << 26


class _Unpacked(io.RawIOBase):
    """What a gzip file holds, as long as that is in proportion to it."""

    def __init__(self, packed: BinaryIO, name: str) -> None:
        """Unpack a stream; ``name`` is what errors call it."""
        self._packed, self._name = packed, name
        self._inner, self._size = gzip.GzipFile(fileobj=packed), 0

    def readable(self) -> bool:
        """It is."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Fill a buffer."""
        size = self._inner.readinto(buffer)
        self._size += size
        if self._size > _FREELY and self._size > _MOST * self._packed.tell():
            raise AttnprobeError(
                f"{self._name} unpacks to more than {_MOST} times its size, as no text does; if it is text, "
                "unpack it and give the file"
            )
        return size


@contextmanager
def opened_file(path: Path, name: str) -> Iterator[BinaryIO]:
    """Open a file; one that ends in .gz is unpacked.

    Args:
        path: Where it is.
        name: What errors call it.

    Raises:
        AttnprobeError: When it can't be read; also while it is read.
    """
    with plain_words(name), path.open("rb") as raw:
        packed = path.suffix.lower() == ".gz"
        yield cast(BinaryIO, io.BufferedReader(_Unpacked(raw, name), 1 << 17)) if packed else raw


def standard_input() -> BinaryIO:
    """Give the bytes of standard input.

    Raises:
        AttnprobeError: When it is closed.
    """
    buffer = getattr(sys.stdin, "buffer", None)
    if buffer is None:
        raise AttnprobeError("standard input is closed; pipe text into it, or name a file")
    return buffer


@contextmanager
def plain_words(name: str) -> Iterator[None]:
    """Turn what files and gzip raise while they are read into one sentence."""
    try:
        yield
    except (gzip.BadGzipFile, EOFError, zlib.error):
        raise AttnprobeError(
            f"{name} is not a whole gzip file; download it again, or rename it if it is not gzip"
        ) from None
    except PermissionError:
        raise AttnprobeError(f"{name} can't be read: permission denied; check who may read it") from None
    except OSError as error:
        raise AttnprobeError(f"{name} can't be read: {error.strerror or error}; check the file") from None
