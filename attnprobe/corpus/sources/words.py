"""Words of a text of which nobody says where its words are."""

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import replace
from functools import cache
from itertools import pairwise
from typing import Any

from attnprobe.corpus.sources.annotation import Annotation, Link, Span, Where

#: A run of letters, digits and underscores with the marks that combine with them; else one character, as a
#: reader sees it. Blanks, control characters and marks of direction are no words.
_WORD = r"(?!\p{Cf})\w+|(?![\s\p{Cc}\p{Cf}])\X"


@cache
def _pattern() -> Any:
    import regex  # whose \w knows the marks of every script; that of re parts हिन्दी in four

    return regex.compile(_WORD)


def words_in(text: str, borders: Iterable[int] = (), where: Where = "text") -> tuple[Span, ...]:
    r"""Find the words of a text: runs of letters and digits, and every other visible character alone.

    Args:
        text: The text.
        borders: Characters before which a word ends, so that the ends of links lie between words: atoms of
            "CCl", or words of a language that puts no blanks between them.
        where: Which text of its document it is.

    Returns:
        The words in their order. None overlaps another.

    >>> text = "CC(=O)Cl"
    >>> [text[word.start : word.stop] for word in words_in(text, borders=[0, 1, 2])]
    ['C', 'C', '(', '=', 'O', ')', 'Cl']
    """
    cuts, found = sorted(set(borders)), []
    for match in _pattern().finditer(text):
        start, stop = match.span()
        inside = cuts[bisect_right(cuts, start) : bisect_right(cuts, stop - 1)] if cuts else []
        found += [Span(*ends, where) for ends in pairwise((start, *inside, stop))]
    return tuple(found)


def spans_of(link: Link) -> tuple[Span, ...]:
    """Give every span that a link names as an end."""
    return (link.source, link.target, *link.candidates, *link.also)


def worded(annotation: Annotation, texts: dict[Where, str]) -> Annotation:
    """Give the words of the texts whose words an annotation does not name, as ``words_in`` finds them.

    Args:
        annotation: Words, of some texts, and links.
        texts: All texts of the document.

    Returns:
        The same with the words of every text, text by text, each word once and in order.
    """
    given: dict[Where, set[Span]] = {where: set() for where in texts}
    for word in annotation.words:
        given.setdefault(word.where, set()).add(word)
    borders: dict[Where, set[int]] = {}
    for link in annotation.links:
        for span in spans_of(link):
            borders.setdefault(span.where, set()).update((span.start, span.stop))
    found: list[Span] = []
    for where, words in given.items():
        found += sorted(words, key=_ends) or words_in(texts.get(where, ""), borders.get(where, ()), where)
    return replace(annotation, words=tuple(found))


def _ends(span: Span) -> tuple[int, int]:
    return span.start, span.stop
