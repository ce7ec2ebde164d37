"""The batches of a corpus of text, with what is known about every token."""

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from dataclasses import replace
from functools import cached_property
from typing import Self

import numpy as np
import torch
from numpy.typing import NDArray

from attnprobe.attention.annotation import TokenAnnotation
from attnprobe.corpus.batch import Batch, Side, Strata
from attnprobe.corpus.sources.document import Label
from attnprobe.corpus.store import replace_repeated
from attnprobe.errors import DataError
from attnprobe.sums.documents import in_second_half, name_documents


def plan_batches(
    lengths: NDArray[np.int32],
    budget: int,
    cells: int | None = None,
    keys: Sequence[NDArray[np.integer]] = (),
) -> list[NDArray[np.int64]]:
    """Group sequences of equal length into batches of at most ``budget`` tokens.

    With ``cells``, a batch also has at most so many query-key cells, so that whole maps can be kept;
    with ``keys``, the sequences of a batch also agree in each, such as the length of their target.

    The longest come first, so that a run that does not fit memory fails at once; sequences of a
    length keep their order. A sequence longer than the budget is a batch of its own.

    >>> [batch.tolist() for batch in plan_batches(np.array([3, 5, 3, 3]), 6)]
    [[1], [0, 2], [3]]
    """
    order = np.lexsort((*reversed(keys), -lengths))
    changes = np.any(np.diff(np.stack([lengths, *keys])[:, order]), axis=0)
    planned = []
    for group in np.split(order, np.flatnonzero(changes) + 1):
        if not len(group):
            continue
        length = int(lengths[group[0]])
        size = budget // length if cells is None else min(budget // length, cells // length**2)
        size = max(1, size)
        planned += [group[i : i + size] for i in range(0, len(group), size)]
    return planned


class BatchReader(ABC):
    """Reads planned batches, in a fixed order; iterating again reads them again."""

    lengths: NDArray[np.int32]
    documents: NDArray[np.int64]
    labels: Mapping[int, Label]
    digest: str
    rarity_digest: str = ""
    targets: Side | None = None

    def __init__(self, plan: list[NDArray[np.int64]]) -> None:
        self.plan = plan

    @abstractmethod
    def gather(self, members: NDArray[np.int64]) -> Batch:
        """Read some sequences that fit into one batch, without what a decoder beside an encoder reads."""

    def annotation(self, member: int) -> TokenAnnotation | None:
        """Read what is known of a sequence beside its tokens, where somebody said something."""
        return None

    def read(self, members: NDArray[np.int64]) -> Batch:
        """Read some sequences that fit into one batch, with all that is known about them."""
        batch = self.add_targets(self.gather(members))
        return replace(
            batch,
            documents=self.documents[members],
            names=self.names[members],
            clusters=self.clusters[members],
            strata=None if self.strata is None else self.strata.rows(members),
        )

    @cached_property
    def names(self) -> NDArray[np.int64]:
        """For each sequence, what names its document, in whatever corpus it lies."""
        return name_documents(self.documents.astype(np.uint64) + np.uint64(int(self.digest[:16] or "0", 16)))

    @cached_property
    def clusters(self) -> NDArray[np.int64]:
        """For each sequence, what names its document, or -1 where it is the document's only one."""
        documents = self.documents
        windows = np.bincount(documents)[documents] if len(documents) else documents
        return np.where(windows > 1, self.names, -1)

    @cached_property
    def strata(self) -> Strata | None:
        """The groups that the sequences count in, if somebody asked for groups."""
        return None

    def add_targets(self, batch: Batch) -> Batch:
        """Add what a decoder beside an encoder reads, if there is one, to a batch."""
        if self.targets is None:
            return batch
        members = batch.members
        ids = self.targets.ids(members)
        return replace(
            batch,
            inputs={**batch.inputs, "decoder_input_ids": torch.from_numpy(ids).long()},
            targets=self.targets.features(ids),
            target_annotations=self.targets.annotations(members),
            cross_annotations=self.targets.crossed(members),
        )

    @property
    def plan_digest(self) -> str:
        """Name the plan: equal only where the same sequences make the same batches, in the same order."""
        digest = hashlib.sha256()
        for members in self.plan:
            digest.update(len(members).to_bytes(8, "little"))
            digest.update(np.ascontiguousarray(members, np.int64).tobytes())
        return digest.hexdigest()

    def follow(self, plan: list[NDArray[np.int64]]) -> Self:
        """Give other batches of the same sequences."""
        some = copy(self)
        some.plan = plan
        return some

    def drop_shorter(self, least: int) -> Self:
        """Give the batches of the sequences of at least so many tokens."""
        return self.follow([members for members in self.plan if self.lengths[members[0]] >= least])

    def half(self, second: bool) -> Self:
        parts = [members[in_second_half(self.documents[members]) == second] for members in self.plan]
        return self.follow([members for members in parts if len(members)])

    def shuffle(self, seed: int) -> Self:
        """Give the same batches with the ordinary tokens of each text in a random order."""
        raise DataError("Images and sound have no tokens that could be shuffled; give text.")

    def skip(self, done: int) -> Self:
        """Give the batches behind the first ones."""
        return self.follow(self.plan[done:])

    def take_share(self, part: int, parts: int) -> Self:
        """Give every ``parts``-th batch, so that each part has long and short ones."""
        return self.follow(self.plan[part::parts])

    @property
    def members(self) -> NDArray[np.int64]:
        """Which sequences are in a batch, in their order."""
        return np.sort(np.concatenate(self.plan)) if self.plan else np.zeros(0, np.int64)

    @property
    def longer(self) -> NDArray[np.int32]:
        """Tokens in each sequence or in its target, whichever is longer."""
        if self.targets is None:
            return self.lengths
        return np.maximum(self.lengths, self.targets.store.lengths)

    @property
    def sizes(self) -> list[int]:
        """Tokens in each batch, those of targets included."""
        lengths = self.lengths.astype(np.int64)
        if self.targets is not None:
            lengths = lengths + self.targets.store.lengths
        return [int(lengths[members].sum()) for members in self.plan]

    @property
    def tokens(self) -> int:
        """Tokens in all batches together, those of targets included."""
        return sum(self.sizes)

    def __len__(self) -> int:
        return len(self.plan)

    def __iter__(self) -> Iterator[Batch]:
        return map(self.read, self.plan)


