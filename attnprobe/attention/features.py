"""What is known about the tokens of a batch."""

from collections.abc import Callable
from dataclasses import dataclass, field, fields
from functools import cached_property

import torch
from torch import Tensor


@dataclass(frozen=True)
class Modalities:
    """What is known beside that about the tokens of an image and of a text that are read together.

    Attributes:
        image: The tokens that stand for the image, boolean (batch, position).
        asking: Tokens that count as queries, boolean (batch, position).
        sees: The last position that each token sees in a decoder, (batch, position): its own, or the end of
            its image where the tokens of an image see each other.
    """

    image: Tensor
    asking: Tensor
    sees: Tensor

    @property
    def ahead(self) -> Tensor:
        """How many later tokens each token sees, (batch, position)."""
        return self.sees - torch.arange(self.sees.shape[1], device=self.sees.device)

    def each(self, change: Callable[[Tensor], Tensor]) -> "Modalities":
        return Modalities(change(self.image), change(self.asking), change(self.sees))


@dataclass(frozen=True)
class TokenFeatures:
    """What is known about the tokens of a batch of equally long sequences.

    Every attribute is a tensor (batch, position), boolean where nothing else is said.

    Attributes:
        first: The leading special token ([CLS], <s>, or the model's own).
        separator: [SEP], </s>, or the model's own.
        punctuation: Ordinary tokens that are nothing but punctuation.
        other: Every other ordinary token.
        rare: Which part of an ordinary token counts as rare in its corpus, 0 to 1, float32.
        kept: Tokens that count as queries and keys; all of them, unless content only.
        rank: How many types of the corpus are more frequent, so that equals share a rank; -1 for
            special tokens, which are not candidates.
        order: A place of its own for each type, in the order of ranks; -1 for special tokens.
        mixed: What is known beside where an image and a text are read together.
    """

    first: Tensor
    separator: Tensor
    punctuation: Tensor
    other: Tensor
    rare: Tensor
    kept: Tensor
    rank: Tensor
    order: Tensor
    mixed: Modalities | None = field(default=None, kw_only=True)

    #: The features on which a block measures attention mass, in the order of the kernel.
    MASSES = ("first", "separator", "punctuation", "other", "rare")

    def __post_init__(self) -> None:
        shapes = {name: tuple(getattr(self, name).shape) for name in self._names}
        if len(set(shapes.values())) != 1 or self.kept.ndim != 2:
            raise ValueError(f"token features must all be (batch, position), got {shapes}")

    @property
    def _names(self) -> tuple[str, ...]:
        return tuple(field.name for field in fields(self) if field.name != "mixed")

    @property
    def batch(self) -> int:
        return self.kept.shape[0]

    @property
    def length(self) -> int:
        """Tokens in each sequence, special tokens included."""
        return self.kept.shape[1]

    @property
    def special(self) -> Tensor:
        """Boundary tokens, which are no part of the text."""
        return self.first | self.separator

    @cached_property
    def segments(self) -> Tensor:
        """Which text of a sequence each token is of, from 0; a separator is of the text that it ends.

        Of two separators side by side, as RoBERTa has them, the second begins the next text.
        """
        ends = self.separator.clone()
        ends[:, 1:] &= ~self.separator[:, :-1]
        ends[:, -1:] = False  # nothing comes behind it
        return torch.nn.functional.pad(ends.long().cumsum(1)[:, :-1], (1, 0))

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
        return torch.stack([getattr(self, name) for name in self.MASSES], 1).float()

    def rows(self, start: int, stop: int) -> "TokenFeatures":
        """Select some sequences of the batch."""
        return self._each(lambda mark: mark[start:stop])

    def to(self, device: torch.device | str) -> "TokenFeatures":
        return self._each(lambda mark: mark.to(device))

    def _each(self, change: Callable[[Tensor], Tensor]) -> "TokenFeatures":
        mixed = None if self.mixed is None else self.mixed.each(change)
        return TokenFeatures(*(change(getattr(self, name)) for name in self._names), mixed=mixed)
