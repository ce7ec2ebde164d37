"""Batches of images, sound or videos of one length: prepared by the checkpoint's processor, never padded."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from attnprobe.attention.layout import Grid
from attnprobe.corpus.batches.batch import Batch, Side, Unseen
from attnprobe.corpus.batches.text import BatchReader, plan_batches
from attnprobe.corpus.sources.media import IMAGE, SOUND, VIDEO, Item, read_image, read_sound
from attnprobe.corpus.sources.video import read_frames

#: Prepares one image or sound for the model, each tensor (1, ...).
Prepare = Callable[[NDArray[Any]], dict[str, Tensor]]


@dataclass(frozen=True)
class Clip:
    """An image, a video, or a stretch of sound.

    Attributes:
        item: The file.
        start: First sample; 0 for an image.
        stop: Behind the last sample; 0 for an image.
        shape: What clips of a batch agree in: size of an image, samples of sound; alike for all where
            the processor makes one shape of everything.
    """

    item: Item
    start: int = 0
    stop: int = 0
    shape: tuple[int, ...] = ()


class MediaBatches(BatchReader):
    """The batches of a folder of images, sound or videos, in a fixed order; iterating again reads them again.

    Attributes:
        frames: How many frames of each video are read, 0 of anything else.
    """

    def __init__(
        self,
        kind: str,
        clips: Sequence[Clip],
        lengths: NDArray[np.int32],
        prepare: Prepare,
        *,
        digest: str,
        rate: int,
        frames: int = 0,
        budget: int,
        cells: int | None = None,
        most: Callable[[int], int] | None = None,
        grids: Mapping[tuple[int, ...], Grid | None],
        content_only: bool = False,
        targets: Side | None = None,
    ) -> None:
        """Plan the batches of clips, of which the model makes ``lengths`` tokens, as far as that is known.

        ``prepare`` is the checkpoint's processor, ``rate`` the samples a second that the model expects, and
        ``grids`` say where the patches of an image of each shape are. For the rest see ``plan_batches``.
        """
        self._kind, self._clips, self._prepare, self._rate = kind, clips, prepare, rate
        self.frames = frames
        self.lengths, self.digest = lengths, digest
        self._grids, self._content_only, self.targets = grids, content_only, targets
        labels = {number: clip.item.label for number, clip in enumerate(clips)}
        self.labels = {number: label for number, label in labels.items() if label is not None}
        # The file of each clip, by its number among those that give a clip.
        self.documents = number_values([clip.item.path for clip in clips])
        keys = [number_values([clip.shape for clip in clips])]
        if targets is not None:
            keys.append(targets.store.lengths.astype(np.int64))
        super().__init__(plan_batches(lengths, budget, cells, keys, most=most))

    def gather(self, members: NDArray[np.int64]) -> Batch:
        clips = [self._clips[int(member)] for member in members]
        inputs = stack_inputs([self._prepare(self._decode(clip)) for clip in clips])
        grid, length = self._grids[clips[0].shape], int(self.lengths[members[0]])
        unseen = Unseen(length, self._kind != SOUND, grid, self._content_only)
        return Batch(inputs, None, members, unseen=unseen)

    def _decode(self, clip: Clip) -> NDArray[Any]:
        if self._kind == IMAGE:
            return read_image(clip.item.path)
        if self._kind == VIDEO:
            return read_frames(clip.item, self.frames)
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
