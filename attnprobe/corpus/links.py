"""Words and gold links by the characters of their texts, as rows of JSON and parquet hold them."""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

from attnprobe.corpus.cells import Row, read_text
from attnprobe.corpus.document import POSSIBLE, SEVERAL, Annotation, Document, Link, Span, Where
from attnprobe.corpus.streams import check_unicode, shorten
from attnprobe.errors import DataError


def filter_links(
    documents: Iterable[Document],
    name: str,
    *,
    labels: Sequence[str] | None = None,
    fold: bool = False,
    nothing: str = "it holds no links",
) -> Iterator[Document]:
    """Keep the links with one of the labels, or all; ``fold`` turns ``nsubj:pass`` into ``nsubj``.

    No document is left out. A source without any link, for the reason ``nothing``, or without one of the
    labels is refused at its end.
    """
    seen: set[str] = set()
    for document in documents:
        if (annotation := document.annotation) is None:
            yield document
            continue
        links = []
        for link in annotation.links:
            names = [part.partition(":")[0] if fold else part for part in link.label.split(SEVERAL)]
            seen.update(names)
            kept = [part for part in names if labels is None or part in labels]
            if kept:
                label = SEVERAL.join(kept)
                links.append(link if label == link.label else replace(link, label=label))
        yield replace(document, annotation=replace(annotation, links=tuple(links)))
    if not seen:
        raise DataError(f"{name} can't be asked about: {nothing}.")
    if missing := [label for label in labels or () if label not in seen]:
        there = ", ".join(sorted(seen - {""})[:50]) or "only links without a label"
        hint = ", and --subtypes tells their subtypes apart" if fold and ":" in "".join(missing) else ""
        raise DataError(f"{name} has no link called {' or '.join(map(repr, missing))}; it has {there}{hint}.")


#: A run of letters, digits and underscores with combining marks, or else a single character, as a reader sees
#: it. Blanks, control characters and marks of direction are no words.
_WORD = r"(?!\p{Cf})\w+|(?![\s\p{Cc}\p{Cf}])\X"


def find_words(text: str, borders: Iterable[int] = (), where: Where = "text") -> tuple[Span, ...]:
    """Find the words of a text: runs of letters and digits, and every other visible character alone.

    Words end before the characters ``borders``, so that no link ends inside a word.
    """
    import regex  # whose \w takes the marks of every script; that of re splits हिन्दी into four

    cuts, words = sorted(set(borders)), []
    for match in regex.finditer(_WORD, text):
        start, stop = match.span()
        inside = cuts[bisect_right(cuts, start) : bisect_right(cuts, stop - 1)]
        words += [Span(*ends, where) for ends in pairwise((start, *inside, stop))]
    return tuple(words)


def complete_words(annotation: Annotation, texts: Mapping[Where, str]) -> Annotation:
    """Add the words of texts for which an annotation names none; see ``find_words``.

    Words are put in order. Each link is kept once, as sure where it is both sure and possible.
    """
    borders, links = defaultdict[Where, set[int]](set), dict[Any, Link]()
    for link in annotation.links:
        for span in (link.source, link.target, *link.candidates, *link.also):
            borders[span.where] |= {span.start, span.stop}
        labels = set(link.label.split(SEVERAL))
        answers = link.target, frozenset(link.also), frozenset(link.candidates)
        key = (link.source, answers, frozenset(labels - {"", POSSIBLE}), link.guesses)
        if key not in links or POSSIBLE not in labels:
            links[key] = link
    words: list[Span] = []
    sides: list[Where] = [*texts, *(word.where for word in annotation.words)]
    for where in dict.fromkeys(sides):
        given = {word for word in annotation.words if word.where == where}
        in_order = sorted(given, key=lambda span: (span.start, span.stop))
        words += in_order or find_words(texts[where], borders[where], where)
    return replace(annotation, words=tuple(words), links=tuple(links.values()))


LINKS = "links"
#: The keys of a link.
LINK_KEYS = ("source", "target", "label", "candidates", "also", "source_in", "target_in", "possible")
#: The columns of texts, and of their words.
TEXT_COLUMNS: dict[Where, str] = {"text": "text", "pair": "text_pair", "target": "target"}
WORD_COLUMNS: dict[Where, str] = {"text": "words", "pair": "words_pair", "target": "words_target"}


