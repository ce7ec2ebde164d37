"""Words and gold links of what a decoder beside an encoder reads, and between the two.

A decoder reads its text one place later than it writes it: behind a token to begin with, and without the last
one. So every word is one place later, and the words whose last token falls off are not there.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import chain

from attnprobe.attention.annotation import TokenAnnotation, TokenLink, TokenSpan
from attnprobe.corpus.sources.annotation import Annotation, Link, Span, Where
from attnprobe.corpus.tokens.annotation import Alignment, Window, form_of, link_of, ordered


@dataclass(frozen=True, slots=True)
class Awaited:
    """What is said of a document of which only the texts for the encoder are tokenised yet.

    Attributes:
        annotation: Of all its texts.
        window: Finds spans of the texts for the encoder.
    """

    annotation: Annotation
    window: Window

    @property
    def links(self) -> list[Link]:
        """The links with an end in what the decoder reads."""
        return [link for link in self.annotation.links if awaits(link)]


@dataclass(frozen=True, slots=True)
class Beside:
    """What is known of a sequence that a decoder beside an encoder reads.

    Attributes:
        decoder: Its words and the links between them.
        cross: Its words, those of what the encoder reads as ``keys``, and the links between the two.
        lost: Links whose ends are not both there.
        unasked: Links from the encoder that name candidates, which an encoder can't choose from: nothing in
            it attends to the decoder.
    """

    decoder: TokenAnnotation
    cross: TokenAnnotation
    lost: int = 0
    unasked: int = 0


def awaits(link: Link) -> bool:
    """Tell whether a link has an end in what the decoder reads."""
    return "target" in {link.source.where, link.target.where}


def beside_itself(encoder: TokenAnnotation, length: int) -> Beside:
    """Annotate a decoder that reads what the encoder does.

    Every link is there in the decoder; and between the two twice, forward from its source in the decoder, and
    backward from its target in the decoder.

    Args:
        encoder: The words and links of the sequence.
        length: How many tokens the decoder reads.
    """
    later = partial(_later, length=length)
    # Those that are left are the first ones, as words are ordered by their ends.
    words = tuple(moved for word in encoder.words if (moved := later(word)) is not None)
    forms = encoder.forms[: len(words)]
    across = chain.from_iterable(
        (link_of(link, later, _as_it_is, "forward"), link_of(link, _as_it_is, later, "backward"))
        for link in encoder.links
    )
    inside = _some(link_of(link, later, later) for link in encoder.links)
    cut = encoder.cut or len(words) < len(encoder.words)
    return Beside(
        TokenAnnotation(words, inside, cut=cut, forms=forms),
        TokenAnnotation(
            words,
            _some(across),
            keys=encoder.words,
            same=True,
            forms=forms,
            key_forms=encoder.forms,
        ),
    )


def beside_another(
    encoder: TokenAnnotation, awaited: Awaited, text: str, target: Alignment, length: int
) -> Beside:
    """Annotate a decoder that reads a text of its own.

    Args:
        encoder: The words and links of the sequence that the encoder reads.
        awaited: What is said of the document.
        text: The decoder's text.
        target: Its tokens, before they are put one place later.
        length: How many tokens the decoder reads.
    """

    def read(span: Span) -> TokenSpan | None:
        found = target.tokens(span)
        return None if found is None else _later(found, length)

    find: Callable[[Span], TokenSpan | None] = awaited.window.find
    inside, across, lost, unasked = list[TokenLink](), list[TokenLink](), 0, 0
    for link in awaited.links:
        begins, ends = (span.where == "target" for span in (link.source, link.target))
        if begins and ends:
            found = link_of(link, read, read)
        elif begins:
            found = link_of(link, read, find, "forward")
        elif link.candidates:
            unasked += 1
            continue
        else:
            found = link_of(link, find, read, "backward")
        if found is None:
            lost += 1
        else:
            (inside if begins and ends else across).append(found)
    spans = [word for word in awaited.annotation.words if target.had(word)]
    texts: Mapping[Where, str] = {"target": text}
    found = [(here, form_of(word, texts)) for word in spans if (here := read(word)) is not None]
    (words, forms), cut = ordered(found), len(found) < len(spans)
    keys = {"keys": encoder.words, "key_forms": encoder.forms}
    return Beside(
        TokenAnnotation(words, tuple(inside), cut=cut, forms=forms),
        TokenAnnotation(words, tuple(across), forms=forms, **keys),
        lost,
        unasked,
    )


def _later(span: TokenSpan, length: int) -> TokenSpan | None:
    return TokenSpan(span.start + 1, span.stop + 1) if span.stop < length else None


def _as_it_is(span: TokenSpan) -> TokenSpan:
    return span


def _some(links: Iterable[TokenLink | None]) -> tuple[TokenLink, ...]:
    return tuple(link for link in links if link is not None)
