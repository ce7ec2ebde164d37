"""The batches of a corpus, never padded: of texts, of images and sound, of both, and of pairs that differ."""

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from attnprobe.attention.layout import Grid
from attnprobe.attention.tokens import TokenAnnotation
from attnprobe.corpus.batch import Batch, Groups, ImageTexts, MediaTokens, TokenisedTexts
from attnprobe.corpus.document import Label
from attnprobe.corpus.media import IMAGE, SOUND, Item, Picture, read_image, read_sound
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
    targets: TokenisedTexts | None = None

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
        batch = replace(
            self.gather(members),
            documents=self.documents[members],
            names=self.names[members],
            clusters=self.clusters[members],
            groups=None if self.groups is None else self.groups.rows(members),
        )
        if self.targets is None:
            return batch
        ids = self.targets.ids(members)
        inside, crossed = self.targets.annotations(members)
        return replace(
            batch,
            inputs={**batch.inputs, "decoder_input_ids": torch.from_numpy(ids).long()},
            targets=self.targets.features(ids),
            target_annotations=inside,
            cross_annotations=crossed,
        )

    @cached_property
    def names(self) -> NDArray[np.int64]:
        """For each sequence, what names its document, in whatever corpus it lies."""
        return name_documents(self.documents.astype(np.uint64) + np.uint64(int(self.digest[:16] or "0", 16)))

    @cached_property
    def clusters(self) -> NDArray[np.int64]:
        """For each sequence, what names its document, or -1 where it is the document's only one."""
        return np.where(np.bincount(self.documents)[self.documents] > 1, self.names, -1)

    @cached_property
    def groups(self) -> Groups | None:
        """The groups that the sequences count in, if somebody asked for groups."""
        return None

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
        other = copy(self)
        other.plan = plan
        return other

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
        return self.lengths if self.targets is None else np.maximum(self.lengths, self.targets.store.lengths)

    @property
    def sizes(self) -> list[int]:
        """Tokens in each batch, those of targets included."""
        lengths = self.lengths if self.targets is None else self.lengths + self.targets.store.lengths
        return [int(lengths[members].sum(dtype=np.int64)) for members in self.plan]

    @property
    def tokens(self) -> int:
        """Tokens in all batches together, those of targets included."""
        return sum(self.sizes)

    def __len__(self) -> int:
        return len(self.plan)

    def __iter__(self) -> Iterator[Batch]:
        return map(self.read, self.plan)


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
        fresh: NDArray[np.int64] | None = None,
        keys: Sequence[NDArray[np.integer]] = (),
    ) -> None:
        self.source, self.targets, self.fresh = source, targets, fresh
        store = source.store
        self.lengths, self.documents, self.labels = store.lengths, store.documents, store.labels
        self.digest, self.rarity_digest = store.digest, source.rarity.digest
        if targets is not None:
            if targets.store.annotated:
                self.digest = hashlib.sha256((store.digest + targets.store.digest).encode()).hexdigest()
            keys = (store.lengths, targets.store.lengths, *keys)
        # A batch is as large as the longer side makes it; both agree in their lengths.
        super().__init__(plan_batches(self.longer, budget, cells, keys))

    @cached_property
    def names(self) -> NDArray[np.int64]:
        return self.source.store.names

    @cached_property
    def groups(self) -> Groups | None:
        store = self.source.store
        within = store.group_numbers
        return None if within is None else Groups.find(store.groups, within, self.names)

    def shuffle(self, seed: int) -> Self:
        other = copy(self)
        other.source = self.source.shuffle(seed)
        other.targets = None if self.targets is None else self.targets.shuffle(seed)
        return other

    def annotation(self, member: int) -> TokenAnnotation | None:
        return self.source.store.annotations(member)[0] if self.source.seed is None else None

    def gather(self, members: NDArray[np.int64]) -> Batch:
        ids = self.source.ids(members)
        types = self.source.are_second(members, ids.shape[1])
        inputs = {"input_ids": torch.from_numpy(ids).long(), "token_type_ids": torch.from_numpy(types).long()}
        annotations, _ = self.source.annotations(members)
        return Batch(inputs, self.source.features(ids), members, annotations=annotations)

    def read(self, members: NDArray[np.int64]) -> Batch:
        """Read some texts of one length, with all that is known about them."""
        batch = super().read(members)
        if self.fresh is None:
            return batch
        ids = batch.ids.numpy()
        rows = zip(ids, self.source.kinds.special(ids), strict=True)
        fresh = np.stack([replace_repeated(row, special, self.fresh) for row, special in rows])
        inputs = {**batch.inputs, "input_ids": torch.from_numpy(fresh)}
        if "decoder_input_ids" in inputs:  # the first tokens of the text, behind one that starts it
            targets = inputs["decoder_input_ids"].clone()
            targets[:, 1:] = inputs["input_ids"][:, : targets.shape[1] - 1]
            inputs["decoder_input_ids"] = targets
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
        self,
        clean: TokenisedTexts,
        corrupted: TokenisedTexts,
        readouts: Sequence[Readout],
        *,
        budget: int,
        targets: TokenisedTexts | None = None,
    ) -> None:
        self.corrupted, self.readouts = corrupted, readouts
        keys = [clean.store.lengths, corrupted.store.lengths]
        super().__init__(clean, budget=budget, targets=targets, keys=keys)
        self.labels = {}
        stores = [texts.store for texts in (clean, corrupted, targets) if texts is not None]
        content = "".join((*(store.digest for store in stores), *map(repr, readouts)))
        self.digest = hashlib.sha256(content.encode("utf-8", "surrogatepass")).hexdigest()

    def read(self, members: NDArray[np.int64]) -> Batch:
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
        self.labels = {
            place: clip.item.label for place, clip in enumerate(clips) if clip.item.label is not None
        }
        # The file of each clip, by its number among those that give a clip.
        self.documents = _number_values([clip.item.path for clip in clips])
        keys = [_number_values([clip.shape for clip in clips])]
        if targets is not None:
            keys.append(targets.store.lengths.astype(np.int64))
        super().__init__(plan_batches(lengths, budget, cells, keys))

    def gather(self, members: NDArray[np.int64]) -> Batch:
        clips = [self._clips[int(member)] for member in members]
        decoded = (
            read_image(clip.item.path)
            if self._kind == IMAGE
            else read_sound(clip.item.path, self._rate)[clip.start : clip.stop]
            for clip in clips
        )
        inputs = stack_inputs([self._prepare(content) for content in decoded])
        grid, length = self._grids[clips[0].shape], int(self.lengths[members[0]])
        media = MediaTokens(length, self._kind != SOUND, grid, self._content_only)
        return Batch(inputs, None, members, media=media)


