"""Word alignments in the Pharaoh format, and the pairs of texts that they align."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import zip_longest
from pathlib import Path
from typing import Any

from attnprobe.corpus.document import POSSIBLE, Annotation, Document, Link, Span, Where
from attnprobe.corpus.streams import decode_lines, explain_errors, open_file, shorten, strip_ends
from attnprobe.errors import DataError

#: The label of a link that an alignment must have.
SURE = "sure"
#: A link: the number of a source word, a mark ("-" if sure), and the number of a target word.
_LINK = re.compile(r"(\d{1,9})(-|p|\?)(\d{1,9})")


def read_lines(path: Path) -> Iterator[str]:
    """Give the lines of a file without their ends, blank lines too; a missing file is refused at once."""
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
    """Pair the items of two sources; the one that ends first is refused."""
    for number, pair in enumerate(zip_longest(ours, theirs)):
        if None in pair:
            short, long = names if pair[0] is None else reversed(names)
            raise DataError(f"{short} ends behind line {number:,}, and {long} goes on; give a line a pair.")
        yield pair


def read_parallel(source: Path, target: Path) -> Iterator[Document]:
    """Read two files of texts, a text a line; the second text is the label."""
    pairs = _pair_lines(read_lines(source), read_lines(target), (str(source), str(target)))
    return (Document(text, label=other) for text, other in pairs)


def read_joined(path: Path) -> Iterator[Document]:
    """Read a pair of texts, separated by ``|||``, from each line, or refuse; the second is the label."""
    for number, line in enumerate(read_lines(path), start=1):
        parts = line.split("|||")
        if len(parts) != 2:
            raise DataError(
                f"line {number} of {path} does not hold two texts with ||| between them; or give two files, "
                "with --targets, or a table."
            )
        yield Document(parts[0].strip(), label=parts[1].strip())


def align_documents(
    documents: Iterable[Document], lines: Iterable[str], name: str, texts: str, *, one_based: bool = False
) -> Iterator[Document]:
    """Annotate each pair of texts with its words and its line of alignments, or refuse.

    Blanks separate words. A line such as ``0-0 1-2 3p3`` holds the links of a pair, each from a word of the
    first text to one of the second, by number, from 0 or (``one_based``) 1. Links with ``p`` or ``?`` are
    possible, others sure. An empty line is a pair without links. Pairs with a blank text are left out, with
    their line. For errors, ``name`` is the file of the lines, and ``texts`` that of the pairs.

    References:
        Koehn (2004), Pharaoh; the format is written by fast_align, eflomal and awesome-align.
    """
    for number, (document, line) in enumerate(_pair_lines(documents, lines, (texts, name))):
        if not isinstance(line, str):
            raise DataError(f"Alignments are strings such as '0-0 1-2', not of type {type(line).__name__}.")
        if not isinstance(document.pair or document.label, str):
            raise DataError(
                f"Pair {number + 1} of {texts} has one text alone; name the other with --target-column or "
                "--targets."
            )
        aligned = align_document(document, line, f"line {number + 1} of {name}", one_based=one_based)
        if aligned is not None:
            yield aligned


def align_document(document: Document, line: str, where: str, *, one_based: bool = False) -> Document | None:
    """Annotate a pair of texts with its words and the links of a line, or refuse; None if a text is blank."""
    side: Where = "target" if document.pair is None else "pair"
    second = str(document.label if document.pair is None else document.pair)
    texts: tuple[tuple[Where, str], ...] = (("text", document.text), (side, second))
    words = [[Span(*word.span(), place) for word in re.finditer(r"\S+", text)] for place, text in texts]
    first, labels = int(one_based), dict[tuple[int, int], str]()
    for part in line.split():
        match = _LINK.fullmatch(part)
        if match is None:
            raise DataError(f"{where}: {shorten(repr(part))} is no link, such as 0-2, or 0p2 if possible.")
        places = int(match[1]) - first, int(match[3]) - first
        for place, known, text in zip(places, words, ("first", "second"), strict=True):
            if not 0 <= place < len(known):
                raise DataError(
                    f"{where}: {part} names a word that the {text} text does not have: it has {len(known)} "
                    f"words, counted from {first}."
                )
        labels[places] = SURE if match[2] == "-" else labels.get(places, POSSIBLE)
    links = tuple(Link(words[0][k], words[1][m], label) for (k, m), label in labels.items())
    return replace(document, annotation=Annotation((*words[0], *words[1]), links)) if all(words) else None


def read_as_pairs(documents: Iterable[Document]) -> Iterator[Document]:
    """Move a label that is a text to the second text of a pair; other documents pass unchanged."""

    def move(span: Span) -> Span:
        return replace(span, where="pair") if span.where == "target" else span

    def move_link(link: Link) -> Link:
        return replace(link, source=move(link.source), target=move(link.target))

    for document in documents:
        if document.pair is not None or not isinstance(document.label, str):
            yield document
            continue
        if (known := document.annotation) is not None:
            words, links = tuple(map(move, known.words)), tuple(map(move_link, known.links))
            known = replace(known, words=words, links=links)
        yield replace(document, pair=document.label, label=None, annotation=known)