def read_annotation(cells: Mapping[str, Any], where: str, texts: Mapping[Where, str]) -> Annotation | None:
    """Read the words and links of a row, or refuse; None where it has neither.

    Words are ``[start, end]``, in Unicode code points from 0; a text without any has those of ``find_words``.
    Links are objects of ``LINK_KEYS``; candidates and further answers are in the text of the target.
    """
    row = {column: cells.get(column) for column in (LINKS, *WORD_COLUMNS.values())}
    if all(cell is None for cell in row.values()):
        return None
    try:
        row, words = _make_plain(row), list[Span]()
        for text, column in WORD_COLUMNS.items():
            ordered = sorted(set(_read_spans(row.get(column), text, texts)), key=lambda span: span.start)
            for word, behind in pairwise(ordered):
                if behind.start < word.stop:
                    raise ValueError(f"the words at {word.start} and {behind.start} of its {text} overlap")
            words += ordered
        if not isinstance(given := row.get(LINKS, []), list):
            raise ValueError(f"links must be a list, not {_quote(given)}")
        links = tuple(_read_link(link, texts) for link in given)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{where}: {error}.") from None
    for link in links:
        check_unicode(link.label, f"{where}: the label of a link")
    return complete_words(Annotation(tuple(words), links), texts)


def read_linked_rows(rows: Iterable[Any], group: str | None = None) -> Iterator[Document]:
    """Read rows in memory: mappings as of ``read_annotation``, or documents."""
    for number, row in enumerate(rows):
        where = f"text {number}"
        if isinstance(row, Document):
            known, target = row.annotation, row.label if isinstance(row.label, str) else None
            if known is not None and known.links:
                known = complete_words(known, list_texts(row.text, row.pair, target))
            yield replace(row, annotation=known)
            continue
        cells = Row(where, row if isinstance(row, Mapping) else {})
        text, pair, target = (read_text(cells, name, None) for name in TEXT_COLUMNS.values())
        if text is None:
            raise DataError(f"{where} has no text; give dicts with text and links, or documents.")
        annotation = read_annotation(row, where, list_texts(text, pair, target))
        value = None if group is None else row.get(group)
        yield Document(text, pair, target, annotation, group=None if value is None else str(value))


def list_texts(text: str, pair: str | None, target: str | None) -> dict[Where, str]:
    """Name the texts that are there by the side of a link that lies in them."""
    every: dict[Where, str | None] = {"text": text, "pair": pair, "target": target}
    return {where: text for where, text in every.items() if text is not None}


def _make_plain(cell: Any) -> Any:
    """Turn arrays and numbers of numpy in a cell into Python's, and leave keys without a value out."""
    cell = cell.tolist() if hasattr(cell, "tolist") else cell
    if isinstance(cell, Mapping):
        return {key: _make_plain(inner) for key, inner in cell.items() if inner is not None}
    return [_make_plain(inner) for inner in cell] if isinstance(cell, list | tuple) else cell


def _read_link(link: Any, texts: Mapping[Where, str]) -> Link:
    if not isinstance(link, dict) or not link.keys() >= {"source", "target"}:
        raise ValueError(f"a link must be an object with source and target, not {_quote(link)}")
    if unknown := [key for key in link if key not in LINK_KEYS]:
        raise ValueError(f"a link has the unknown key {_quote(unknown[0])}; keys are {', '.join(LINK_KEYS)}")
    label, possible = link.get("label", ""), link.get("possible", False)
    label = str(label) if type(label) in (int, float) else label
    if not isinstance(label, str) or not isinstance(possible, bool):
        raise ValueError(f"label of a link must be a string, and possible true or false, not {_quote(link)}")
    side: Any = link.get("target_in", "text")
    (source,) = _read_spans([link["source"]], link.get("source_in", "text"), texts)
    (target,) = _read_spans([link["target"]], side, texts)
    candidates, also = (
        tuple(dict.fromkeys(_read_spans(link.get(key), side, texts))) for key in ("candidates", "also")
    )
    if candidates and (missing := [span for span in (target, *also) if span not in candidates]):
        place = f"[{missing[0].start}, {missing[0].stop}]"
        raise ValueError(f"{place} is a right answer of a link, but not among its candidates")
    label = SEVERAL.join(filter(None, (label, POSSIBLE if possible else "")))
    return Link(source, target, label, candidates, tuple(span for span in also if span != target))


def _read_spans(cell: Any, text: Any, texts: Mapping[Where, str]) -> list[Span]:
    if not isinstance(cell, list | None):
        raise ValueError(f"{_quote(cell)} is no list of spans")
    if cell and text not in (*texts,):
        raise ValueError(f"a span lies in {_quote(text)}, which is none of the texts: {', '.join(texts)}")
    spans = []
    for ends in cell or ():
        length = len(texts[text])
        whole = isinstance(ends, list) and len(ends) == 2 and all(type(end) is int for end in ends)
        if not whole or not 0 <= ends[0] < ends[1] <= length:
            raise ValueError(f"{_quote(ends)} is no span of its {text}, which has {length} characters")
        spans.append(Span(ends[0], ends[1], text))
    return spans


def _quote(cell: Any) -> str:
    return shorten(repr(cell))
