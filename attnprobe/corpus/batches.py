"""The batches of a corpus, never padded: of texts, of images and sound, of both, and of pairs that differ."""

import hashlib
from collections.abc import Callable, Hashable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from attnprobe.attention.layout import Grid, Layout
from attnprobe.attention.tokens import TokenAnnotation, TokenFeatures
from attnprobe.corpus.batch import Batch, BatchReader, Groups, TokenisedTexts, name_clusters
from attnprobe.corpus.media import IMAGE, SOUND, Item, Picture, read_image, read_sound
from attnprobe.corpus.store import replace_repeated
from attnprobe.errors import DataError
from attnprobe.sums.documents import name_documents

Ints = NDArray[np.int64]


def plan_batches(
    lengths: NDArray[np.int32],
    budget: int,
    cells: int | None = None,
    keys: Sequence[NDArray[np.integer]] = (),
) -> list[Ints]:
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
    for group in np.split(order, np.flatnonzero(changes) + 1) if len(order) else ():
        length = int(lengths[group[0]])
        size = max(1, min(budget // length, budget if cells is None else cells // length**2))
        planned += [group[i : i + size] for i in range(0, len(group), size)]
    return planned


class Batches(BatchReader):
    """The batches of a stored corpus of text, as ``plan_batches`` plans them.

    ``fresh`` are tokens that take the place of those that come twice, for a baseline.
    """

    def __init__(
        self,
        source: TokenisedTexts,
        *,
        budget: int,
        cells: int | None = None,
        targets: TokenisedTexts | None = None,
        fresh: Ints | None = None,
        keys: Sequence[NDArray[np.integer]] = (),
    ) -> None:
        self.source, self.targets, self.fresh = source, targets, fresh
        store = source.store
        self.lengths, self.documents, self.labels = store.lengths, store.documents, store.labels
        self.digest, self.rarity_digest = store.digest, source.rarity.digest
        self.names = store.names
        if store.groups:
            of = store.group_numbers
            self.groups = Groups(store.groups, of, name_clusters(self.names, of, self.names))
        if targets is not None:
            if targets.store.annotated:
                self.digest = _digest(store.digest, targets.store.digest)
            keys = (store.lengths, targets.store.lengths, *keys)
        # A batch is as large as the longer side makes it; both agree in their lengths.
        self.plan = plan_batches(self.longer, budget, cells, keys)

    def shuffle(self, seed: int) -> Self:
        other = copy(self)
        other.source = replace(self.source, seed=seed)
        other.targets = None if self.targets is None else replace(self.targets, seed=seed)
        return other

    def annotation(self, member: int) -> TokenAnnotation | None:
        return self.source.store.annotations(member)[0]

    def gather(self, members: Ints) -> Batch:
        ids = self.source.ids(members)
        types = self.source.are_second(members, ids.shape[1])
        inputs = {"input_ids": torch.from_numpy(ids).long(), "token_type_ids": torch.from_numpy(types).long()}
        annotations, _ = self.source.annotations(members)
        return Batch(inputs, self.source.features(ids), members, self, annotations=annotations)

    def read(self, members: Ints) -> Batch:
        """Read some texts of one length, with all that is known about them."""
        batch = super().read(members)
        if self.fresh is None:
            return batch
        ids = batch.ids.numpy()
        rows = zip(ids, self.source.kinds.special(ids), strict=True)
        fresh = np.stack([replace_repeated(row, special, self.fresh) for row, special in rows])
        inputs = self.add_targets({**batch.inputs, "input_ids": torch.from_numpy(fresh)}, members)
        return replace(batch, baseline=replace(batch, inputs=inputs))


@dataclass(frozen=True, slots=True)
class Readout:
    """Where an answer is read off the model, and what it is compared with."""

    places: tuple[int, int] = (0, 0)
    answer: Any = None
    other: Any = None


class ContrastBatches(Batches):
    """The batches of pairs of texts: the clean ones, with the corrupted ones as baseline."""

    def __init__(
        self, source: TokenisedTexts, corrupted: TokenisedTexts, readouts: Sequence[Readout], **options: Any
    ) -> None:
        """Plan pairs; ``options`` are those of ``Batches``."""
        self.corrupted, self.readouts = corrupted, readouts
        super().__init__(source, keys=[source.store.lengths, corrupted.store.lengths], **options)
        self.labels = {}
        texts = (source, corrupted, *([] if self.targets is None else [self.targets]))
        self.digest = _digest(*(each.store.digest for each in texts), *map(repr, readouts))

    def read(self, members: Ints) -> Batch:
        batch = super().read(members)
        ids = self.corrupted.ids(members)
        tokens = torch.from_numpy(ids).long()
        inputs = {**batch.inputs, "input_ids": tokens, "token_type_ids": torch.zeros_like(tokens)}
        return replace(batch, baseline=replace(batch, inputs=inputs, tokens=self.corrupted.features(ids)))


@dataclass(frozen=True)
class Clip:
    """An image, or a stretch of sound."""

    item: Item
    start: int = 0
    stop: int = 0
    shape: tuple[int, ...] = ()


class MediaBatches(BatchReader):
    """The batches of clips, of which the model makes ``lengths`` tokens, as far as that is known."""

    def __init__(
        self,
        kind: str,
        clips: Sequence[Clip],
        lengths: NDArray[np.int32],
        prepare: Callable[[NDArray[Any]], dict[str, Tensor]],
        *,
        digest: str,
        rate: int,
        budget: int,
        cells: int | None = None,
        grids: Mapping[tuple[int, ...], Grid | None],
        content_only: bool = False,
        targets: TokenisedTexts | None = None,
    ) -> None:
        self._kind, self._clips, self._prepare, self._rate = kind, clips, prepare, rate
        self.lengths, self.digest = lengths, digest
        self._grids, self._content_only, self.targets = grids, content_only, targets
        labels = enumerate(clip.item.label for clip in clips)
        self.labels = {place: label for place, label in labels if label is not None}
        # The file of each clip, by its number among those that give a clip.
        self.documents = _number_values([clip.item.path for clip in clips])
        self.names = name_documents(self.documents.astype(np.uint64) + np.uint64(int(digest[:16], 16)))
        keys = [_number_values([clip.shape for clip in clips])]
        keys += [] if targets is None else [targets.store.lengths.astype(np.int64)]
        self.plan = plan_batches(lengths, budget, cells, keys)

    def gather(self, members: Ints) -> Batch:
        clips = [self._clips[int(member)] for member in members]
        inputs = join_inputs([self._prepare(self._decode(clip)) for clip in clips])
        return Batch(inputs, None, members, self)

    def lay_out(self, batch: Batch, length: int) -> Layout:
        """Lay out tokens: outside of the grid the first is special, and the others part it from nothing.

        Without a grid there are no special tokens. No token is punctuation, and none is rare.
        """
        no, grid = (
            torch.zeros(len(batch), length, dtype=torch.bool),
            self._grids[self._clips[batch.members[0]].shape],
        )
        outside = no if grid is None else no | grid.places(length)[:, 0].isnan()
        first = outside.clone()
        first[:, 1:] = False
        kept = ~outside if self._content_only else ~no
        rank = torch.full((len(batch), length), -1)
        tokens = TokenFeatures(first, outside & ~first, no, ~outside, no.float(), kept, rank, rank)
        return Layout.of(tokens, grid=grid, placed=self._kind == SOUND or grid is not None)

    def _decode(self, clip: Clip) -> NDArray[Any]:
        if self._kind == IMAGE:
            return read_image(clip.item.path)
        return read_sound(clip.item.path, self._rate)[clip.start : clip.stop]


def _number_values(values: Sequence[Hashable]) -> Ints:
    """Number values from 0 on, each by its first place among the distinct ones."""
    numbers = {value: number for number, value in enumerate(dict.fromkeys(values))}
    return np.array([numbers[value] for value in values], np.int64)


def _digest(*parts: str) -> str:
    return hashlib.sha256("".join(parts).encode("utf-8", "surrogatepass")).hexdigest()


def join_inputs(parts: Sequence[Mapping[str, Tensor]]) -> dict[str, Tensor]:
    """Join what belongs to several sequences; of images, all tiles or patches stand side by side."""
    return {name: torch.cat([part[name] for part in parts]) for name in parts[0]}


class PairBatches(Batches):
    """The batches of images and texts, one image a text; the images of a batch have one shape.

    ``prepare`` makes of an image and a text what the model is given, cut to a length.
    """

    def __init__(
        self,
        source: TokenisedTexts,
        pairs: Sequence[tuple[Picture, str]],
        shapes: Sequence[tuple[Any, ...]],
        digests: Sequence[str],
        prepare: Callable[[Picture, str, int], dict[str, Tensor]],
        **options: Any,
    ) -> None:
        self._pairs, self._prepare = pairs, prepare
        super().__init__(source, keys=[_number_values(shapes)], **options)
        self.digest = _digest(self.digest, *digests)

    def gather(self, members: Ints) -> Batch:
        pairs = [self._pairs[int(member)] for member in members]
        length = int(self.lengths[members[0]])
        inputs = join_inputs([self._prepare(*pair, length) for pair in pairs])
        return replace(super().gather(members), inputs=inputs)

    def shuffle(self, seed: int) -> Self:
        raise DataError("Images with texts have no tokens that could be shuffled; give text.")
