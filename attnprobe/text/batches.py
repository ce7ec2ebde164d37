"""The batches of a corpus of text, with what is known about every token."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from attnprobe.attention import TokenFeatures
from attnprobe.text.batch import Batch
from attnprobe.text.document import Label
from attnprobe.text.planning import BatchReader, plan_batches
from attnprobe.text.rarity import Rarity
from attnprobe.text.store import SequenceStore
from attnprobe.text.vocabulary import TokenKinds


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

    def features(self, ids: NDArray[np.int32]) -> TokenFeatures:
        """Look up what is known about token ids (batch, position)."""
        first, separator = self.kinds.first(ids), self.kinds.separator(ids)
        separator &= ~first
        special = first | separator
        punctuation = self.kinds.punctuation(ids) & ~special
        rank = np.where(special, -1, self.rarity.rank[ids])
        marks = (
            first,
            separator,
            punctuation,
            ~(special | punctuation),
            self.rarity.rare[ids] & ~special,
            ~special if self.content_only else np.ones_like(special),
            rank,
        )
        return TokenFeatures(*(torch.from_numpy(mark) for mark in marks))


class Batches(BatchReader):
    """The batches of a stored corpus of text.

    Attributes:
        source: The texts.
        targets: What a decoder beside an encoder reads, text for text.
    """

    def __init__(
        self,
        source: Side,
        *,
        budget: int,
        cells: int | None = None,
        most: Callable[[int], int] | None = None,
        targets: Side | None = None,
    ) -> None:
        """Plan the batches for a budget of tokens, of cells where whole maps are kept, of memory."""
        self.source, self.targets = source, targets
        lengths, keys = source.store.lengths, None
        if targets is not None:
            # A batch is as large as the longer side makes it; the other one agrees in its length too.
            keys = lengths.astype(np.int64) * (1 + int(targets.store.lengths.max())) + targets.store.lengths
            lengths = np.maximum(lengths, targets.store.lengths)
        super().__init__(plan_batches(lengths, budget, cells, keys, most=most))

    @property
    def lengths(self) -> NDArray[np.int32]:
        """Tokens in each text, special tokens included."""
        return self.source.store.lengths

    @property
    def target_lengths(self) -> NDArray[np.int32] | None:
        """Tokens that a decoder beside an encoder reads with each sequence, if there is one."""
        return None if self.targets is None else self.targets.store.lengths

    @property
    def digest(self) -> str:
        """Name the content: texts, pairs and labels, in their order."""
        return self.source.store.digest

    @property
    def rarity_digest(self) -> str:
        """Name which types of the texts are rare."""
        return self.source.rarity.digest

    @property
    def labels(self) -> Mapping[int, Label]:
        """The labels of the texts that have one."""
        return self.source.store.labels

    def read(self, members: NDArray[np.int64]) -> Batch:
        """Read some texts of one length."""
        ids = self.source.ids(members)
        seconds = np.array([self.source.store.second(int(member)) for member in members])[:, None]
        types = (seconds > 0) & (np.arange(ids.shape[1]) >= seconds)
        inputs = {"input_ids": torch.from_numpy(ids).long(), "token_type_ids": torch.from_numpy(types).long()}
        features, targets = self.source.features(ids), None
        if self.targets is not None:
            read = self.targets.ids(members)
            inputs["decoder_input_ids"] = torch.from_numpy(read).long()
            targets = self.targets.features(read)
        return Batch(inputs, features, members, targets)
