"""The batches of a corpus of text, with what is known about every token."""

import hashlib
from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import replace
from functools import cached_property
from typing import Self

import numpy as np
import torch
from numpy.typing import NDArray

from attnprobe.attention.annotation import TokenAnnotation
from attnprobe.corpus.batches.batch import Batch
from attnprobe.corpus.batches.planning import BatchReader, plan_batches
from attnprobe.corpus.sources.document import Label
from attnprobe.corpus.tokens.repetition import without_repetition
from attnprobe.corpus.tokens.side import Side


class Batches(BatchReader):
    """The batches of a stored corpus of text.

    Attributes:
        source: The texts.
        targets: What a decoder beside an encoder reads, text for text.
        fresh: Tokens to put in the place of those that come again, where batches have a baseline without
            repetition; None where they have none.
    """

    def __init__(
        self,
        source: Side,
        *,
        budget: int,
        cells: int | None = None,
        most: Callable[[int], int] | None = None,
        targets: Side | None = None,
        fresh: NDArray[np.int64] | None = None,
    ) -> None:
        """Plan the batches for a budget of tokens, of cells where whole maps are kept, of memory."""
        self.source, self.targets, self.fresh = source, targets, fresh
        # A batch is as large as the longer side makes it; both agree in their lengths.
        keys = () if targets is None else (source.store.lengths, targets.store.lengths)
        super().__init__(plan_batches(self.longer, budget, cells, keys, most=most))

    @property
    def lengths(self) -> NDArray[np.int32]:
        """Tokens in each text, special tokens included."""
        return self.source.store.lengths

    @property
    def digest(self) -> str:
        """Name the content: texts, pairs, labels and links, in their order."""
        if self.targets is None or not self.targets.store.annotated:
            return self.source.store.digest
        both = self.source.store.digest + self.targets.store.digest
        return hashlib.sha256(both.encode()).hexdigest()

    @property
    def rarity_digest(self) -> str:
        """Name which types of the texts are rare."""
        return self.source.rarity.digest

    @property
    def labels(self) -> Mapping[int, Label]:
        """The labels of the texts that have one."""
        return self.source.store.labels

    @property
    def documents(self) -> NDArray[np.int64]:
        """The document of each text, by its number."""
        return self.source.store.documents

    @cached_property
    def names(self) -> NDArray[np.int64]:
        """For each text, what names its document, in whatever corpus it lies."""
        return self.source.store.names

    def shuffled(self, seed: int) -> Self:
        """Give the same batches with the ordinary tokens of each text in a random order."""
        some = copy(self)
        some.source = self.source.shuffled(seed)
        some.targets = None if self.targets is None else self.targets.shuffled(seed)
        return some

    def annotation(self, member: int) -> TokenAnnotation | None:
        """Read the words, links, labels and answers of a text."""
        return self.source.store.annotation(member) if self.source.seed is None else None

    def read(self, members: NDArray[np.int64]) -> Batch:
        """Read some texts of one length, with all that is known about them."""
        batch = super().read(members)
        return batch if self.fresh is None else replace(batch, baseline=self._unrepeated(batch, self.fresh))

    def _unrepeated(self, batch: Batch, fresh: NDArray[np.int64]) -> Batch:
        ids = batch.ids.numpy()
        rows = zip(ids, self.source.kinds.special(ids), strict=True)
        found = np.stack([without_repetition(row, special, fresh) for row, special in rows])
        inputs = {**batch.inputs, "input_ids": torch.from_numpy(found)}
        if "decoder_input_ids" in inputs:  # the first tokens of the text, behind one that starts it
            targets = inputs["decoder_input_ids"].clone()
            targets[:, 1:] = inputs["input_ids"][:, : targets.shape[1] - 1]
            inputs["decoder_input_ids"] = targets
        return replace(batch, inputs=inputs)

    def gather(self, members: NDArray[np.int64]) -> Batch:
        """Read some texts of one length."""
        ids = self.source.ids(members)
        seconds = np.array([self.source.store.second(int(member)) for member in members])[:, None]
        types = (seconds > 0) & (np.arange(ids.shape[1]) >= seconds)
        inputs = {"input_ids": torch.from_numpy(ids).long(), "token_type_ids": torch.from_numpy(types).long()}
        said = self.source.annotations(members)
        return Batch(inputs, self.source.features(ids), members, annotations=said)
