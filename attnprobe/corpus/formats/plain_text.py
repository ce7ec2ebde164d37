"""Plain text: a document a line."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, BinaryIO

from attnprobe.corpus.formats import DocumentFormat, refuse_columns, refuse_group
from attnprobe.corpus.sources.document import Document
from attnprobe.corpus.sources.streams import decode_lines, strip_ends

if TYPE_CHECKING:
    from attnprobe.corpus.sources.text import Source


def read(stream: BinaryIO, source: "Source") -> Iterator[Document]:
    """Read the lines that are not blank."""
    refuse_columns(source, source.spec)
    refuse_group(source, source.spec)
    return (Document(line) for line in strip_ends(decode_lines(stream, source.spec)) if line.strip())


FORMATS = [DocumentFormat((".txt",), read)]
