"""What is known about the tokens of a batch."""

from dataclasses import dataclass, fields
from functools import cached_property

import torch
from torch import Tensor


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
    """

    first: Tensor
    separator: Tensor
    punctuation: Tensor
    other: Tensor
    rare: Tensor
    kept: Tensor
    rank: Tensor
    order: Tensor

    #: The features on which a block measures attention mass, in the order of the kernel.
    MASSES = ("first", "separator", "punctuation", "other", "rare")

    def __post_init__(self) -> None:
        shapes = {field.name: tuple(getattr(self, field.name).shape) for field in fields(self)}
        if len(set(shapes.values())) != 1 or self.kept.ndim != 2:
            raise ValueError(f"token features must all be (batch, position), got {shapes}")

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
    def indicators(self) -> Tensor:
        """The features of ``MASSES`` as float32 (batch, feature, position)."""
        return torch.stack([getattr(self, name) for name in self.MASSES], 1).float()

    def rows(self, start: int, stop: int) -> "TokenFeatures":
        """Select some sequences of the batch."""
        return TokenFeatures(*(getattr(self, field.name)[start:stop] for field in fields(self)))

    def to(self, device: torch.device | str) -> "TokenFeatures":
        return TokenFeatures(*(getattr(self, field.name).to(device) for field in fields(self)))
