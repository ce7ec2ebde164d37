"""Words and gold links of a sequence, by its tokens."""

import json
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TokenSpan:
    """Neighbouring tokens of a sequence: positions ``start`` to ``stop``, the latter not among them."""

    start: int
    stop: int


@dataclass(frozen=True, slots=True)
class TokenLink:
    """A gold link by tokens; see ``corpus.sources.annotation.Link``."""

    source: TokenSpan
    target: TokenSpan
    label: str
    candidates: tuple[TokenSpan, ...] = ()


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
    """The words of a sequence, the links between them, their labels and the answers, by tokens."""

    words: tuple[TokenSpan, ...] = ()
    links: tuple[TokenLink, ...] = ()
    tags: tuple[TokenTag, ...] = ()
    answers: TokenAnswers | None = None

    def packed(self) -> bytes:
        """Write it down."""
        words = [[word.start, word.stop] for word in self.words]
        links = [
            [*_ends(link.source), *_ends(link.target), link.label, [_ends(one) for one in link.candidates]]
            for link in self.links
        ]
        tags = [[tag.position, tag.name] for tag in self.tags]
        answers = self.answers and [[_ends(one) for one in self.answers.spans], self.answers.characters]
        return json.dumps([words, links, tags, answers], separators=(",", ":")).encode()

    @classmethod
    def unpacked(cls, content: bytes) -> "TokenAnnotation":
        """Read what ``packed`` wrote."""
        words, links, tags, answers = json.loads(content)
        return cls(
            tuple(TokenSpan(*word) for word in words),
            tuple(
                TokenLink(
                    TokenSpan(*link[:2]),
                    TokenSpan(*link[2:4]),
                    link[4],
                    tuple(TokenSpan(*c) for c in link[5]),
                )
                for link in links
            ),
            tuple(TokenTag(*tag) for tag in tags),
            answers
            and TokenAnswers(
                tuple(TokenSpan(*one) for one in answers[0]),
                tuple(ends and (ends[0], ends[1]) for ends in answers[1]),
            ),
        )


def _ends(span: TokenSpan) -> list[int]:
    return [span.start, span.stop]
