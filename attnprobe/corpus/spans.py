"""Annotation by tokens: from characters of a document to positions in the sequences it becomes."""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from operator import itemgetter
from typing import Any, NamedTuple
from zlib import crc32

from attnprobe.attention.tokens import Asks, TokenAnnotation, TokenAnswers, TokenLink, TokenSpan, TokenTag
from attnprobe.corpus.document import Annotation, Link, Span, Tag, Where

#: Where each token begins and ends in its text; a token that is not of the text has (0, 0).
Offsets = Sequence[tuple[int, int]]


class Alignment:
    """The tokens of a document by their characters; a span has those it shares a character with."""

    def __init__(self, offsets: Mapping[Where, Offsets], whole: "Alignment | None" = None) -> None:
        """Know the characters of every token of each text; ``whole`` are those before some were cut off."""
        self._whole = whole
        self._tokens = {
            where: [(place, *ends) for place, ends in enumerate(found) if ends[1] > ends[0]]
            for where, found in offsets.items()
        }

    def tokens(self, span: Span) -> TokenSpan | None:
        """Find the tokens of a span; None where there are none, or truncation took one of them."""
        found = self._find_left(span)
        if self._whole is None or found is None:
            return found
        before = self._whole.tokens(span)
        # A character may be of several tokens, so that those that are left don't tell what is missing.
        whole = before is not None and before.stop - before.start == found.stop - found.start
        return found if whole else None

    @property
    def second(self) -> int:
        """The place of the first token of the second text of a pair; 0 where there is none."""
        pair = self._tokens.get("pair")
        return pair[0][0] if pair else 0

    def has_tokens(self, span: Span) -> bool:
        """Tell whether a span has tokens, or had some before they were cut off."""
        return (self._whole or self)._find_left(span) is not None

    def _find_left(self, span: Span) -> TokenSpan | None:
        known = self._tokens.get(span.where, [])
        first = bisect_right(known, span.start, key=itemgetter(2))
        last = bisect_left(known, span.stop, key=itemgetter(1))
        return None if first >= last else TokenSpan(known[first][0], known[last - 1][0] + 1)


def tag_tokens(tags: Iterable[Tag], offsets: Offsets, room: int, at: int) -> tuple[TokenTag, ...]:
    """Find the first token of each word among the first ``room`` tokens of a text, which begins at ``at``.

    A word's tokens are those that end behind the blank before it, as ``word_ids`` of tokenizers has it.
    """
    ends, found = [stop for _, stop in offsets[:room]], []
    for tag in tags:
        first = bisect_right(ends, tag.word.start - 1)
        if first < len(ends) and offsets[first][0] < tag.word.stop:
            found.append(TokenTag(first + at, tag.name))
    return tuple(found)


def find_answers(
    answers: Iterable[Span], alignment: Alignment, characters: Iterable[tuple[int, int] | None]
) -> TokenAnswers:
    """Find the answers among the tokens of a sequence; an answer that was cut is not among them."""
    return TokenAnswers(_find_spans(alignment.tokens, answers), tuple(characters))


@dataclass(frozen=True, slots=True)
class Window:
    """Neighbouring tokens of a document that make a sequence, or are part of one."""

    alignment: Alignment
    first: int
    last: int
    at: int

    def find(self, span: Span) -> TokenSpan | None:
        """Find where a span of the document is in the sequence, if it is there whole."""
        return self.move(self.alignment.tokens(span))

    def move(self, span: TokenSpan | None) -> TokenSpan | None:
        """Move a span of the document's tokens to where it is in the sequence."""
        if span is None or span.start < self.first or span.stop > self.last:
            return None
        by = self.at - self.first
        return TokenSpan(span.start + by, span.stop + by)


def hash_form(word: Span, texts: Mapping[Where, str]) -> int:
    """Give a number for the spelling of a word, the same wherever it is spelled alike."""
    return crc32(texts[word.where][word.start : word.stop].encode(errors="replace"))


