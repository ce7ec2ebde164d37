"""Word alignments in the Pharaoh format, and the pairs of texts that they are of."""

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import zip_longest
from pathlib import Path
from typing import Any

from attnprobe.corpus.document import POSSIBLE, Annotation, Document, Link, Span, Where
from attnprobe.corpus.streams import decode_lines, open_file, shorten, strip_ends
from attnprobe.errors import DataError

#: The label of a link that an alignment has to have.
SURE = "sure"
#: Stands between the two texts of a line, as fast_align reads them.
BETWEEN = "|||"
#: A link: the number of a word of the source, whether it is possible only, the number of one of the target.
_LINK = re.compile(r"(\d{1,9})(-|p|\?)(\d{1,9})")
_WORD = re.compile(r"\S+")
#: More links for each word than any alignment has. Every question about a link is held in memory.
_MOST = 16


@contextmanager
def open_lines(path: Path) -> Iterator[Iterator[str]]:
    """Open the lines of a file, blank ones too, without their ends."""
    try:
        there = path.is_file() or (path.exists() and not path.is_dir())
    except (OSError, ValueError):  # a name too long, or with a NUL in it
        there = False
    if not there:
        raise DataError(f"There is no file {path}; check the path.")
    with open_file(path, str(path)) as stream:
        yield strip_ends(decode_lines(stream, str(path)))


def read_parallel(source: Path, target: Path) -> Iterator[Document]:
    """Read two files of parallel texts, a text a line; the text of the second is the label."""
    with open_lines(source) as ours, open_lines(target) as theirs:
        for number, (text, other) in enumerate(zip_longest(ours, theirs), start=1):
            if text is None or other is None:
                short, long = (source, target) if text is None else (target, source)
                raise DataError(
                    f"{short} has {number - 1:,} lines, and {long} more; give two files with a line for each "
                    "pair."
                )
            yield Document(text, label=other)


def read_joined(path: Path) -> Iterator[Document]:
    """Read pairs of texts with ``|||`` between them, a pair a line; the second text is the label."""
    with open_lines(path) as lines:
        for number, line in enumerate(lines, start=1):
            parts = line.split(BETWEEN)
            if len(parts) != 2:
                raise DataError(
                    f"line {number} of {path} does not hold two texts with {BETWEEN} between them; name the "
                    "file of the second texts with --targets, or give a table with columns."
                )
            yield Document(parts[0].strip(), label=parts[1].strip())


def align_documents(
    documents: Iterable[Document], lines: Iterable[str], name: str, texts: str, *, one_based: bool = False
) -> Iterator[Document]:
    """Give pairs of texts their words and alignments.

    Words are what stands between blanks. A line such as ``0-0 1-2 3p3`` holds the links of a pair: the number
    of a word of its first text, and that of a word of its second; links with ``p`` or ``?`` between them are
    possible, others sure. An empty line is a pair without a link. Pairs of which a text is blank are left
    out, with their line.

    References:
        Koehn (2004), Pharaoh; the format is written by fast_align, eflomal and awesome-align.
    """
    nothing = object()
    for number, (document, line) in enumerate(zip_longest(documents, lines, fillvalue=nothing), start=1):
        if not isinstance(document, Document) or not isinstance(line, str):
            short, long = (name, texts) if line is nothing else (texts, name)
            raise DataError(
                f"{short} ends behind {number - 1:,} pairs, and {long} goes on; give a line of alignments "
                "for each pair of texts."
            )
        if not isinstance(document.label if document.pair is None else document.pair, str):
            raise DataError(
                f"Pair {number} of {texts} has one text alone; name the other with --target-column, or its "
                "file with --targets."
            )
        found = align_document(document, line, f"line {number} of {name}", one_based=one_based)
        if found is not None:
            yield found


def align_document(
    document: Document, line: str, where: str, *, one_based: bool | None = None
) -> Document | None:
    """Give a pair of texts its words and alignment; None where a text is blank.

    ``one_based``: whether words are counted from 1; None where they are counted from 0, and nobody can say
    otherwise.
    """
    second = document.label if document.pair is None else document.pair
    sides: tuple[tuple[Where, str], ...] = (
        ("text", document.text), ("target" if document.pair is None else "pair", str(second))
    )  # fmt: skip
    words = [[Span(*one.span(), side) for one in _WORD.finditer(text)] for side, text in sides]
    links = tuple(_read_links(line, words, where, one_based=one_based))
    return replace(document, annotation=Annotation((*words[0], *words[1]), links)) if all(words) else None


def _read_links(
    line: str, words: Sequence[Sequence[Span]], where: str, *, one_based: bool | None
) -> Iterator[Link]:
    labels: dict[tuple[int, int], str] = {}
    for part in dict.fromkeys(line.split()):
        match = _LINK.fullmatch(part)
        if match is None:
            raise DataError(
                f"{where}: {shorten(repr(part))} is no link; write the numbers of two words, such as 0-2, or "
                "0p2 for a link that is possible."
            )
        first, second = (int(number) - bool(one_based) for number in (match[1], match[3]))
        for place, side, text in zip((first, second), words, ("first", "second"), strict=True):
            if not 0 <= place < len(side):
                counted = f"from {int(bool(one_based))} to {len(side) - (not one_based)}"
                advice = "" if one_based is None else "; see --one-based"
                raise DataError(
                    f"{where}: {part} names a word of the {text} text that is not there: it has "
                    f"{len(side)} words, which count {counted}{advice}."
                )
        if match[2] == "-":
            labels[first, second] = SURE
        else:
            labels.setdefault((first, second), POSSIBLE)
    if len(labels) > _MOST * sum(map(len, words)):
        raise DataError(
            f"{where} has {len(labels):,} links between {len(words[0]):,} and {len(words[1]):,} words, more "
            f"than {_MOST} for each word; give the links of an alignment, not all pairs of words."
        )
    return (Link(words[0][first], words[1][second], label) for (first, second), label in labels.items())


def read_as_pairs(documents: Iterable[Document]) -> Iterator[Document]:
    """Give documents whose second text is their label that text as pair, as an encoder reads two texts."""
    for document in documents:
        if document.pair is not None or not isinstance(document.label, str):
            yield document
            continue
        said = document.annotation
        if said is not None:
            links = tuple(
                replace(link, source=_move(link.source), target=_move(link.target)) for link in said.links
            )
            said = replace(said, words=tuple(map(_move, said.words)), links=links)
        yield replace(document, pair=document.label, label=None, annotation=said)


def _move(span: Span) -> Span:
    return replace(span, where="pair") if span.where == "target" else span


def list_lines(said: Any) -> list[str]:
    """Take lines that a program holds, or refuse what is none."""
    found = list(said) if isinstance(said, Iterable) else [said]
    if wrong := next((one for one in found if not isinstance(one, str)), None):
        raise DataError(
            f"Alignments are the path of a file, or a string such as '0-0 1-2' for each pair, not of type "
            f"{type(wrong).__name__}."
        )
    return found
