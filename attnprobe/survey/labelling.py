"""What the tokens of one sequence are called, on each side of each kind of attention."""

from collections.abc import Sequence
from functools import cached_property
from math import isqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnprobe.attention.features import TokenFeatures
from attnprobe.attention.kinds import Kind
from attnprobe.attention.layout import Grid
from attnprobe.corpus.batch import Batch
from attnprobe.errors import AttnprobeError
from attnprobe.model.checkpoint import Checkpoint
from attnprobe.survey.tokens import Covered, Side, find_characters, match_characters


class Labeller:
    """Labels the tokens of a batch of one sequence, on each side of each kind of attention."""

    def __init__(
        self, checkpoint: Checkpoint, batch: Batch, texts: tuple[str, ...], target: str | None
    ) -> None:
        self._checkpoint, self._batch, self._texts, self._target = checkpoint, batch, texts, target

    def label(self, kind: Kind, queries: int, keys: int) -> tuple[Side, Side]:
        """Give the queries and the keys of a kind of attention, of which there are so many.

        Raises:
            AttnprobeError: When the model attends over other places than it has read tokens.
        """
        layout = self._batch.lay_out(kind, queries, keys)
        for features, number in ((layout.queries, queries), (layout.keys, keys)):
            if features.length != number:
                raise AttnprobeError(
                    f"{self._checkpoint.name} attends over {number:,} places where it has read "
                    f"{features.length:,} tokens, which a picture can't label."
                )
        decodes = self._batch.targets is not None
        if decodes and kind is Kind.DECODER:
            return self._decoder, self._decoder
        if "input_ids" in self._batch.inputs:
            encoder = self._encoder
        else:
            encoder = Side.of_patches(keys, layout.grid, _find_special(layout.keys))
        return self._decoder if decodes and kind is Kind.CROSS else encoder, encoder

    @cached_property
    def _encoder(self) -> Side:
        assert self._batch.tokens is not None
        ids, special = self._batch.ids[0].tolist(), _find_special(self._batch.tokens)
        found = Side.of_text(self._checkpoint.tokenizer, ids, special, self._texts, self._covered)
        mixed = self._batch.tokens.mixed
        if mixed is None:
            return found
        image = mixed.image[0].numpy()
        return found.with_image(image, _find_tiles(self._batch, image))

    @cached_property
    def _covered(self) -> list[Covered] | None:
        ids, tokenizer = self._batch.ids[0].tolist(), self._checkpoint.tokenizer
        assert self._batch.tokens is not None
        if self._batch.tokens.mixed is not None:
            return match_characters(tokenizer, ids, self._texts[0])
        found = find_characters(tokenizer, ids, self._texts)
        if found is None and len(self._texts) == 2:
            cut = {"truncation": "longest_first", "max_length": len(ids)}
            found = find_characters(tokenizer, ids, self._texts, **cut)
        return found

    @cached_property
    def _decoder(self) -> Side:
        ids = self._batch.inputs["decoder_input_ids"][0].tolist()
        tokenizer: Any = self._checkpoint.target_tokenizer or self._checkpoint.tokenizer
        assert self._batch.targets is not None
        special = _find_special(self._batch.targets)
        if self._target is None:
            before = None if self._covered is None else [None, *self._covered[: len(ids) - 1]]
            return Side.of_text(tokenizer, ids, special, self._texts, before)
        covered = _find_target_characters(tokenizer, ids, self._target)
        return Side.of_text(tokenizer, ids, special, (self._target,), covered)


def _find_tiles(batch: Batch, image: NDArray[np.bool_]) -> Grid | None:
    """Find rows and columns of the tokens of an image that is seen as one, row by row; or None."""
    places = np.flatnonzero(image)
    if len(places) != places[-1] - places[0] + 1:
        return None
    number = len(places)
    if "image_grid_thw" in batch.inputs:
        frames, high, wide = batch.inputs["image_grid_thw"].flatten()[:3].tolist()
        merged = isqrt(frames * high * wide // number)
        rows, columns = high // merged, wide // merged
    else:
        pixels = batch.inputs.get("pixel_values")
        if pixels is None or pixels.shape[1:-3].numel() != 1:  # cut into tiles, each seen by itself
            return None
        rows = columns = isqrt(number)
    return Grid(int(places[0]), rows, columns) if rows * columns == number else None


def _find_target_characters(tokenizer: Any, ids: Sequence[int], target: str) -> list[Covered] | None:
    """Tell which characters of a target each token covers that a decoder reads, one place later."""
    if not getattr(tokenizer, "is_fast", False):
        return None
    encoded = tokenizer(text_target=[target], return_offsets_mapping=True, verbose=False)
    found, offsets = encoded["input_ids"][0], encoded["offset_mapping"][0]
    every: list[Covered] = [None if start == stop else (0, start, stop) for start, stop in offsets]
    for left_out in (0, 1):  # a token that the decoder begins with anyway
        stop = left_out + len(ids) - 1
        if found[left_out:stop] == list(ids[1:]):
            return [None, *every[left_out:stop]]
    return None


def _find_special(features: TokenFeatures) -> NDArray[np.bool_]:
    return (features.first | features.separator)[0].cpu().numpy()
