"""Batches of pairs of a clean and a corrupted text: both sides of a pair in one batch, never padded."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from attnprobe.corpus.batch import Batch, Side
from attnprobe.corpus.batches import Batches, BatchReader, plan_batches


@dataclass(frozen=True, slots=True)
class Readout:
    """Where an answer is read off the model, and what it is compared with."""

    places: tuple[int, int] = (0, 0)
    answer: Any = None
    other: Any = None


class ContrastBatches(Batches):
    """The batches of pairs, in a fixed order; a batch is of the clean texts, with the others as baseline."""

    def __init__(
        self,
        clean: Side,
        corrupted: Side,
        readouts: Sequence[Readout],
        *,
        budget: int,
        targets: Side | None = None,
    ) -> None:
        """Plan the batches of pairs whose clean texts, corrupted texts and targets are of one length each."""
        self.source, self.corrupted, self.targets, self.fresh = clean, corrupted, targets, None
        self.readouts = readouts
        store = clean.store
        self.lengths, self.documents, self.labels = store.lengths, store.documents, {}
        sides = [side.store for side in (clean, corrupted, targets) if side is not None]
        content = "".join((*(one.digest for one in sides), *map(repr, readouts)))
        self.digest = hashlib.sha256(content.encode("utf-8", "surrogatepass")).hexdigest()
        self.rarity_digest = clean.rarity.digest
        keys = [one.lengths for one in sides]
        BatchReader.__init__(self, plan_batches(self.longer, budget, None, keys))

    def read(self, members: NDArray[np.int64]) -> Batch:
        """Read some pairs: the clean texts, with the corrupted ones as their baseline."""
        batch = super().read(members)
        ids = self.corrupted.ids(members)
        inputs = {
            **batch.inputs,
            "input_ids": torch.from_numpy(ids).long(),
            "token_type_ids": torch.zeros(ids.shape, dtype=torch.long),
        }
        beside = replace(batch, inputs=inputs, tokens=self.corrupted.features(ids))
        return replace(batch, baseline=beside)
