"""Files as bytes, unpacked on the way: gzip, bzip2, xz and zstd."""

import bz2
import gzip
import io
import lzma
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path, PurePath
from typing import Any, BinaryIO, cast

from attnprobe.corpus.sources.streams import explain_errors
from attnprobe.errors import AttnprobeError

#: How many bytes a packed byte may unpack to, beyond the first ``FREELY``: text unpacks to 3 to 50, and a
#: bomb to 1,000.
MOST = 200
FREELY = 1 << 26


def _open_zstd(packed: BinaryIO) -> Any:
    import pyarrow

    return pyarrow.CompressedInputStream(pyarrow.PythonFile(packed), "zstd")


#: What unpacks a file, by its last extension, and what the format is called.
_PACKINGS: Mapping[str, tuple[str, Callable[[BinaryIO], Any]]] = {
    ".gz": ("gzip", lambda packed: gzip.GzipFile(fileobj=packed)),
    ".bz2": ("bzip2", bz2.BZ2File),
    ".xz": ("xz", lzma.LZMAFile),
    ".zst": ("zstd", _open_zstd),
}
PACKED = tuple(_PACKINGS)
#: How an error lists them.
EACH_ALSO = "each also with .gz, .bz2, .xz or .zst"


def strip_packing(path: PurePath) -> PurePath:
    """Take the extension off that says how a file is packed, if there is one.

    >>> str(strip_packing(PurePath("corpus.jsonl.zst")))
    'corpus.jsonl'
    """
    return path.with_suffix("") if path.suffix.lower() in PACKED else path


class _Unpacked(io.RawIOBase):
    """What a packed file holds, as long as that is in proportion to it."""

    def __init__(self, packed: BinaryIO, name: str, extension: str) -> None:
        self._packed, self._name = packed, name
        self._kind, unpack = _PACKINGS[extension]
        self._inner, self._size = unpack(packed), 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        try:
            size = self._inner.readinto(buffer)
        except (EOFError, zlib.error, lzma.LZMAError, OSError) as error:
            if getattr(error, "errno", None) is not None:  # the disk, not the file
                raise
            raise AttnprobeError(
                f"{self._name} is not a whole {self._kind} file; download it again, or rename it if it is "
                f"not {self._kind}"
            ) from None
        self._size += size
        check_proportion(self._size, self._packed.tell(), self._name)
        return size


def check_proportion(size: int, packed: int, name: str) -> None:
    """Refuse what unpacks to ``size`` bytes from far fewer."""
    if size > FREELY and size > MOST * packed:
        raise AttnprobeError(
            f"{name} unpacks to more than {MOST} times its size, as no text does; if it is text, "
            "unpack it and give the file"
        )


@contextmanager
def open_file(path: Path, name: str) -> Iterator[BinaryIO]:
    """Open a file that errors call ``name``; one whose extension says that it is packed is unpacked.

    Raises:
        AttnprobeError: When it can't be read; also while it is read.
    """
    extension = path.suffix.lower()
    with explain_errors(name), path.open("rb") as raw:
        packed = extension in PACKED
        yield cast(BinaryIO, io.BufferedReader(_Unpacked(raw, name, extension), 1 << 17)) if packed else raw
