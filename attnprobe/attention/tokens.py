"""What is known of the tokens of a sequence: what each is; its words, gold links, labels and answers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:  # readers of text need no torch
    import torch
    from torch import Tensor


@dataclass(frozen=True)
class Modalities:
    """What else is known about the tokens (batch, position) of an image and a text that are read together."""

    image: Tensor  # tokens that stand for the image
    asking: Tensor  # tokens that count as queries
    sees: Tensor  # the last position that each sees in a decoder: itself, or the end of its image

    @property
    def ahead(self) -> Tensor:
        """How many later tokens each token sees, (batch, position)."""
        import torch

        return self.sees - torch.arange(self.sees.shape[1], device=self.sees.device)


@dataclass(frozen=True)
class TokenFeatures:
    """What is known about the tokens of a batch of equally long sequences.

    Every attribute is a tensor (batch, position), boolean where nothing else is said.
    """

    first: Tensor  # the leading special token ([CLS], <s>, or the model's own)
    separator: Tensor  # [SEP], </s>, or the model's own
    punctuation: Tensor  # ordinary tokens that are nothing but punctuation
    other: Tensor  # all other ordinary tokens
    rare: Tensor  # which part of an ordinary token counts as rare in its corpus, 0 to 1, float32
    kept: Tensor  # tokens that count as queries and keys; all of them, unless content only
    rank: Tensor  # how many types of the corpus are more frequent; -1 for special tokens, no candidates
    order: Tensor  # a place of its own for each type, in the order of ranks; -1 for special tokens
    mixed: Modalities | None = field(
        default=None, kw_only=True
    )  # where an image and a text are read together

    #: The features on which a block measures attention mass, in the order of the kernel.
    MASSES = ("first", "separator", "punctuation", "other", "rare")

    @property
    def batch(self) -> int:
        return self.kept.shape[0]

    @property
    def length(self) -> int:
        return self.kept.shape[1]

    @property
    def special(self) -> Tensor:
        """Boundary tokens, which are no part of the text."""
        return self.first | self.separator

    @cached_property
    def segments(self) -> Tensor:
        """Which text of a sequence each token is of, from 0; a separator, of that which it ends.

        Of two separators side by side, as RoBERTa has them, the second begins the next text.
        """
        ends = self.separator.long()
        ends[:, 1:] *= ~self.separator[:, :-1]
        return ends.cumsum(1) - ends  # what ends a text is of it

    @cached_property
    def all_kept(self) -> bool:
        return bool(self.kept.all())

    @cached_property
    def asking(self) -> Tensor:
        """Tokens that count as queries: those that are kept, or some of them."""
        return self.kept if self.mixed is None else self.kept & self.mixed.asking

    @cached_property
    def all_asking(self) -> bool:
        return self.all_kept if self.mixed is None else bool(self.asking.all())

    @cached_property
    def indicators(self) -> Tensor:
        """The features of ``MASSES`` as float32 (batch, feature, position)."""
        import torch

        return torch.stack([getattr(self, name) for name in self.MASSES], 1).float()

    def rows(self, start: int, stop: int) -> TokenFeatures:
        """Select some sequences of the batch."""
        return self._map_tensors(lambda mark: mark[start:stop])

    def to(self, device: torch.device | str) -> TokenFeatures:
        return self._map_tensors(lambda mark: mark.to(device))

    def _map_tensors(self, change: Callable[[Tensor], Tensor]) -> TokenFeatures:
        *marks, mixed = (getattr(self, one.name) for one in fields(self))
        if mixed is not None:
            mixed = Modalities(change(mixed.image), change(mixed.asking), change(mixed.sees))
        return TokenFeatures(*map(change, marks), mixed=mixed)


#: Who can be asked for whom: the source for the target, the target for the source, or both.
Asks = Literal["both", "forward", "backward"]


class TokenSpan(NamedTuple):
    """Neighbouring tokens of a sequence: positions ``start`` to ``stop``, the latter not among them."""

    start: int
    stop: int


class TokenLink(NamedTuple):
    """A gold link by tokens; see ``corpus.document.Link``. Without candidates, every word is one.

    The source is among the queries where it is asked forward, and among the keys where it is asked backward;
    the target is the other way round. Within one sequence a link is asked both ways; from a decoder to an
    encoder, from the side that the decoder reads.
    """

    source: TokenSpan
    target: TokenSpan
    label: str
    candidates: tuple[TokenSpan, ...] = ()
    also: tuple[TokenSpan, ...] = ()
    guesses: tuple[tuple[str, TokenSpan], ...] = ()
    asks: Asks = "both"


class TokenTag(NamedTuple):
    """The first token of a word that has a label; ``name`` is as the file spells it."""

    position: int
    name: str | int


class TokenAnswers(NamedTuple):
    """Where the second text of a sequence answers the first, and what each token spans in it, or None."""

    spans: tuple[TokenSpan, ...]
    characters: tuple[tuple[int, int] | None, ...]


class TokenAnnotation(NamedTuple):
    """The words of a sequence, the links between them, their labels and the answers, by tokens."""

    words: tuple[TokenSpan, ...] = ()  # among the queries
    links: tuple[TokenLink, ...] = ()  # whose ends are all there
    tags: tuple[TokenTag, ...] = ()
    answers: TokenAnswers | None = None
    keys: tuple[TokenSpan, ...] | None = None  # the words among the keys, if they are others
    number: int | None = None  # of the document among all that are read, where words are numbered
    same: bool = False  # ``keys`` are the words of the same text, in the same order
    cut: bool = False  # the sequence holds a part of the text
    second: int = 0  # the position at which the second of two texts begins
    numbered: tuple[TokenSpan | None, ...] = ()  # words of the document by number; None if not there whole
    forms: tuple[int, ...] = ()  # for each word, a number for its spelling
    key_forms: tuple[int, ...] = ()
    parts_of_speech: tuple[str, ...] = ()  # for each word, such as NOUN; "" where it is not known
    key_parts_of_speech: tuple[str, ...] = ()