def split_annotation(
    annotation: Annotation, windows: Sequence[Window], texts: Mapping[Where, str]
) -> list[TokenAnnotation]:
    """Give each window of a document the words and links that lie in it whole.

    The windows are in their order; they share the alignment, and no token.
    """
    starts = [window.first for window in windows]
    alignment = windows[0].alignment
    words: list[list[Word]] = [[] for _ in windows]
    links: list[list[TokenLink]] = [[] for _ in windows]

    def find_window(span: TokenSpan | None) -> int:
        return -1 if span is None else bisect_right(starts, span.start) - 1

    spans = [alignment.tokens(word) for word in annotation.words]
    whole = sum(map(alignment.has_tokens, annotation.words))
    for word, span in zip(annotation.words, spans, strict=True):
        number = find_window(span)
        if number >= 0 and (here := windows[number].move(span)) is not None:
            part = annotation.parts_of_speech.get(word, "")
            words[number].append(Word(here, hash_form(word, texts), part))
    for link in annotation.links:
        number = find_window(alignment.tokens(link.source))
        if number >= 0:
            find = windows[number].find
            if (found := convert_link(link, find, find)) is not None:
                links[number].append(found)
    split = []
    for here, linked, window in zip(words, links, windows, strict=True):
        known, forms, parts = order_words(here)
        split.append(
            TokenAnnotation(
                known,
                tuple(linked),
                number=annotation.number,
                cut=len(here) < whole,
                second=alignment.second and window.at + alignment.second - window.first,
                numbered=tuple(map(window.move, spans)) if annotation.numbered else (),
                forms=forms,
                parts_of_speech=parts,
            )
        )
    return split


class Word(NamedTuple):
    """A word, a number for its spelling, and its part of speech, "" where that is not known."""

    span: TokenSpan
    form: int
    part_of_speech: str


def order_words(
    words: Sequence[Word],
) -> tuple[tuple[TokenSpan, ...], tuple[int, ...], tuple[str, ...]]:
    """Order words by their ends; of words with the very same tokens the first is kept.

    So the words that remain where the last tokens are cut off are the first ones.

    Returns:
        The words, their forms, and their parts of speech (none where no word has one).
    """
    first = {word.span: word for word in reversed(words)}
    found = sorted(first.values(), key=lambda word: (word.span.stop, word.span.start))
    parts = tuple(word.part_of_speech for word in found)
    return tuple(word.span for word in found), tuple(word.form for word in found), parts if any(parts) else ()


def convert_link(
    link: Link | TokenLink,
    source: Callable[[Any], TokenSpan | None],
    target: Callable[[Any], TokenSpan | None],
    asks: Asks = "both",
) -> TokenLink | None:
    """Find a link by tokens.

    ``asks``: who can be asked. Asked backward, a link has no guesses, and one with candidates can't be
    asked.

    Returns:
        The link; None where the source or every right answer is gone, or only right answers are left.
    """
    begins = source(link.source)
    if begins is None or (asks == "backward" and link.candidates):
        return None
    right = _find_spans(target, (link.target, *link.also))
    if asks == "both":  # within one sequence
        right = tuple(span for span in right if span != begins)
    if not right:
        return None
    if not (link.candidates or link.guesses):  # as most are, of a treebank
        return TokenLink(begins, right[0], link.label, (), right[1:], (), asks)
    candidates = _find_spans(target, link.candidates)
    if len(candidates) < len(link.candidates) and set(candidates) <= set(right):
        return None
    guesses = tuple(
        (rule, here)
        for rule, guess in (() if asks == "backward" else link.guesses)
        if (here := target(guess)) is not None
    )
    return TokenLink(begins, right[0], link.label, candidates, right[1:], guesses, asks)


def _find_spans(find: Callable[[Any], TokenSpan | None], spans: Iterable[Any]) -> tuple[TokenSpan, ...]:
    return tuple([here for span in spans if (here := find(span)) is not None])


