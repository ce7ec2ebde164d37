"""Lines and bytes of files and standard input, unpacked on the way, within limits."""

import bz2
import codecs
import gzip
import io
import lzma
import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import chain
from pathlib import Path, PurePath
from typing import Any, BinaryIO, cast

from attnprobe.errors import DataError

#: The longest line in bytes, and the longest one that may hold a whole file.
LONGEST_LINE, WHOLE = 1 << 26, 1 << 32
#: The most bytes from a packed one, after the first ``FREELY``: texts give 3 to 50, bombs 1,000.
MOST = 200
FREELY = 1 << 26


@contextmanager
def explain_errors(name: str) -> Iterator[None]:
    """Turn an error of the file system into a sentence."""
    try:
        yield
    except OSError as error:
        raise DataError(f"{name} can't be read: {error.strerror or error}; check the file") from None


def decode_lines(stream: Any, name: str, longest: int = LONGEST_LINE) -> Iterator[str]:
    r"""Decode the lines of UTF-8, or of UTF-16 with its mark; ends of lines stay, a byte order mark does not.

    Lines end in ``\n``, or in ``\r`` where there is no ``\n`` at all, but not in form feeds or U+2028.
    """
    stream = stream if hasattr(stream, "peek") else io.BufferedReader(stream)
    encoding, number = "UTF-8", 1
    text = None
    if stream.peek(2)[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
        encoding, text = "UTF-16, as its first bytes say", io.TextIOWrapper(stream, "utf-16", newline="\n")

    def read() -> bytes:
        return stream.readline(longest + 1) if text is None else text.readline(longest + 1).encode()

    try:
        first = read()
        lines = chain([first] if first else [], iter(read, b""))
        if b"\r" in first.rstrip(b"\r\n") and not first.endswith(b"\n") and len(first) <= longest:
            lines = (line + b"\n" for line in first.split(b"\r"))
        for number, raw in enumerate(lines, start=1):
            if len(raw) > longest:
                limit = f"longer than {longest >> 20:,} MiB, as of a file that never ends"
                raise DataError(f"line {number} of {name} is {limit}; put a document on each line")
            if b"\0" in raw:
                raise DataError(f"line {number} of {name} has NUL bytes; give a text file in UTF-8")
            yield raw.decode("utf-8-sig" if number == 1 else "utf-8")
    except UnicodeError:
        raise DataError(f"line {number} of {name} is not {encoding}; save the file as UTF-8") from None
    finally:
        if text is not None:
            text.detach()


def strip_ends(lines: Iterable[str]) -> Iterator[str]:
    return (line.removesuffix("\n").removesuffix("\r") for line in lines)


def peek_lines(lines: Iterable[str]) -> tuple[str, Iterator[str]]:
    """Give the first line that is not blank, or the last one if all are ("" of none); and all lines."""
    lines, first = iter(lines), [""]
    for line in lines:
        first.append(line)
        if line.strip():
            break
    return first[-1], chain(first[1:], lines)


def split_blocks(lines: Iterable[str]) -> Iterator[tuple[int, list[str]]]:
    """Split lines at blank ones; yields each block with the number of its first line."""
    block: list[str] = []
    for number, line in enumerate(chain(lines, [""]), start=1):
        if line.strip():
            block.append(line)
        elif block:
            yield number - len(block), block
            block = []


def shorten(words: object) -> str:
    """Give the first line of a message, cut after 120 characters, without control characters."""
    first = re.split(r"[\r\n]", str(words).strip(), maxsplit=1)[0].rstrip(".")
    first = "".join(character if character.isprintable() else "?" for character in first[:121])
    return first if len(first) <= 120 else first[:120] + "..."


def _open_zstd(packed: BinaryIO) -> Any:
    import pyarrow

    return pyarrow.CompressedInputStream(pyarrow.PythonFile(packed), "zstd")


#: The name of each packing and what unpacks it, by extension.
_PACKINGS: Mapping[str, tuple[str, Callable[[BinaryIO], Any]]] = {
    ".gz": ("gzip", lambda packed: gzip.GzipFile(fileobj=packed)),
    ".bz2": ("bzip2", bz2.BZ2File),
    ".xz": ("xz", lzma.LZMAFile),
    ".zst": ("zstd", _open_zstd),
}
PACKED = tuple(_PACKINGS)


def strip_packing(path: PurePath) -> PurePath:
    """Take off the extension of a packing: ``corpus.jsonl.zst`` becomes ``corpus.jsonl``."""
    return path.with_suffix("") if path.suffix.lower() in PACKED else path


class _Unpacked(io.RawIOBase):
    """The content of a packed file, up to a multiple of its size."""

    def __init__(self, packed: BinaryIO, name: str, extension: str) -> None:
        self._packed, self._name = packed, name
        self._kind, unpack = _PACKINGS[extension]
        self._inner, self._size = unpack(packed), 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        try:
            size = self._inner.readinto(buffer)
        except (EOFError, zlib.error, lzma.LZMAError, ValueError, OSError) as error:
            if getattr(error, "errno", None) is not None:  # the disk, not the file
                raise
            raise DataError(f"{self._name} is damaged: it is not a whole {self._kind} file") from None
        self._size += size
        if self._size > FREELY and self._size > MOST * self._packed.tell():
            bomb = f"unpacks to more than {MOST} times its size, as no text does"
            raise DataError(f"{self._name} {bomb}; if it is text, unpack it and give the file")
        return size


def check_unicode(text: str, where: str) -> str:
    """Give a text as it is, or refuse half a surrogate pair, which JSON can hold and no tokenizer takes."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise DataError(f"{where} has half a surrogate pair; write it again as UTF-8.") from None
    return text


@contextmanager
def open_file(path: Path, name: str) -> Iterator[BinaryIO]:
    """Open a file that errors call ``name``, and unpack it if its extension says so."""
    extension = path.suffix.lower()
    with explain_errors(name), path.open("rb") as raw:
        packed = extension in PACKED
        yield cast(BinaryIO, io.BufferedReader(_Unpacked(raw, name, extension), 1 << 17)) if packed else raw


def hash_stream(stream: BinaryIO, digest: Any) -> int:
    """Add the content of a stream to a digest; returns its size in bytes."""
    size = 0
    while part := stream.read(1 << 20):
        digest.update(part)
        size += len(part)
    return size
