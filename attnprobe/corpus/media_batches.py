"""Batches of images or sound of one length, and of images read with texts: one image a text.

The checkpoint's processor prepares them; nothing is padded.
"""

import hashlib
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from attnprobe.attention.features import Modalities, TokenFeatures
from attnprobe.attention.layout import Grid
from attnprobe.corpus.batch import Batch, Side, Unseen
from attnprobe.corpus.batches import Batches, BatchReader, plan_batches
from attnprobe.corpus.sources.media import IMAGE, SOUND, Item, read_image, read_sound
from attnprobe.corpus.sources.pictures import Picture
from attnprobe.corpus.store import Spool
from attnprobe.errors import DataError

#: Prepares one image or sound for the model, each tensor (1, ...).
Prepare = Callable[[NDArray[Any]], dict[str, Tensor]]


@dataclass(frozen=True)
class Clip:
    """An image, or a stretch of sound."""

    item: Item
    start: int = 0
    stop: int = 0
    shape: tuple[int, ...] = ()


class MediaBatches(BatchReader):
    """The batches of a folder of images or sound, in a fixed order; iterating again reads them again."""

    def __init__(
        self,
        kind: str,
        clips: Sequence[Clip],
        lengths: NDArray[np.int32],
        prepare: Prepare,
        *,
        digest: str,
        rate: int,
        budget: int,
        cells: int | None = None,
        grids: Mapping[tuple[int, ...], Grid | None],
        content_only: bool = False,
        targets: Side | None = None,
    ) -> None:
        """Plan the batches of clips, of which the model makes ``lengths`` tokens, as far as that is known."""
        self._kind, self._clips, self._prepare, self._rate = kind, clips, prepare, rate
        self.lengths, self.digest = lengths, digest
        self._grids, self._content_only, self.targets = grids, content_only, targets
        labels = {number: clip.item.label for number, clip in enumerate(clips)}
        self.labels = {number: label for number, label in labels.items() if label is not None}
        # The file of each clip, by its number among those that give a clip.
        self.documents = number_values([clip.item.path for clip in clips])
        keys = [number_values([clip.shape for clip in clips])]
        if targets is not None:
            keys.append(targets.store.lengths.astype(np.int64))
        super().__init__(plan_batches(lengths, budget, cells, keys))

    def gather(self, members: NDArray[np.int64]) -> Batch:
        clips = [self._clips[int(member)] for member in members]
        inputs = stack_inputs([self._prepare(self._decode(clip)) for clip in clips])
        grid, length = self._grids[clips[0].shape], int(self.lengths[members[0]])
        unseen = Unseen(length, self._kind != SOUND, grid, self._content_only)
        return Batch(inputs, None, members, unseen=unseen)

    def _decode(self, clip: Clip) -> NDArray[Any]:
        if self._kind == IMAGE:
            return read_image(clip.item.path)
        return read_sound(clip.item.path, self._rate)[clip.start : clip.stop]


def number_values(values: Sequence[Hashable]) -> NDArray[np.int64]:
    """Number values from 0 on, each by its first place among the distinct ones."""
    numbers = {value: number for number, value in enumerate(dict.fromkeys(values))}
    return np.array([numbers[value] for value in values], np.int64)


def stack_pairs(parts: Sequence[Mapping[str, Tensor]]) -> dict[str, Tensor]:
    """Stack what belongs to images and texts: ids and what is as long, and the rest with an axis of its own.

    So a batch can be cut between sequences, however many tiles or patches an image has.
    """
    length = parts[0]["input_ids"].shape
    return {
        name: torch.cat([part[name] for part in parts])
        if value.shape == length
        else torch.stack([part[name] for part in parts])
        for name, value in parts[0].items()
    }


def flatten_pairs(inputs: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Put what ``stack_pairs`` stacked side by side, as models want it."""
    length = inputs["input_ids"].shape
    return {name: value if value.shape == length else value.flatten(0, 1) for name, value in inputs.items()}


def stack_inputs(parts: Sequence[Mapping[str, Tensor]]) -> dict[str, Tensor]:
    return {name: torch.cat([part[name] for part in parts]) for name in parts[0]}


#: Prepares an image and a text for the model, as long as what is read of them.
PreparePair = Callable[[Picture, str, int], dict[str, Tensor]]


@dataclass(frozen=True)
class PairSide(Side):
    """Texts with images in them."""

    is_image: Callable[[Any], Any] = lambda ids: ids < 0
    find_sight: Callable[[Tensor], Tensor] | None = None
    queries: str | None = None

    def features(self, ids: NDArray[np.int32]) -> TokenFeatures:
        """Look up what is known about token ids; all special tokens that are no image are separators here."""
        found, image = super().features(ids), torch.from_numpy(self.is_image(ids))
        every = torch.from_numpy(self.kinds.special(ids)) & ~image
        first = found.first & every
        punctuation = found.punctuation & ~(image | every)
        asking = {"image": image, "text": ~(image | every)}.get(self.queries or "", torch.ones_like(image))
        place = torch.arange(ids.shape[1]).expand(ids.shape)
        sees = place.contiguous() if self.find_sight is None else self.find_sight(image)
        none = image | every
        return TokenFeatures(
            first,
            every & ~first,
            punctuation,
            ~(every | punctuation),
            found.rare.masked_fill(none, 0),
            ~every if self.content_only else torch.ones_like(image),
            found.rank.masked_fill(none, -1),
            found.order.masked_fill(none, -1),
            mixed=Modalities(image, asking, sees),
        )


class PairBatches(Batches):
    """The batches of images and texts, in a fixed order; iterating again prepares them again."""

    def __init__(
        self,
        source: PairSide,
        pairs: Sequence[tuple[Picture, str]],
        shapes: Sequence[tuple[Any, ...]],
        digests: Sequence[str],
        prepare: PreparePair,
        **options: Any,
    ) -> None:
        """Plan the batches of sequences of one length whose images have one shape."""
        self._pairs, self._prepare = pairs, prepare
        super().__init__(source, keys=[number_values(shapes)], **options)
        self.digest = hashlib.sha256("".join((self.digest, *digests)).encode()).hexdigest()

    def gather(self, members: NDArray[np.int64]) -> Batch:
        pairs = [self._pairs[int(member)] for member in members]
        length = int(self.lengths[members[0]])
        inputs = stack_pairs([self._prepare(*pair, length) for pair in pairs])
        return replace(super().gather(members), inputs=inputs)

    def shuffle(self, seed: int) -> Self:
        raise DataError("Images with texts have no tokens that could be shuffled; give text.")


def move_to_spool(picture: Picture, spool: Spool) -> Picture:
    """Let a picture that has no file hold its bytes in a spool."""
    if picture.path is not None:
        return picture
    return replace(picture, held=b"", spool=(spool, spool.append(picture.held), len(picture.held)))
