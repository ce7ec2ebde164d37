"""Words and dependencies of CoNLL-U sentences, by the characters of their text."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from attnprobe.corpus.sources.annotation import Annotation, Link, Span
from attnprobe.corpus.sources.document import Tagged

Token = Mapping[str, Any]

#: The head of a sentence's root.
_ROOT = 0


def annotated_sentence(tokens: Sequence[Token], text: str | None) -> tuple[str, Annotation, int]:
    """Find the words of a sentence in its text, and link each to the head it depends on.

    A word inside a multi-word token, such as "du" for "de le", covers the whole of it; the token is one of
    the words once. No relation inside such a token is a link, since both of its ends are the same. Empty
    nodes stand for nothing in the text and are left out, and so are links from or to them.

    Args:
        tokens: The lines of the sentence.
        text: Its text; put together from the forms where it is missing or holds other forms.

    Returns:
        The text; its words in their order with a link a dependent: source the dependent, target its head,
        label the relation; and how many relations are no link because they lie inside a token.
    """
    text, spans = placed(tokens, text)
    links, inside = [], 0
    for token in tokens:
        number, head = token["id"], token.get("head")
        if not isinstance(number, int) or not isinstance(head, int) or head == _ROOT or head not in spans:
            continue
        if spans[number] == spans[head]:
            inside += 1
        else:
            links.append(Link(spans[number], spans[head], _said(token.get("deprel"))))
    words = tuple(dict.fromkeys(spans.values()))
    return text, Annotation(words, tuple(links)), inside


def _said(cell: Any) -> str:
    return "" if cell in (None, "_") else str(cell)


def folded(relation: str) -> str:
    """Give the relation that a subtype belongs to.

    >>> folded("nsubj:pass"), folded("nsubj")
    ('nsubj', 'nsubj')
    """
    return relation.partition(":")[0]


def tagged_sentence(tokens: Iterable[Token], column: str) -> Tagged | None:
    """Give the words of a sentence with what a column says of each; None where it says nothing.

    Words are those that have a number of their own, "de" and "le" rather than "du". A word of which the
    column says nothing (``_``) does not count.
    """
    words = [token for token in tokens if isinstance(token["id"], int)]
    tags = [None if token[column] in (None, "_", "") else str(token[column]) for token in words]
    if all(tag is None for tag in tags):
        return None
    return Tagged(tuple(token["form"] for token in words), tuple(tags))


def placed(tokens: Iterable[Token], text: str | None) -> tuple[str, dict[int, Span]]:
    """Give the text of a sentence, and the span of each word by its number.

    Args:
        tokens: The lines of the sentence.
        text: What ``# text`` says. It is believed if it is made of the forms, in their order, with nothing
            but blanks between them; otherwise the forms and ``SpaceAfter=No`` make the text.
    """
    surface = list(_surface(tokens))
    places = _found(surface, text) if text else None
    if text is None or places is None:
        text, places = _joined(surface)
    spans = {}
    for (_, _, numbers), span in zip(surface, places, strict=True):
        spans.update(dict.fromkeys(numbers, span))
    return text, spans


def joined_forms(tokens: Iterable[Token]) -> str:
    """Join the surface forms: a multi-word token such as 3-4 stands for the words it covers."""
    return _joined(list(_surface(tokens)))[0].strip()


def glued(tokens: Iterable[Token]) -> bool:
    """Tell whether no blank follows a sentence, which ``SpaceAfter=No`` of its last form says."""
    return not ([blank for _, blank, _ in _surface(tokens)] or [True])[-1]


def _found(surface: Sequence[tuple[str, bool, range]], text: str) -> list[Span] | None:
    """Look the forms up in a text; None where it does not hold them, and nothing else, in their order."""
    spans, place = [], 0
    for form, _, _ in surface:
        start = text.find(form, place)
        if start < 0 or text[place:start].strip():
            return None
        place = start + len(form)
        spans.append(Span(start, place))
    return None if text[place:].strip() else spans


def _joined(surface: Sequence[tuple[str, bool, range]]) -> tuple[str, list[Span]]:
    """Put the forms together, with blanks where they belong."""
    parts, spans, place = [], [], 0
    for form, blank, _ in surface:
        spans.append(Span(place, place + len(form)))
        parts += [form, " " * blank]
        place = spans[-1].stop + blank
    return "".join(parts[:-1]), spans


def _surface(tokens: Iterable[Token]) -> Iterator[tuple[str, bool, range]]:
    """Give each form that stands in the text, whether a blank follows, and the numbers of its words."""
    covered = 0
    for token in tokens:
        match token["id"]:
            case (_, ".", _):  # an empty node: inferred, not in the text
                continue
            case (first, "-", last):
                covered, numbers = last, range(first, last + 1)
            case int(number) if number <= covered:
                continue
            case number:
                numbers = range(number, number + 1)
        yield token["form"], (token.get("misc") or {}).get("SpaceAfter") != "No", numbers
