"""Words and gold links of a sequence, by its tokens."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

#: Who can be asked for whom: the source for the target, the target for the source, or both.
Asks = Literal["both", "forward", "backward"]


@dataclass(frozen=True, slots=True)
class TokenSpan:
    """Neighbouring tokens of a sequence: positions ``start`` to ``stop``, the latter not among them."""

    start: int
    stop: int


@dataclass(frozen=True, slots=True)
class TokenLink:
    """A gold link by tokens; see ``corpus.sources.document.Link``.

    Attributes:
        source: Among the queries where it is asked forward, among the keys where it is asked backward.
        target: The other way round.
        label: What kind of link it is.
        candidates: The only spans of keys that count as answers; every word where there are none.
        also: Other spans of keys that are right answers too.
        guesses: What simple rules would answer, each with its name.
        asks: Within one sequence a link is asked both ways. From a decoder to an encoder it is asked from
            the side that the decoder reads.
    """

    source: TokenSpan
    target: TokenSpan
    label: str
    candidates: tuple[TokenSpan, ...] = ()
    also: tuple[TokenSpan, ...] = ()
    guesses: tuple[tuple[str, TokenSpan], ...] = ()
    asks: Asks = "both"


@dataclass(frozen=True, slots=True)
class TokenTag:
    """The first token of a word that has a label; ``name`` is as the file spells it."""

    position: int
    name: str | int


@dataclass(frozen=True, slots=True)
class TokenAnswers:
    """Where the second text of a sequence answers the first.

    Attributes:
        spans: The answers, of which there may be none.
        characters: For each token of the sequence, where it begins and ends in the second text; None where
            it is not of that text.
    """

    spans: tuple[TokenSpan, ...]
    characters: tuple[tuple[int, int] | None, ...]


@dataclass(frozen=True, slots=True)
class TokenAnnotation:
    """The words of a sequence, the links between them, their labels and the answers, by tokens.

    Attributes:
        words: The words among the queries.
        links: The links whose ends are all there.
        tags: Words with a label.
        answers: Where a question is answered.
        keys: The words among the keys, if they are others than those among the queries.
        same: Whether ``keys`` are the words of the same text, so that each word among the queries is the one
            of the same number among the keys.
        number: Where words are known by their numbers, that of their document among all that are read.
        cut: Whether words of the text are not in the sequence, which holds a part of it.
        second: The position at which the second of two texts begins; 0 for one text.
        forms: For each word, what stands for its spelling: two are spelled alike if it is the same; empty
            where that is not known.
        key_forms: The same of ``keys``.
        numbered: Where that was asked for, each word of the document by its number; None for one that is not
            there whole.
        parts_of_speech: For each word, what it is, such as NOUN; "" for one of which nothing is said, and
            empty where that is so of all.
        key_parts_of_speech: The same of ``keys``.
    """

    words: tuple[TokenSpan, ...] = ()
    links: tuple[TokenLink, ...] = ()
    tags: tuple[TokenTag, ...] = ()
    answers: TokenAnswers | None = None
    keys: tuple[TokenSpan, ...] | None = None
    number: int | None = None
    same: bool = False
    cut: bool = False
    second: int = 0
    numbered: tuple[TokenSpan | None, ...] = ()
    forms: tuple[int, ...] = ()
    key_forms: tuple[int, ...] = ()
    parts_of_speech: tuple[str, ...] = ()
    key_parts_of_speech: tuple[str, ...] = ()

    def to_bytes(self) -> bytes:
        """Encode it, always in one layout: digests of corpora, which states and records hold, are of it.

        Parts of speech are there only where some are known.
        """
        links = [
            [
                *_list_values(link.source),
                *_list_values(link.target),
                *(link.label, link.candidates, link.also),
                [[rule, *_list_values(guess)] for rule, guess in link.guesses],
                link.asks,
            ]
            for link in self.links
        ]
        known = bool(self.parts_of_speech or self.key_parts_of_speech)
        names = [*self.__slots__][: None if known else -2]
        values = [links if name == "links" else getattr(self, name) for name in names]
        return json.dumps(values, default=_list_values, separators=(",", ":")).encode()

    @classmethod
    def from_bytes(cls, content: bytes) -> "TokenAnnotation":
        """Read what ``to_bytes`` gives."""
        words, links, tags, answers, keys, number, same, cut, second, numbered, *more = json.loads(content)
        return cls(
            _make_spans(words),
            tuple(
                TokenLink(
                    TokenSpan(*ends[:2]),
                    TokenSpan(*ends[2:]),
                    label,
                    _make_spans(candidates),
                    _make_spans(also),
                    tuple((rule, TokenSpan(*guess)) for rule, *guess in guesses),
                    asks,
                )
                for *ends, label, candidates, also, guesses, asks in links
            ),
            tuple(TokenTag(*tag) for tag in tags),
            answers
            and TokenAnswers(_make_spans(answers[0]), tuple(ends and (*ends,) for ends in answers[1])),
            None if keys is None else _make_spans(keys),
            number,
            same,
            cut,
            second,
            tuple(ends and TokenSpan(*ends) for ends in numbered),
            *map(tuple, more),  # what is known of each word
        )


def _list_values(value: Any) -> list[Any]:
    return [getattr(value, name) for name in value.__slots__]


def _make_spans(ends: Iterable[Sequence[int]]) -> tuple[TokenSpan, ...]:
    return tuple(TokenSpan(*one) for one in ends)