def _number_values(values: Sequence[Hashable]) -> NDArray[np.int64]:
    """Number values from 0 on, each by its first place among the distinct ones."""
    numbers = {value: number for number, value in enumerate(dict.fromkeys(values))}
    return np.array([numbers[value] for value in values], np.int64)


def stack_inputs(parts: Sequence[Mapping[str, Tensor]]) -> dict[str, Tensor]:
    return {name: torch.cat([part[name] for part in parts]) for name in parts[0]}


def stack_pairs(parts: Sequence[Mapping[str, Tensor]]) -> dict[str, Tensor]:
    """Stack what belongs to images and texts: ids and what is as long, and the rest with an axis of its own.

    So a batch can be cut between sequences, however many tiles or patches an image has.
    """
    length = parts[0]["input_ids"].shape
    return {
        name: (torch.cat if value.shape == length else torch.stack)([part[name] for part in parts])
        for name, value in parts[0].items()
    }


def flatten_pairs(inputs: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Put what ``stack_pairs`` stacked side by side, as models want it."""
    length = inputs["input_ids"].shape
    return {name: value if value.shape == length else value.flatten(0, 1) for name, value in inputs.items()}


class PairBatches(Batches):
    """The batches of images and texts, one image a text; the images of a batch have one shape.

    ``prepare`` makes of an image and a text what the model is given, cut to a length.
    """

    def __init__(
        self,
        source: ImageTexts,
        pairs: Sequence[tuple[Picture, str]],
        shapes: Sequence[tuple[Any, ...]],
        digests: Sequence[str],
        prepare: Callable[[Picture, str, int], dict[str, Tensor]],
        **options: Any,
    ) -> None:
        self._pairs, self._prepare = pairs, prepare
        super().__init__(source, keys=[_number_values(shapes)], **options)
        self.digest = hashlib.sha256("".join((self.digest, *digests)).encode()).hexdigest()

    def gather(self, members: NDArray[np.int64]) -> Batch:
        pairs = [self._pairs[int(member)] for member in members]
        length = int(self.lengths[members[0]])
        inputs = stack_pairs([self._prepare(*pair, length) for pair in pairs])
        return replace(super().gather(members), inputs=inputs)

    def shuffle(self, seed: int) -> Self:
        raise DataError("Images with texts have no tokens that could be shuffled; give text.")
