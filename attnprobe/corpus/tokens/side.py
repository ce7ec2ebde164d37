"""Tokenised texts, and what is known about every token of them."""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from attnprobe.attention.annotation import TokenAnnotation
from attnprobe.attention.features import TokenFeatures
from attnprobe.corpus.tokens.rarity import Rarity
from attnprobe.corpus.tokens.store import SequenceStore
from attnprobe.corpus.tokens.vocabulary import TokenKinds


@dataclass(frozen=True)
class Side:
    """Tokenised texts, and what is known about their tokens.

    Attributes:
        store: The sequences.
        kinds: What kind of token each id is.
        rarity: Which types are rare.
        content_only: Whether special tokens are dropped as queries and keys.
    """

    store: SequenceStore
    kinds: TokenKinds
    rarity: Rarity
    content_only: bool = False

    def ids(self, members: NDArray[np.int64]) -> NDArray[np.int32]:
        """Read equally long sequences, (batch, position)."""
        return np.stack([self.store.ids(int(member)) for member in members])

    def annotations(self, members: NDArray[np.int64]) -> tuple[TokenAnnotation | None, ...]:
        """Read the words and gold links of some sequences; none where nobody gave any."""
        if not self.store.annotated:
            return ()
        return tuple(self.store.annotation(int(member)) for member in members)

    def crossed(self, members: NDArray[np.int64]) -> tuple[TokenAnnotation | None, ...]:
        """Read the links between some sequences and what an encoder beside them reads, if there are any."""
        if not self.store.annotated:
            return ()
        return tuple(self.store.crossed(int(member)) for member in members)

    def features(self, ids: NDArray[np.int32]) -> TokenFeatures:
        """Look up what is known about token ids (batch, position)."""
        first, separator = self.kinds.first(ids), self.kinds.separator(ids)
        separator &= ~first
        special = first | separator
        punctuation = self.kinds.punctuation(ids) & ~special
        rank, order = (np.where(special, -1, place[ids]) for place in (self.rarity.rank, self.rarity.order))
        marks = (
            first,
            separator,
            punctuation,
            ~(special | punctuation),
            self.rarity.rare[ids] * ~special,
            ~special if self.content_only else np.ones_like(special),
            rank,
            order,
        )
        return TokenFeatures(*(torch.from_numpy(mark) for mark in marks))
