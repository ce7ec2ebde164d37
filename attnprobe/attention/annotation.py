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
class TokenAnnotation:
    """The words of a sequence and the links between them, by tokens."""

    words: tuple[TokenSpan, ...] = ()
    links: tuple[TokenLink, ...] = ()

    def packed(self) -> bytes:
        """Write it down."""
        words = [[word.start, word.stop] for word in self.words]
        links = [
            [*_ends(link.source), *_ends(link.target), link.label, [_ends(one) for one in link.candidates]]
            for link in self.links
        ]
        return json.dumps([words, links], separators=(",", ":")).encode()

    @classmethod
    def unpacked(cls, content: bytes) -> "TokenAnnotation":
        """Read what ``packed`` wrote."""
        words, links = json.loads(content)
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
        )


def _ends(span: TokenSpan) -> list[int]:
    return [span.start, span.stop]
