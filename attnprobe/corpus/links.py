"""Words and gold links, by the characters of their texts: read from rows of JSON, and asked of mentions."""

from bisect import bisect_right
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise
from numbers import Integral, Real
from typing import Any, get_args

from attnprobe.corpus.document import POSSIBLE, SEVERAL, Annotation, Document, Link, Span, Where
from attnprobe.corpus.streams import check_unicode, shorten
from attnprobe.errors import DataError

#: So many labels are named where one is not found.
_NAMED = 50


def filter_links(
    documents: Iterable[Document],
    name: str,
    *,
    labels: Sequence[str] | None = None,
    fold: bool = False,
    nothing: str = "it holds no links",
) -> Iterator[Document]:
    """Keep the links that have one of some labels, or all, and refuse a source without a single link.

    With ``fold``, ``nsubj:pass`` counts as ``nsubj``. ``nothing`` says what is wrong where there is no link.
    """
    seen: set[str] = set()
    for document in documents:
        if (annotation := document.annotation) is None:
            yield document
            continue
        links = [_fold_label(link) for link in annotation.links] if fold else annotation.links
        seen.update(*(link.label.split(SEVERAL) for link in links))
        if labels is not None:
            links = [kept for link in links if (kept := _filter_labels(link, labels)) is not None]
        yield replace(document, annotation=replace(annotation, links=tuple(links)))
    if not seen:
        raise DataError(f"{name} can't be asked about: {nothing}.")
    if missing := [label for label in labels or () if label not in seen]:
        named = sorted(seen - {""})
        more = f" and {len(named) - _NAMED} more" if len(named) > _NAMED else ""
        there = ", ".join(named[:_NAMED]) + more
        there = there or "only links without a label"
        subtype = fold and fold_subtype(missing[0]) in seen
        hint = ", and --subtypes tells their subtypes apart" if subtype else ""
        names = " or ".join(map(repr, missing))
        raise DataError(f"{name} has no link called {names}; it has {there}{hint}.")


def fold_subtype(relation: str) -> str:
    """Give the relation that a subtype belongs to.

    >>> fold_subtype("nsubj:pass"), fold_subtype("nsubj")
    ('nsubj', 'nsubj')
    """
    return relation.partition(":")[0]


def _fold_label(link: Link) -> Link:
    return replace(link, label=SEVERAL.join(map(fold_subtype, link.label.split(SEVERAL))))


def _filter_labels(link: Link, labels: Sequence[str]) -> Link | None:
    left = [label for label in link.label.split(SEVERAL) if label in labels]
    return replace(link, label=SEVERAL.join(left)) if left else None


#: A run of letters, digits and underscores with the marks that combine with them; else one character, as a
#: reader sees it. Blanks, control characters and marks of direction are no words.
_WORD = r"(?!\p{Cf})\w+|(?![\s\p{Cc}\p{Cf}])\X"


@cache
def _pattern() -> Any:
    import regex  # whose \w knows the marks of every script; that of re parts हिन्दी in four

    return regex.compile(_WORD)


def find_words(text: str, borders: Iterable[int] = (), where: Where = "text") -> tuple[Span, ...]:
    r"""Find the words of a text: runs of letters and digits, and every other visible character alone.

    ``borders``: characters before which a word ends, so that the ends of links lie between words: atoms of
    "CCl", or words of a language that puts no blanks between them.

    Returns:
        The words in their order. None overlaps another.

    >>> text = "CC(=O)Cl"
    >>> [text[word.start : word.stop] for word in find_words(text, borders=[0, 1, 2])]
    ['C', 'C', '(', '=', 'O', ')', 'Cl']
    """
    cuts, found = sorted(set(borders)), []
    for match in _pattern().finditer(text):
        start, stop = match.span()
        inside = cuts[bisect_right(cuts, start) : bisect_right(cuts, stop - 1)] if cuts else []
        found += [Span(*ends, where) for ends in pairwise((start, *inside, stop))]
    return tuple(found)


