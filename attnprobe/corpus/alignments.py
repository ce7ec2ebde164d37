"""Word alignments in the Pharaoh format, and the pairs of texts that they are of."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import zip_longest
from pathlib import Path
from typing import Any

from attnprobe.corpus.document import POSSIBLE, Annotation, Document, Link, Span, Where
from attnprobe.corpus.streams import decode_lines, explain_errors, open_file, shorten, strip_ends
from attnprobe.errors import DataError

#: The label of a link that an alignment has to have.
SURE = "sure"
#: A link: the number of a word of the source, whether it is possible only, the number of one of the target.
_LINK = re.compile(r"(\d{1,9})(-|p|\?)(\d{1,9})")


def read_lines(path: Path) -> Iterator[str]:
    """Give the lines of a file, blank ones too, without their ends; what is no file is refused at once."""
    with explain_errors(str(path)):  # such as a name that is too long
        if not path.exists() or path.is_dir():
            raise DataError(f"There is no file {path}; check the path.")

    def read() -> Iterator[str]:
        with open_file(path, str(path)) as stream:
            yield from strip_ends(decode_lines(stream, str(path)))

    return read()


def _pair_lines(
    ours: Iterable[Any], theirs: Iterable[Any], names: Sequence[str]
) -> Iterator[tuple[Any, Any]]:
    """Give what stands side by side in two sources, or refuse the one that ends first."""
    for number, pair in enumerate(zip_longest(ours, theirs)):
        if None in pair:
            short, long = names if pair[0] is None else reversed(names)
            raise DataError(
                f"{short} ends behind line {number:,}, and {long} goes on; give a line for each pair."
            )
        yield pair


def read_parallel(source: Path, target: Path) -> Iterator[Document]:
    """Read two files of texts, a text a line; that of the second is the label."""
    pairs = _pair_lines(read_lines(source), read_lines(target), (str(source), str(target)))
    return (Document(text, label=other) for text, other in pairs)


def read_joined(path: Path) -> Iterator[Document]:
    """Read pairs of texts with ``|||`` between them, a pair a line; the second text is the label."""
    for number, line in enumerate(read_lines(path), start=1):
        parts = line.split("|||")
        if len(parts) != 2:
            raise DataError(
                f"line {number} of {path} does not hold two texts with ||| between them; name the file of "
                "the second texts with --targets, or give a table with columns."
            )
        yield Document(parts[0].strip(), label=parts[1].strip())


def align_documents(
    documents: Iterable[Document], lines: Iterable[str], name: str, texts: str, *, one_based: bool = False
) -> Iterator[Document]:
    """Give pairs of texts their words and alignments, a line of the file ``name`` for each pair of ``texts``.

    Words are what stands between blanks. ``0-0 1-2 3p3`` holds the links of a pair: the number of a word of
    its first text, and of one of its second; those with ``p`` or ``?`` are possible, others sure. An empty
    line is a pair without a link. Pairs of which a text is blank are left out, with their line.

    References:
        Koehn (2004), Pharaoh; the format is written by fast_align, eflomal and awesome-align.
    """
    for number, (document, line) in enumerate(_pair_lines(documents, lines, (texts, name))):
        if not isinstance(line, str):
            raise DataError(f"Alignments are strings such as '0-0 1-2', not of type {type(line).__name__}.")
        if not isinstance(document.pair or document.label, str):
            raise DataError(
                f"Pair {number + 1} of {texts} has one text alone; name the other with --target-column, or "
                "its file with --targets."
            )
        aligned = align_document(document, line, f"line {number + 1} of {name}", one_based=one_based)
        if aligned is not None:
            yield aligned


def align_document(document: Document, line: str, where: str, *, one_based: bool = False) -> Document | None:
    """Give a pair of texts its words and alignment; None where a text is blank."""
    side: Where = "target" if document.pair is None else "pair"
    second = str(document.label if document.pair is None else document.pair)
    texts: tuple[tuple[Where, str], ...] = (("text", document.text), (side, second))
    words = [[Span(*word.span(), place) for word in re.finditer(r"\S+", text)] for place, text in texts]
    first, labels = int(one_based), dict[tuple[int, int], str]()
    for part in line.split():
        match = _LINK.fullmatch(part)
        if match is None:
            raise DataError(
                f"{where}: {shorten(repr(part))} is no link; write the numbers of two words, such as 0-2, or "
                "0p2 for a link that is possible."
            )
        places = int(match[1]) - first, int(match[3]) - first
        for place, known, text in zip(places, words, ("first", "second"), strict=True):
            if not 0 <= place < len(known):
                raise DataError(
                    f"{where}: {part} names a word of the {text} text that is not there: it has {len(known)} "
                    f"words, which count from {first} to {len(known) - 1 + first}."
                )
        labels[places] = SURE if match[2] == "-" else labels.get(places, POSSIBLE)
    links = tuple(Link(words[0][one], words[1][other], label) for (one, other), label in labels.items())
    return replace(document, annotation=Annotation((*words[0], *words[1]), links)) if all(words) else None


def read_as_pairs(documents: Iterable[Document]) -> Iterator[Document]:
    """Give documents whose second text is their label that text as pair, as an encoder reads two texts."""

    def move(span: Span) -> Span:
        return replace(span, where="pair") if span.where == "target" else span

    for document in documents:
        known = document.annotation
        if document.pair is None and isinstance(document.label, str):
            if known is not None:
                links = [
                    replace(one, source=move(one.source), target=move(one.target)) for one in known.links
                ]
                known = replace(known, words=tuple(map(move, known.words)), links=tuple(links))
            document = replace(document, pair=document.label, label=None, annotation=known)  # noqa: PLW2901
        yield document
