"""Annotation by tokens: from the characters of a document to positions in its sequences."""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Any, NamedTuple
from zlib import crc32

from attnprobe.attention.tokens import Asks, TokenAnnotation, TokenLink, TokenSpan, TokenTag
from attnprobe.corpus.document import Annotation, Link, Span, Where

#: The first character of each token and the one behind its last; (0, 0) for tokens of no text.
Offsets = Sequence[tuple[int, int]]
#: Finds a span in a sequence; None where it is not there whole.
Find = Callable[[Any], TokenSpan | None]


class Alignment:
    """The tokens of a document by their characters; a span has the tokens that share characters with it."""

    def __init__(self, offsets: Mapping[Where, Offsets], whole: "Alignment | None" = None) -> None:
        """Take the offsets of each text's tokens; ``whole`` are those of texts before truncation."""
        self._whole = whole
        self._tokens = {
            where: [(place, *ends) for place, ends in enumerate(tokens) if ends[1] > ends[0]]
            for where, tokens in offsets.items()
        }

    def tokens(self, span: Span) -> TokenSpan | None:
        """Find the tokens of a span; None where there are none, or truncation cut one off."""
        remaining = self._find_uncut(span)
        before = remaining if self._whole is None or remaining is None else self._whole.tokens(span)
        if remaining is None or before is None:
            return None
        # Several tokens may share a character, so that those left do not show whether one is missing.
        return remaining if before.stop - before.start == remaining.stop - remaining.start else None

    @property
    def second(self) -> int:
        """The place of the second text's first token; 0 where there is none."""
        pair = self._tokens.get("pair")
        return pair[0][0] if pair else 0

    def has_tokens(self, span: Span) -> bool:
        """Tell whether a span has tokens, or had some before truncation."""
        return (self._whole or self)._find_uncut(span) is not None

    def _find_uncut(self, span: Span) -> TokenSpan | None:
        known = self._tokens.get(span.where, [])
        first = bisect_right(known, span.start, key=itemgetter(2))
        last = bisect_left(known, span.stop, key=itemgetter(1))
        return None if first >= last else TokenSpan(known[first][0], known[last - 1][0] + 1)


def tag_tokens(
    tags: Iterable[tuple[Span, str | int]], offsets: Offsets, room: int, at: int
) -> tuple[TokenTag, ...]:
    """Tag the first token that ends in each word, if among the first ``room``; ``at`` is added to places."""
    ends, tagged = [stop for _, stop in offsets[:room]], []
    for word, name in tags:
        first = bisect_right(ends, word.start - 1)
        if first < len(ends) and offsets[first][0] < word.stop:
            tagged.append(TokenTag(first + at, name))
    return tuple(tagged)


class Window(NamedTuple):
    """The tokens of a document from ``first`` up to ``last``, which are in a sequence from ``at`` on."""

    alignment: Alignment
    first: int
    last: int
    at: int

    def find(self, span: Span) -> TokenSpan | None:
        return self.move(self.alignment.tokens(span))

    def move(self, span: TokenSpan | None) -> TokenSpan | None:
        """Move a span from the document's tokens to the sequence; None where it is not inside."""
        if span is None or span.start < self.first or span.stop > self.last:
            return None
        by = self.at - self.first
        return TokenSpan(span.start + by, span.stop + by)


def split_annotation(
    annotation: Annotation, windows: Sequence[Window], texts: Mapping[Where, str]
) -> Iterator[TokenAnnotation]:
    """Give the annotation of each window of a document: the words and links that lie in it whole."""
    starts = [window.first for window in windows]
    alignment = windows[0].alignment
    words: list[list[tuple[Span, TokenSpan]]] = [[] for _ in windows]
    links: list[list[TokenLink]] = [[] for _ in windows]
    places = {word: alignment.tokens(word) for word in annotation.words}
    for word, place in places.items():
        number = -1 if place is None else bisect_right(starts, place.start) - 1
        if (here := windows[number].move(place)) is not None:
            words[number].append((word, here))
    for link in annotation.links:
        place = places.get(link.source) or alignment.tokens(link.source)
        number = -1 if place is None else bisect_right(starts, place.start) - 1
        find = windows[number].find
        if place is not None and (converted := convert_link(link, find, find)) is not None:
            links[number].append(converted)
    whole = sum(map(alignment.has_tokens, places))
    for window, inside, between in zip(windows, words, links, strict=True):
        yield TokenAnnotation(
            **_describe_words(inside, annotation, texts),
            links=tuple(between),
            number=annotation.number,
            cut=len(inside) < whole,
            second=alignment.second and window.at + alignment.second - window.first,
            numbered=tuple(map(window.move, places.values())) if annotation.numbered else (),
        )


