"""Tokenised texts, and what is known about every token of them."""

from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray

from attnprobe.attention.annotation import TokenAnnotation
from attnprobe.attention.features import TokenFeatures
from attnprobe.corpus.tokens.rarity import Rarity
from attnprobe.corpus.tokens.shuffling import shuffled
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
        echoes: The side whose tokens these are, one place later, where they are no texts of their own.
        seed: Ordinary tokens are read in a random order that is drawn from it; None for their own order.
    """

    store: SequenceStore
    kinds: TokenKinds
    rarity: Rarity
    content_only: bool = False
    echoes: "Side | None" = None
    seed: int | None = None

    def shuffled(self, seed: int) -> "Side":
        """Give the same with the ordinary tokens of each sequence in a random order.

        Special tokens stay where they are, and separators part what is shuffled within itself. Words and gold
        links are nowhere any more.
        """
        echoes = None if self.echoes is None else self.echoes.shuffled(seed)
        return replace(self, echoes=echoes, seed=seed)

    def ids(self, members: NDArray[np.int64]) -> NDArray[np.int32]:
        """Read equally long sequences, (batch, position)."""
        found = np.stack([self.store.ids(int(member)) for member in members])
        if self.seed is None:
            return found
        if self.echoes is not None:  # of which it reads the first tokens, behind one that starts it
            found[:, 1:] = self.echoes.ids(members)[:, : found.shape[1] - 1]
            return found
        special, parts = self.kinds.special(found), self.kinds.separator(found).cumsum(1)
        for row, member in enumerate(members):
            second = self.store.second(int(member))
            behind = np.arange(found.shape[1]) >= second if second else 0
            found[row] = shuffled(found[row], special[row], parts[row] + behind, self.seed)
        return found

    def annotations(self, members: NDArray[np.int64]) -> tuple[TokenAnnotation | None, ...]:
        """Read the words and gold links of some sequences; none where nobody gave any."""
        if not self.store.annotated or self.seed is not None:
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