def complete_words(annotation: Annotation, texts: Mapping[Where, str]) -> Annotation:
    """Give the words of the texts whose words an annotation does not name, as ``find_words`` finds them.

    Returns:
        The same with the words of every text, text by text, each word once and in order.
    """
    given: dict[Where, set[Span]] = {where: set() for where in texts}
    for word in annotation.words:
        given.setdefault(word.where, set()).add(word)
    borders: dict[Where, set[int]] = {}
    links = unique_links(annotation.links)
    for link in links:
        for span in (link.source, link.target, *link.candidates, *link.also):
            borders.setdefault(span.where, set()).update((span.start, span.stop))
    found: list[Span] = []
    for where, words in given.items():
        in_order = sorted(words, key=lambda span: (span.start, span.stop))
        found += in_order or find_words(texts.get(where, ""), borders.get(where, ()), where)
    return replace(annotation, words=tuple(found), links=links)


def unique_links(links: Iterable[Link]) -> tuple[Link, ...]:
    """Give each link once, whatever the order of its answers; one that is sure is not possible too."""
    known: dict[Any, Link] = {}
    for link in links:
        labels = link.label.split(SEVERAL)
        named = frozenset(labels) - {"", POSSIBLE}
        answers = link.target, frozenset(link.also), frozenset(link.candidates)
        key = (link.source, *answers, named, link.guesses)
        if key not in known or POSSIBLE not in labels:
            known[key] = link
    return tuple(known.values())


LINKS = "links"
#: What a link may say.
LINK_KEYS = ("source", "target", "label", "candidates", "also", "source_in", "target_in", "possible")
#: Columns of texts, and of the words of each.
TEXT_COLUMNS: dict[Where, str] = {"text": "text", "pair": "text_pair", "target": "target"}
WORD_COLUMNS: dict[Where, str] = {"text": "words", "pair": "words_pair", "target": "words_target"}


def read_annotation(cells: Mapping[str, Any], where: str, texts: Mapping[Where, str]) -> Annotation | None:
    """Read the words and links of a row.

    Words are ``[start, end]``; links are objects with ``source``, ``target``, ``label`` and, where only some
    spans count as answers, ``candidates``; ``also`` holds further right answers. Characters count from 0 in
    Unicode code points, ends exclusive. ``source_in`` and ``target_in`` say in which text a span lies:
    ``text`` (the default), ``pair`` or ``target``; candidates and further answers lie where the target does.
    A link that is ``possible``, true or false, has the label ``POSSIBLE`` beside its own.
    A text whose words are not named has those that ``find_words`` finds.

    Returns:
        Its annotation, or None where it has neither words nor links.
    """
    if all(cells.get(column) is None for column in (LINKS, *WORD_COLUMNS.values())):
        return None
    words = [
        word
        for text, column in WORD_COLUMNS.items()
        for word in _read_words(
            _read_list(cells.get(column), f"{column} must be a list of spans", where), text, where, texts
        )
    ]
    links = _read_list(cells.get(LINKS), "links must be a list of objects", where)
    found = Annotation(tuple(words), tuple(_read_link(link, where, texts) for link in links))
    return complete_words(found, texts)


def read_linked_rows(rows: Iterable[Any], group: str | None = None) -> Iterator[Document]:
    """Read rows that a program holds: mappings as a line of JSON has them, or documents.

    ``rows``: mappings with ``text`` and ``links``, and with what else ``read_annotation`` reads; or
    documents with an annotation, whose words are found where it names none.
    """
    for number, row in enumerate(rows):
        found = _read_row(row, f"text {number}")
        value = None if group is None or not isinstance(row, Mapping) else row.get(group)
        yield found if value is None else replace(found, stratum=str(value))


def _read_row(row: Any, where: str) -> Document:
    if isinstance(row, Document):
        if row.annotation is None or not row.annotation.links:
            return row
        target = row.label if isinstance(row.label, str) else None
        texts = list_texts(row.text, row.pair, target)
        return replace(row, annotation=complete_words(row.annotation, texts))
    if not isinstance(row, Mapping):
        raise DataError(
            f"{where} is of type {type(row).__name__}; give dicts with text and links, or documents."
        )
    text, pair, target = (_read_text(row.get(column), column, where) for column in TEXT_COLUMNS.values())
    if text is None:
        raise DataError(f"{where} has no text; give it as text.")
    return Document(text, pair, target, read_annotation(row, where, list_texts(text, pair, target)))