def _describe_words(
    words: Iterable[tuple[Span, TokenSpan]], annotation: Annotation, texts: Mapping[Where, str]
) -> dict[str, Any]:
    """Give fields of ``TokenAnnotation``: words ordered by ends, hashes of spellings, and parts of speech.

    Of several words with the same tokens, the first counts. If no part of speech is known, that field is
    empty.
    """
    first: dict[TokenSpan, Span] = {}
    for word, here in words:
        first.setdefault(here, word)
    spans = sorted(first, key=lambda here: (here.stop, here.start))
    ordered = [first[here] for here in spans]
    spelled = (texts[word.where][word.start : word.stop] for word in ordered)
    parts = tuple(annotation.parts_of_speech.get(word, "") for word in ordered)
    return {
        "words": tuple(spans),
        "forms": tuple(crc32(form.encode(errors="replace")) for form in spelled),
        "parts_of_speech": parts if any(parts) else (),
    }


def convert_link(link: Link | TokenLink, source: Find, target: Find, asks: Asks = "both") -> TokenLink | None:
    """Convert a link to tokens; None without source, right or wrong answers, or backward with candidates."""
    begins = source(link.source)
    if begins is None or (asks == "backward" and link.candidates):
        return None
    right = find_spans(target, (link.target, *link.also))
    if asks == "both":  # within one sequence
        right = tuple(span for span in right if span != begins)
    if not right:
        return None
    if not (link.candidates or link.guesses):  # as most are, of a treebank
        return TokenLink(begins, right[0], link.label, (), right[1:], (), asks)
    candidates = find_spans(target, link.candidates)
    if len(candidates) < len(link.candidates) and set(candidates) <= set(right):
        return None
    rules = () if asks == "backward" else link.guesses
    guesses = tuple((rule, here) for rule, guess in rules if (here := target(guess)) is not None)
    return TokenLink(begins, right[0], link.label, candidates, right[1:], guesses, asks)


def find_spans(find: Find, spans: Iterable[Any]) -> tuple[TokenSpan, ...]:
    """Find the spans that are in a sequence whole."""
    return tuple([here for span in spans if (here := find(span)) is not None])


# ---- the texts of decoders beside an encoder


class PendingLinks(NamedTuple):
    """The annotation of a document whose target has no tokens yet; ``window`` finds the encoder's spans."""

    annotation: Annotation
    window: Window

    @property
    def links(self) -> list[Link]:
        return [link for link in self.annotation.links if link.elsewhere]

    @property
    def unasked(self) -> int:
        """The number of links with candidates that go backward, from the encoder's text."""
        return sum(bool(link.candidates) and link.source.where != "target" for link in self.links)


def annotate_shifted(encoder: TokenAnnotation, length: int) -> tuple[TokenAnnotation, TokenAnnotation]:
    """Annotate a decoder of ``length`` tokens, the encoder's one place later, and its cross-attention.

    Each link is within the decoder, and twice across: forward and backward, if its tokens are there.
    """

    def later(span: TokenSpan) -> TokenSpan | None:
        return TokenSpan(span.start + 1, span.stop + 1) if span.stop < length else None

    def keep(span: TokenSpan) -> TokenSpan:
        return span

    inside = [convert_link(link, later, later) for link in encoder.links]
    across = []
    for link in encoder.links:
        across.append(convert_link(link, later, keep, "forward"))
        across.append(convert_link(link, keep, later, "backward"))
    words = find_spans(later, encoder.words)  # the first ones, as words are ordered by their ends
    known = {"words": words, "forms": encoder.forms[: len(words)]}
    known["parts_of_speech"] = encoder.parts_of_speech[: len(words)]
    cut = encoder.cut or len(words) < len(encoder.words)
    decoder = TokenAnnotation(links=tuple(filter(None, inside)), cut=cut, **known)
    cross = TokenAnnotation(links=tuple(filter(None, across)), same=True, **known, **_describe_keys(encoder))
    return decoder, cross


def annotate_target(
    encoder: TokenAnnotation, awaited: PendingLinks, text: str, target: Alignment, length: int
) -> tuple[TokenAnnotation, TokenAnnotation]:
    """Annotate a decoder that reads ``length`` tokens of a ``text`` one place later, and cross-attention."""
    read, find = Window(target, 0, length - 1, 1).find, awaited.window.find
    inside, across = list[TokenLink](), list[TokenLink]()
    for link in awaited.links:
        begins, ends = (span.where == "target" for span in (link.source, link.target))
        asks: Asks = "both" if begins and ends else "forward" if begins else "backward"
        converted = convert_link(link, read if begins else find, read if ends else find, asks)
        if converted is not None:
            (inside if asks == "both" else across).append(converted)
    annotation = awaited.annotation
    words = [word for word in annotation.words if target.has_tokens(word)]
    there = [(word, here) for word in words if (here := read(word)) is not None]
    known, cut = _describe_words(there, annotation, {"target": text}), len(there) < len(words)
    decoder = TokenAnnotation(links=tuple(inside), cut=cut, **known)
    known |= {"number": encoder.number, "cut": cut or encoder.cut} | _describe_keys(encoder)
    return decoder, TokenAnnotation(links=tuple(across), **known)


def _describe_keys(encoder: TokenAnnotation) -> dict[str, Any]:
    keys = {"keys": encoder.words, "key_forms": encoder.forms}
    return keys | {"key_parts_of_speech": encoder.parts_of_speech}
