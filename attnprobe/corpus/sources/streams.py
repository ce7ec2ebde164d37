"""Bytes of files and of standard input, and what can go wrong with them in one plain sentence."""

import gzip
import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, cast

from attnprobe.errors import AttnprobeError


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
        yield cast(BinaryIO, gzip.GzipFile(fileobj=raw)) if packed else raw


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