def list_texts(text: str, pair: str | None, target: str | None) -> dict[Where, str]:
    """Give the texts that are there, by what they are."""
    every: dict[Where, str | None] = {"text": text, "pair": pair, "target": target}
    return {where: found for where, found in every.items() if found is not None}


def _read_text(cell: Any, column: str, where: str) -> str | None:
    if cell is None:
        return None
    if not isinstance(cell, str):
        raise DataError(f"{where}: {column} must be a string, not of type {type(cell).__name__}.")
    return check_unicode(cell, where) if cell.strip() else None


def _read_words(words: list[Any], text: Where, where: str, texts: Mapping[Where, str]) -> list[Span]:
    found = sorted({_read_span(word, text, where, texts) for word in words}, key=lambda word: word.start)
    for one, other in pairwise(found):
        if other.start < one.stop:
            raise DataError(
                f"{where}: the words [{one.start}, {one.stop}] and [{other.start}, {other.stop}] of its "
                f"{text} overlap."
            )
    return found


def _read_link(link: Any, where: str, texts: Mapping[Where, str]) -> Link:
    if not isinstance(link, Mapping) or link.get("source") is None or link.get("target") is None:
        raise DataError(f"{where}: a link must be an object with source and target, not {_quote(link)}.")
    if unknown := [key for key in link if key not in LINK_KEYS and link[key] is not None]:
        raise DataError(
            f"{where}: a link has the key {_quote(unknown[0])}, which means nothing; its keys are "
            f"{', '.join(LINK_KEYS)}."
        )
    begins = _read_side(link.get("source_in"), "source_in", where)
    ends = _read_side(link.get("target_in"), "target_in", where)
    candidates, also = (
        tuple(
            _read_span(one, ends, where, texts)
            for one in _read_list(link.get(name), f"{name} of a link must be a list of spans", where)
        )
        for name in ("candidates", "also")
    )
    source, target = (
        _read_span(link["source"], begins, where, texts),
        _read_span(link["target"], ends, where, texts),
    )
    if candidates and not {target, *also} <= set(candidates):
        missing = next(one for one in (target, *also) if one not in candidates)
        raise DataError(
            f"{where}: [{missing.start}, {missing.stop}] is a right answer of a link, but not among its "
            "candidates."
        )
    also = tuple(one for one in dict.fromkeys(also) if one != target)
    label = _read_label(link.get("label"), where)
    if _read_possible(link.get("possible"), where):
        label = f"{label}{SEVERAL}{POSSIBLE}" if label else POSSIBLE
    return Link(source, target, label, tuple(dict.fromkeys(candidates)), also)


def _read_possible(cell: Any, where: str) -> bool:
    if cell is None or isinstance(cell, bool) or type(cell).__name__ == "bool_":  # numpy's
        return bool(cell)
    raise DataError(f"{where}: possible of a link must be true or false, not {_quote(cell)}.")


def _read_label(label: Any, where: str) -> str:
    if isinstance(label, str):
        return check_unicode(label, f"{where}: the label of a link")
    if label is None:
        return ""
    if isinstance(label, Real) and not isinstance(label, bool):
        return str(label)
    raise DataError(f"{where}: the label of a link must be a string, not {_quote(label)}.")


def _read_side(name: Any, key: str, where: str) -> Where:
    for side in get_args(Where):
        if side == ("text" if name is None else name):
            return side
    raise DataError(f"{where}: {key} must be text, pair or target, not {_quote(name)}.")


def _read_span(ends: Any, text: Where, where: str, texts: Mapping[Where, str]) -> Span:
    if text not in texts:
        column = TEXT_COLUMNS[text]
        raise DataError(f"{where}: the span {_quote(ends)} lies in {column}, which is not there.")
    length = len(texts[text])
    plain = ends.tolist() if hasattr(ends, "tolist") else ends
    if (
        isinstance(plain, list | tuple)
        and len(plain) == 2
        and all(isinstance(end, Integral) and not isinstance(end, bool) for end in plain)
    ):
        start, stop = int(plain[0]), int(plain[1])
        if 0 <= start < stop <= length:
            return Span(start, stop, text)
    raise DataError(f"{where}: {_quote(ends)} is no span of its {text}, which has {length} characters.")


