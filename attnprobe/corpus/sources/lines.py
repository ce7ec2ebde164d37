"""Lines: UTF-8 from strangers' files, and the two formats that hold nothing but text.

Readers here and in :mod:`attnprobe.corpus.sources.tables` take a binary stream and the name to use in
messages. Whatever the bytes are, a reader ends in text or in an :class:`AttnprobeError`.
"""

import io
import re
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import Any, BinaryIO, TypeVar

from attnprobe.corpus.sources.annotation import Annotation
from attnprobe.corpus.sources.document import Tagged
from attnprobe.corpus.sources.trees import annotated_sentence, joined_forms, tagged_sentence
from attnprobe.errors import AttnprobeError

Read = TypeVar("Read")


def decoded_lines(stream: BinaryIO, name: str) -> Iterator[str]:
    r"""Decode UTF-8 line by line, line ends kept, a byte order mark dropped.

    A binary stream splits at ``\n`` alone; text mode and ``str.splitlines`` would also split at
    ``\r``, form feeds, U+0085 or U+2028, which occur inside the sentences of real corpora.
    """
    for number, raw in enumerate(stream, start=1):
        if b"\0" in raw:
            raise AttnprobeError(
                f"line {number} of {name} has NUL bytes, so it looks like a binary file; "
                "give a text file in UTF-8"
            )
        try:
            line = raw.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError:
            raise AttnprobeError(f"line {number} of {name} is not UTF-8; save the file as UTF-8") from None
        yield line


def without_ends(lines: Iterable[str]) -> Iterator[str]:
    r"""Drop the line ends, ``\n`` or ``\r\n``."""
    return (line.removesuffix("\n").removesuffix("\r") for line in lines)


def read_txt(stream: BinaryIO, name: str) -> Iterator[str]:
    """Read a document a line."""
    return without_ends(decoded_lines(stream, name))


def read_conllu(stream: BinaryIO, name: str) -> Iterator[str]:
    """Read the sentences of a CoNLL-U file: ``# text``, else the forms put together."""
    return (text for text, _ in conllu_sentences(stream, name))


def conllu_sentences(
    stream: BinaryIO, name: str, *, annotated: bool = False
) -> Iterator[tuple[str, Annotation | None]]:
    """Read the sentences of a CoNLL-U file, and with ``annotated`` their words and dependencies too."""

    def read(sentence: Any) -> tuple[str, Annotation | None]:
        text = sentence.metadata.get("text")
        return annotated_sentence(sentence, text) if annotated else (text or joined_forms(sentence), None)

    return _parsed(stream, name, read)


def tagged_sentences(stream: BinaryIO, name: str, column: str) -> Iterator[tuple[str, Tagged | None]]:
    """Read the sentences of a CoNLL-U file, and what a column says of each word: ``upos``, ``xpos``."""
    return _parsed(
        stream,
        name,
        lambda sentence: (
            sentence.metadata.get("text") or joined_forms(sentence),
            tagged_sentence(sentence, column),
        ),
    )


def _parsed(stream: BinaryIO, name: str, read: Callable[[Any], Read]) -> Iterator[Read]:
    """Make something of each sentence of a CoNLL-U file."""
    import conllu
    from conllu.exceptions import ParseException

    # A sentence at a time, because conllu's own exceptions do not say where they happened.
    for start, lines in blocks(decoded_lines(stream, name)):
        try:
            found = [read(sentence) for sentence in conllu.parse_incr(io.StringIO("".join(lines)))]
        except (ParseException, ValueError, KeyError) as error:
            # Columns can be declared in the file, and then the ones we need can be missing.
            wrong = f"no column {error.args[0]}" if isinstance(error, KeyError) else error
            raise AttnprobeError(
                f"the sentence at line {start} of {name} is not CoNLL-U ({brief(wrong)}); mend it, "
                "or rename the file to .txt if it holds a document a line"
            ) from None
        yield from found


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


LINE_READERS: dict[str, Callable[[BinaryIO, str], Iterator[str]]] = {
    ".txt": read_txt,
    ".conllu": read_conllu,
}
