"""Annotation by tokens: from characters of a document to positions in the sequences it becomes."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter

from attnprobe.attention.annotation import (
    TokenAnnotation,
    TokenAnswers,
    TokenLink,
    TokenSpan,
    TokenTag,
)
from attnprobe.corpus.sources.annotation import Annotation, Span, Tag, Where

#: Where each token begins and ends in its text; a token that is not of the text has (0, 0).
Offsets = Sequence[tuple[int, int]]


@dataclass(frozen=True, slots=True)
class _Aligned:
    """A link whose spans were looked for among the tokens."""

    source: TokenSpan | None
    target: TokenSpan | None
    label: str
    candidates: list[TokenSpan | None]
    also: list[TokenSpan | None]
    guesses: list[tuple[str, TokenSpan | None]]


class Alignment:
    """The tokens of a document, by the characters they cover.

    A token belongs to a span if they have a character in common. A span that covers no token, such as one
    of blanks, is nowhere; so is one that goes on behind the last token of a text that was truncated.
    """

    def __init__(self, offsets: Mapping[Where, Offsets], *, truncated: bool = False) -> None:
        """Know the characters of every token of each text, in the order of the tokens."""
        self._truncated = truncated
        self._tokens = {
            where: [(place, *ends) for place, ends in enumerate(found) if ends[1] > ends[0]]
            for where, found in offsets.items()
        }

    def tokens(self, span: Span) -> TokenSpan | None:
        """Find the tokens of a span, by their places in the offsets that were given."""
        known = self._tokens.get(span.where, [])
        first = bisect_right(known, span.start, key=itemgetter(2))
        last = bisect_left(known, span.stop, key=itemgetter(1))
        if first >= last or (self._truncated and span.stop > known[-1][2]):
            return None
        return TokenSpan(known[first][0], known[last - 1][0] + 1)


def tagged_tokens(tags: Iterable[Tag], offsets: Offsets, room: int, at: int) -> tuple[TokenTag, ...]:
    """Find the first token of each word, among the first ``room`` tokens of a text.

    A word's tokens are those that end behind the blank before it, as tokenizers for words one by one have
    it (``word_ids``): a token that stands for the blank alone is the word's first. A word without a token,
    or behind the last one, is not among them.

    Args:
        tags: The words, in their order.
        offsets: Where each token of the text begins and ends.
        room: How many of the tokens are there.
        at: The position of the first of them in its sequence.
    """
    ends, found = [stop for _, stop in offsets[:room]], []
    for tag in tags:
        first = bisect_right(ends, tag.word.start - 1)
        if first < len(ends) and offsets[first][0] < tag.word.stop:
            found.append(TokenTag(first + at, tag.name))
    return tuple(found)


def answered(
    answers: Iterable[Span], alignment: Alignment, characters: Iterable[tuple[int, int] | None]
) -> TokenAnswers:
    """Find the answers among the tokens of a sequence; an answer that was cut is not among them."""
    found = (alignment.tokens(answer) for answer in answers)
    return TokenAnswers(tuple(span for span in found if span is not None), tuple(characters))


def windowed(
    annotation: Annotation, alignment: Alignment, windows: Iterable[tuple[int, int, int]]
) -> list[TokenAnnotation]:
    """Give each window of a document the words and links that lie in it whole.

    Args:
        annotation: Of the document.
        alignment: Its tokens.
        windows: For each, its first token in the document, the one behind its last, and the position that
            its first token has in the sequence.

    Returns:
        The annotation of each window. A word or a link that no window holds whole is in none.
    """
    words = [alignment.tokens(word) for word in annotation.words]
    links = [
        _Aligned(
            alignment.tokens(link.source),
            alignment.tokens(link.target),
            link.label,
            [alignment.tokens(one) for one in link.candidates],
            [alignment.tokens(one) for one in link.also],
            [(rule, alignment.tokens(guess)) for rule, guess in link.guesses],
        )
        for link in annotation.links
    ]
    return [_within(words, links, annotation.group, *window) for window in windows]


def _within(
    words: Sequence[TokenSpan | None],
    links: Sequence[_Aligned],
    group: int | None,
    first: int,
    last: int,
    at: int,
) -> TokenAnnotation:
    def moved(span: TokenSpan | None) -> TokenSpan | None:
        if span is None or span.start < first or span.stop > last:
            return None
        return TokenSpan(span.start - first + at, span.stop - first + at)

    def all_of(spans: Iterable[TokenSpan | None]) -> tuple[TokenSpan, ...]:
        return tuple(found for span in spans if (found := moved(span)) is not None)

    here = []
    for link in links:
        right = all_of([link.target, *link.also])  # of several right answers, one may lie outside
        if (source := moved(link.source)) is None or not right:
            continue
        guesses = tuple((rule, found) for rule, span in link.guesses if (found := moved(span)) is not None)
        here.append(TokenLink(source, right[0], link.label, all_of(link.candidates), right[1:], guesses))
    return TokenAnnotation(all_of(words), tuple(here), group=group)