class Batches(BatchReader):
    """The batches of a stored corpus of text."""

    def __init__(
        self,
        source: Side,
        *,
        budget: int,
        cells: int | None = None,
        targets: Side | None = None,
        fresh: NDArray[np.int64] | None = None,
        keys: Sequence[NDArray[np.integer]] = (),
    ) -> None:
        """Plan the batches for a budget of tokens, of cells where whole maps are kept, of memory."""
        self.source, self.targets, self.fresh = source, targets, fresh
        store = source.store
        self.lengths, self.documents, self.labels = store.lengths, store.documents, store.labels
        self.digest, self.rarity_digest = store.digest, source.rarity.digest
        if targets is not None and targets.store.annotated:
            self.digest = hashlib.sha256((store.digest + targets.store.digest).encode()).hexdigest()
        # A batch is as large as the longer side makes it; both agree in their lengths.
        keys = keys if targets is None else (store.lengths, targets.store.lengths)
        super().__init__(plan_batches(self.longer, budget, cells, keys))

    @cached_property
    def names(self) -> NDArray[np.int64]:
        return self.source.store.names

    @cached_property
    def strata(self) -> Strata | None:
        store = self.source.store
        within = store.in_stratum
        return None if within is None else Strata.find(store.strata, within, self.names)

    def shuffle(self, seed: int) -> Self:
        some = copy(self)
        some.source = self.source.shuffle(seed)
        some.targets = None if self.targets is None else self.targets.shuffle(seed)
        return some

    def annotation(self, member: int) -> TokenAnnotation | None:
        return self.source.store.annotation(member) if self.source.seed is None else None

    def read(self, members: NDArray[np.int64]) -> Batch:
        """Read some texts of one length, with all that is known about them."""
        batch = super().read(members)
        if self.fresh is None:
            return batch
        return replace(batch, baseline=self._replace_repeated(batch, self.fresh))

    def _replace_repeated(self, batch: Batch, fresh: NDArray[np.int64]) -> Batch:
        ids = batch.ids.numpy()
        rows = zip(ids, self.source.kinds.special(ids), strict=True)
        found = np.stack([replace_repeated(row, special, fresh) for row, special in rows])
        inputs = {**batch.inputs, "input_ids": torch.from_numpy(found)}
        if "decoder_input_ids" in inputs:  # the first tokens of the text, behind one that starts it
            targets = inputs["decoder_input_ids"].clone()
            targets[:, 1:] = inputs["input_ids"][:, : targets.shape[1] - 1]
            inputs["decoder_input_ids"] = targets
        return replace(batch, inputs=inputs)

    def gather(self, members: NDArray[np.int64]) -> Batch:
        ids = self.source.ids(members)
        seconds = np.array([self.source.store.second(int(member)) for member in members])[:, None]
        types = (seconds > 0) & (np.arange(ids.shape[1]) >= seconds)
        inputs = {"input_ids": torch.from_numpy(ids).long(), "token_type_ids": torch.from_numpy(types).long()}
        annotations = self.source.annotations(members)
        return Batch(inputs, self.source.features(ids), members, annotations=annotations)
