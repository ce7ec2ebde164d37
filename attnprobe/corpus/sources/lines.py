"""Lines: UTF-8 from strangers' files.

Readers here and in :mod:`attnprobe.corpus.sources.tables` take a binary stream and the name to use in
messages. Whatever the bytes are, a reader ends in text or in an :class:`AttnprobeError`.
"""

import re
import warnings
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import BinaryIO

from attnprobe.errors import AttnprobeError, AttnprobeWarning


def decoded_lines(stream: BinaryIO, name: str) -> Iterator[str]:
    r"""Decode UTF-8 line by line, line ends kept, a byte order mark dropped.

    A binary stream splits at ``\n`` alone; text mode and ``str.splitlines`` would also split at
    ``\r``, form feeds, U+0085 or U+2028, which occur inside the sentences of real corpora. A file that has
    no ``\n`` at all, and ``\r`` instead, is one of an old Macintosh, whose lines end in it.
    """
    said = False
    for number, raw in enumerate(_raw_lines(stream), start=1):
        if b"\0" in raw:
            raise AttnprobeError(
                f"line {number} of {name} has NUL bytes, so it looks like a binary file; "
                "give a text file in UTF-8"
            )
        try:
            line = raw.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError:
            raise AttnprobeError(f"line {number} of {name} is not UTF-8; save the file as UTF-8") from None
        if not said and "\r" in line.rstrip("\r\n"):
            said = True
            warnings.warn(
                f"line {number} of {name} has carriage returns inside, which are read as blanks: only line "
                "feeds end a line.",
                AttnprobeWarning,
                stacklevel=2,
            )
        yield line


def _raw_lines(stream: Iterable[bytes]) -> Iterator[bytes]:
    lines = iter(stream)
    first = next(lines, b"")
    if b"\r" in first.rstrip(b"\r\n") and not first.endswith(b"\n"):
        return (line + b"\n" for line in first.split(b"\r"))
    return chain([first] if first else [], lines)


def without_ends(lines: Iterable[str]) -> Iterator[str]:
    r"""Drop the line ends, ``\n`` or ``\r\n``."""
    return (line.removesuffix("\n").removesuffix("\r") for line in lines)


def read_txt(stream: BinaryIO, name: str) -> Iterator[str]:
    """Read a document a line."""
    return without_ends(decoded_lines(stream, name))


def blocks(lines: Iterable[str]) -> Iterator[tuple[int, list[str]]]:
    """Split at blank lines; yield the lines of each sentence with the number of the first."""
    block: list[str] = []
    for number, line in enumerate(chain(lines, [""]), start=1):
        if line.strip():
            block.append(line)
        elif block:
            yield number - len(block), block
            block = []


def brief(words: object) -> str:
    """Give the first line of a message, without the full stop, cut where it grows long.

    Messages quote the file, and a terminal obeys escape sequences: they become question marks.
    """
    first = re.split(r"[\r\n]", str(words).strip(), maxsplit=1)[0].rstrip(".")
    first = "".join(character if character.isprintable() else "?" for character in first[:121])
    return first if len(first) <= 120 else first[:120] + "..."