@dataclass(frozen=True, slots=True)
class PendingLinks:
    """The annotation of a document without its target's tokens; ``window`` finds the encoder's spans."""

    annotation: Annotation
    window: Window

    @property
    def links(self) -> list[Link]:
        return [link for link in self.annotation.links if involves_target(link)]


@dataclass(frozen=True, slots=True)
class DecoderAnnotation:
    """Words and links of a sequence that a decoder beside an encoder reads."""

    decoder: TokenAnnotation
    cross: TokenAnnotation
    lost: int = 0
    unasked: int = 0


def involves_target(link: Link) -> bool:
    """Tell whether a link has an end in what the decoder reads."""
    return "target" in {link.source.where, link.target.where}


def annotate_shifted(encoder: TokenAnnotation, length: int) -> DecoderAnnotation:
    """Annotate a decoder that reads the encoder's first tokens, one place later.

    Every link lies in the decoder, and twice between the two: forward and backward.
    """
    later = partial(_shift, length=length)
    # Those that are left are the first ones, as words are ordered by their ends.
    words = _find_spans(later, encoder.words)
    forms = encoder.forms[: len(words)]
    inside = (convert_link(link, later, later) for link in encoder.links)
    across = chain.from_iterable(
        (convert_link(link, later, _keep, "forward"), convert_link(link, _keep, later, "backward"))
        for link in encoder.links
    )
    inside, across = (tuple(link for link in links if link is not None) for links in (inside, across))
    cut = encoder.cut or len(words) < len(encoder.words)
    said = {"forms": forms, "parts_of_speech": encoder.parts_of_speech[: len(words)]}
    return DecoderAnnotation(
        TokenAnnotation(words, inside, cut=cut, **said),
        TokenAnnotation(words, across, same=True, **said, **_describe_keys(encoder)),
    )


def annotate_target(
    encoder: TokenAnnotation, awaited: PendingLinks, text: str, target: Alignment, length: int
) -> DecoderAnnotation:
    """Annotate a decoder that reads ``length`` tokens: a ``text`` of its own, put one place later."""

    def read(span: Span) -> TokenSpan | None:
        found = target.tokens(span)
        return None if found is None else _shift(found, length)

    find: Callable[[Span], TokenSpan | None] = awaited.window.find
    inside, across, lost, unasked = list[TokenLink](), list[TokenLink](), 0, 0
    for link in awaited.links:
        begins, ends = (span.where == "target" for span in (link.source, link.target))
        if begins and ends:
            found = convert_link(link, read, read)
        elif begins:
            found = convert_link(link, read, find, "forward")
        elif link.candidates:
            unasked += 1
            continue
        else:
            found = convert_link(link, find, read, "backward")
        if found is None:
            lost += 1
        else:
            (inside if begins and ends else across).append(found)
    spans = [word for word in awaited.annotation.words if target.has_tokens(word)]
    texts: Mapping[Where, str] = {"target": text}
    parts = awaited.annotation.parts_of_speech
    found = [
        Word(here, hash_form(word, texts), parts.get(word, ""))
        for word in spans
        if (here := read(word)) is not None
    ]
    (words, forms, known), cut = order_words(found), len(found) < len(spans)
    said = {"forms": forms, "parts_of_speech": known}
    return DecoderAnnotation(
        TokenAnnotation(words, tuple(inside), cut=cut, **said),
        TokenAnnotation(
            words,
            tuple(across),
            number=encoder.number,
            cut=cut or encoder.cut,
            **said,
            **_describe_keys(encoder),
        ),
        lost,
        unasked,
    )


def _describe_keys(encoder: TokenAnnotation) -> dict[str, Any]:
    return {
        "keys": encoder.words,
        "key_forms": encoder.forms,
        "key_parts_of_speech": encoder.parts_of_speech,
    }


def _shift(span: TokenSpan, length: int) -> TokenSpan | None:
    return TokenSpan(span.start + 1, span.stop + 1) if span.stop < length else None


def _keep(span: TokenSpan) -> TokenSpan:
    return span
