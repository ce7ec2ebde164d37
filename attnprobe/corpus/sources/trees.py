"""Words and dependencies of CoNLL-U sentences, by the characters of their text."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from attnprobe.corpus.sources.annotation import Annotation, Link, Span
from attnprobe.corpus.sources.document import Tagged

#: The head of a sentence's root.
_ROOT = 0


def annotated_sentence(tokens: Iterable[Mapping[str, Any]], text: str | None) -> tuple[str, Annotation]:
    """Find the words of a sentence in its text, and link each to the head it depends on.

    A word inside a multi-word token, such as "du" for "de le", covers the whole of it. Empty nodes stand for
    nothing in the text and are left out, and so are links from or to them.

    Args:
        tokens: The lines of the sentence.
        text: Its text; put together from the forms where it is missing or holds other forms.

    Returns:
        The text, and its words in their order with a link a dependent: source the dependent, target its head,
        label the relation.
    """
    lines = list(tokens)
    spans = _spans(lines, text)
    if spans is None:
        text = joined_forms(lines)
        spans = _spans(lines, text)
        assert spans is not None  # the text was made of them
    links = []
    for token in lines:
        number, head = token["id"], token.get("head")
        if isinstance(number, int) and isinstance(head, int) and head != _ROOT and head in spans:
            links.append(Link(spans[number], spans[head], str(token.get("deprel") or "")))
    return str(text), Annotation(tuple(spans.values()), tuple(links))


def tagged_sentence(tokens: Iterable[Mapping[str, Any]], column: str) -> Tagged | None:
    """Give the words of a sentence with what a column says of each; None where it says nothing.

    Words are those that have a number of their own, "de" and "le" rather than "du". A word of which the
    column says nothing (``_``) does not count.
    """
    words = [token for token in tokens if isinstance(token["id"], int)]
    tags = [None if token[column] in (None, "_", "") else str(token[column]) for token in words]
    if all(tag is None for tag in tags):
        return None
    return Tagged(tuple(token["form"] for token in words), tuple(tags))


def _spans(lines: list[Mapping[str, Any]], text: str | None) -> dict[int, Span] | None:
    """Give the span of each word by its number; None where the text does not hold the forms in order."""
    if not text:
        return None
    found: dict[int, Span] = {}
    place, covered, whole = 0, 0, Span(0, 0)
    for token in lines:
        number = token["id"]
        if isinstance(number, int) and number <= covered:
            found[number] = whole
            continue
        if not isinstance(number, int) and number[1] == ".":
            continue
        form = token["form"]
        start = text.find(form, place)
        if start < 0 or text[place:start].strip():
            return None
        place = start + len(form)
        whole = Span(start, place)
        if isinstance(number, int):
            found[number] = whole
        else:
            covered = number[2]
    return found


def joined_forms(tokens: Iterable[Mapping[str, Any]]) -> str:
    """Join the surface forms: a multiword token such as 3-4 stands for the words it covers."""
    return "".join(_surface(tokens)).strip()


def _surface(tokens: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    covered = 0
    for token in tokens:
        match token["id"]:
            case (_, ".", _):  # an empty node: inferred, not in the text
                continue
            case (_, "-", last):
                covered = last
            case int(number) if number <= covered:
                continue
        glued = (token.get("misc") or {}).get("SpaceAfter") == "No"
        yield token["form"] + ("" if glued else " ")