def _read_list(cell: Any, rule: str, where: str) -> list[Any]:
    plain = cell.tolist() if hasattr(cell, "tolist") else cell
    if plain is None:
        return []
    if not isinstance(plain, list | tuple):
        raise DataError(f"{where}: {rule}, not {_quote(plain)}.")
    return list(plain)


def _quote(cell: Any) -> str:
    return shorten(repr(cell))


#: Kinds of mention, as the labels of links have them.
PRONOUN, PROPER, NOMINAL, OTHER = "pronoun", "proper", "nominal", "other"
#: What simple rules are called.
NEAREST, SAME_WORD, SAME_HEAD, SAME_STRING = "nearest", "same last word", "same head word", "same string"
FIRST = "first"
#: How many mentions back an antecedent is looked for in a document. A window of text holds fewer, and memory
#: would grow with the square of their number.
REACH = 1000


@dataclass(frozen=True, slots=True)
class Mention:
    """Something that is spoken of."""

    head: Span
    last: str
    entity: Hashable
    kind: str = OTHER
    head_word: str = ""
    text: str = ""

    def spell(self) -> tuple[str, str]:
        """Give the head word and the text, letter case set aside."""
        word = self.head_word or self.last
        return word.casefold(), (self.text or word).casefold()


def link_antecedent(source: Mention, others: Sequence[Mention], label: str) -> Link | None:
    """Ask a mention for its antecedent among others.

    The head words of the others are the candidates; those that share characters with the head word of the
    source are left out. All of the same entity are right; the target is the nearest of them. Simple rules
    guess too, letter case set aside: the nearest candidate, by the characters between, the nearest of each
    kind, and the first of all; the first earlier mention that ends in the same word; the nearest earlier one
    with the same head word; and the nearest earlier one with all words the same, or else the same head word.
    If a guess does not lie in the window of text that a model reads, the first one that does is the guess of
    the rule: they are given one after the other.

    ``others``: those it can choose from, in the order of their head words.

    Returns:
        The link, or None where nothing is asked: none of the candidates is right, or there is only one.
    """
    apart = [one for one in others if _measure_gap(one.head, source.head) >= 0]
    candidates = tuple(dict.fromkeys(one.head for one in apart))
    right = {one.head: None for one in apart if one.entity == source.entity}
    if not right or len(candidates) < 2:
        return None

    def distance(span: Span) -> int:
        return _measure_gap(span, source.head)

    target = min(right, key=distance)
    word = source.last.casefold()
    earlier = [one for one in apart if one.head.stop <= source.head.start]
    same = dict.fromkeys(one.head for one in earlier if one.last.casefold() == word)
    guesses = [(NEAREST, min(candidates, key=distance)), *((SAME_WORD, span) for span in same)]
    guesses.append((FIRST, candidates[0]))
    (head, text), known = source.spell(), dict[str, Span]()
    for one in sorted(apart, key=lambda one: distance(one.head)):
        if one.kind != OTHER:
            known.setdefault(f"{NEAREST} {one.kind}", one.head)
        if one.head.stop <= source.head.start:
            spelled = one.spell()
            if spelled[1] == text:
                known.setdefault(SAME_STRING, one.head)
            if spelled[0] == head:
                known.setdefault(SAME_HEAD, one.head)
    guesses += known.items()
    if SAME_HEAD in known:
        guesses.append((SAME_STRING, known[SAME_HEAD]))
    also = tuple(span for span in right if span != target)
    return Link(source.head, target, label, candidates, also, tuple(guesses))


def link_mentions(mentions: Sequence[Mention]) -> list[Link]:
    """Ask every mention of a text for its antecedent among the ``REACH`` before it.

    Before a mention stand those whose head words stand before its own.

    Returns:
        A link for each mention that has an antecedent within reach, and another mention to choose from.
    """
    ordered = sorted(mentions, key=lambda one: one.head.start)
    links = (
        link_antecedent(source, ordered[max(0, place - REACH) : place], source.kind)
        for place, source in enumerate(ordered)
    )
    return [link for link in links if link is not None]


def _measure_gap(one: Span, other: Span) -> int:
    """Count the characters between two spans; negative where they share some."""
    return max(other.start - one.stop, one.start - other.stop)
