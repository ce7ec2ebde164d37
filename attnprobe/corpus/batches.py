"""The batches of a corpus, never padded: of texts, of images and sound, of both, and of pairs that differ."""

import hashlib
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from attnprobe.attention.layout import Grid, Layout
from attnprobe.attention.tokens import TokenAnnotation, TokenFeatures
from attnprobe.corpus.batch import Batch, BatchReader, Groups, TokenisedTexts, name_clusters, replace_repeated
from attnprobe.corpus.media import IMAGE, SOUND, Item, read_image, read_sound
from attnprobe.sums.documents import name_documents

Ints = NDArray[np.int64]


def plan_batches(
    lengths: NDArray[np.int32],
    budget: int,
    cells: int | None = None,
    keys: Sequence[NDArray[np.integer]] = (),
) -> list[Ints]:
    """Group the numbers of sequences of equal length and ``keys`` into batches of at most ``budget`` tokens.

    With ``cells``, a batch also has at most that many cells (query, key). The longest come first, so
    that a run that does not fit memory fails at once. One longer than the budget is a batch by itself.
    """
    order = np.lexsort((*reversed(keys), -lengths))
    changes = np.any(np.diff(np.stack([lengths, *keys])[:, order]), axis=0)
    planned = []
    for group in np.split(order, np.flatnonzero(changes) + 1) if len(order) else ():
        length = int(lengths[group[0]])
        size = max(1, min(budget // length, budget if cells is None else cells // length**2))
        planned += [group[i : i + size] for i in range(0, len(group), size)]
    return planned


class Batches(BatchReader):
    """The batches of a stored corpus of text.

    Their baselines have ``fresh`` tokens in place of repeated ones, or are ``corrupted`` texts beside clean
    ones. ``prepare`` gives the inputs for a text with an image, by its number and length; ``content`` adds
    digests to that of the corpus.
    """

    def __init__(
        self,
        source: TokenisedTexts,
        *,
        budget: int,
        cells: int | None = None,
        targets: TokenisedTexts | None = None,
        fresh: Ints | None = None,
        corrupted: TokenisedTexts | None = None,
        prepare: Callable[[int, int], dict[str, Tensor]] | None = None,
        keys: Sequence[NDArray[np.integer]] = (),
        content: Iterable[str] = (),
    ) -> None:
        self.source, self.targets, self.corrupted = source, targets, corrupted
        self._fresh, self._prepare = fresh, prepare
        store = source.store
        self.lengths, self.documents, self.labels = store.lengths, store.documents, store.labels
        self.names, self.rarity_digest = store.names, source.rarity.digest
        if store.groups:
            of = store.group_numbers
            self.groups = Groups(store.groups, of, name_clusters(self.names, of, self.names))
        beside = [texts.store for texts in (corrupted, targets) if texts is not None]
        named = [store.digest, *(other.digest for other in beside if other.annotated or corrupted), *content]
        self.digest = named[0] if len(named) == 1 else hashlib.sha256("".join(named).encode()).hexdigest()
        keys = (*(other.lengths for other in (store, *beside) if beside), *keys)
        self.plan = plan_batches(self.longer, budget, cells, keys)

    def shuffle(self, seed: int) -> Self:
        """Copy the reader, with ordinary tokens shuffled within each text; batches stay as they are."""
        if self._prepare is not None:
            return super().shuffle(seed)
        other = copy(self)
        other.source = replace(self.source, seed=seed)
        other.targets = None if self.targets is None else replace(self.targets, seed=seed)
        return other

    def annotation(self, member: int) -> TokenAnnotation | None:
        return self.source.store.annotations(member)[0]

    def gather(self, members: Ints) -> Batch:
        ids = self.source.ids(members)
        if self._prepare is None:
            types = torch.from_numpy(self.source.are_second(members, ids.shape[1])).long()
            inputs = {"input_ids": torch.from_numpy(ids).long(), "token_type_ids": types}
        else:
            inputs = join_inputs([self._prepare(int(member), ids.shape[1]) for member in members])
        annotations, _ = self.source.annotations(members)
        return Batch(inputs, self.source.features(ids), members, self, annotations=annotations)

    def read(self, members: Ints) -> Batch:
        """Read sequences as one batch, with their baseline of corrupted or fresh tokens, if there is one."""
        batch = super().read(members)
        if self.corrupted is not None:
            ids = self.corrupted.ids(members)
            tokens = torch.from_numpy(ids).long()
            inputs = {**batch.inputs, "input_ids": tokens, "token_type_ids": torch.zeros_like(tokens)}
            return replace(batch, baseline=replace(batch, inputs=inputs, tokens=self.corrupted.features(ids)))
        if self._fresh is None:
            return batch
        ids = batch.ids.numpy()
        rows = zip(ids, self.source.kinds.special(ids), strict=True)
        fresh = np.stack([replace_repeated(row, special, self._fresh) for row, special in rows])
        inputs = self.add_targets({**batch.inputs, "input_ids": torch.from_numpy(fresh)}, members)
        return replace(batch, baseline=replace(batch, inputs=inputs))


@dataclass(frozen=True)
class Clip:
    """An image, or a stretch of sound."""

    item: Item
    start: int = 0
    stop: int = 0
    shape: tuple[int, ...] = ()


class MediaBatches(BatchReader):
    """The batches of clips of ``lengths`` tokens, which the model makes of them."""

    def __init__(
        self,
        processor: Any,
        clips: Sequence[Clip],
        lengths: NDArray[np.int32],
        *,
        digest: str,
        budget: int,
        cells: int | None = None,
        grids: Mapping[tuple[int, ...], Grid | None],
        content_only: bool = False,
        targets: TokenisedTexts | None = None,
    ) -> None:
        self._processor, self._clips = processor, clips
        self.lengths, self.digest = lengths, digest
        self._grids, self._content_only, self.targets = grids, content_only, targets
        labels = enumerate(clip.item.label for clip in clips)
        self.labels = {place: label for place, label in labels if label is not None}
        # The file of each clip, by its number among those that give a clip.
        self.documents = number_values([clip.item.path for clip in clips])
        self.names = name_documents(self.documents.astype(np.uint64) + np.uint64(int(digest[:16], 16)))
        keys = [number_values([clip.shape for clip in clips])]
        keys += [] if targets is None else [targets.store.lengths.astype(np.int64)]
        self.plan = plan_batches(lengths, budget, cells, keys)

    def gather(self, members: Ints) -> Batch:
        clips = [self._clips[int(member)] for member in members]
        if self._processor.kind == IMAGE:
            decoded = [read_image(clip.item.path) for clip in clips]
        else:
            rate = self._processor.rate
            decoded = [read_sound(clip.item.path, rate)[clip.start : clip.stop] for clip in clips]
        return Batch(join_inputs(list(map(self._processor, decoded))), None, members, self)

    def lay_out(self, batch: Batch, length: int) -> Layout:
        """Lay out tokens: those outside of a grid are special; none are punctuation or rare."""
        no, grid = torch.zeros(len(batch), length).bool(), self._grids[self._clips[batch.members[0]].shape]
        outside = no if grid is None else no | grid.places(length)[:, 0].isnan()
        first = outside.clone()
        first[:, 1:] = False
        kept = ~outside if self._content_only else ~no
        rank = torch.full((len(batch), length), -1)
        tokens = TokenFeatures(first, outside & ~first, no, ~outside, no.float(), kept, rank, rank)
        return Layout.of(tokens, grid=grid, placed=self._processor.kind == SOUND or grid is not None)


def number_values(values: Sequence[Hashable]) -> Ints:
    """Number values from 0 on, each by its first place among the distinct ones."""
    numbers = {value: number for number, value in enumerate(dict.fromkeys(values))}
    return np.array([numbers[value] for value in values], np.int64)


def join_inputs(parts: Sequence[Mapping[str, Tensor]]) -> dict[str, Tensor]:
    """Concatenate the inputs of several sequences; for images, all their tiles or patches."""
    return {name: torch.cat([part[name] for part in parts]) for name in parts[0]}
