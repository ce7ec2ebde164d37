"""Labels for what an encoder and a decoder have read in a batch of one sequence."""

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnprobe.attention.features import TokenFeatures
from attnprobe.attention.kinds import Kind
from attnprobe.corpus.batches.batch import Batch
from attnprobe.errors import AttnprobeError
from attnprobe.model.loading.checkpoint import Checkpoint
from attnprobe.survey.recorder import layout_of
from attnprobe.survey.viewing.side import Covered, Side, characters_of


class Sides:
    """The tokens of each side of each kind of attention."""

    def __init__(
        self, checkpoint: Checkpoint, batch: Batch, texts: tuple[str, ...], target: str | None
    ) -> None:
        """Label the tokens of a batch.

        Args:
            checkpoint: Which has read it.
            batch: One sequence.
            texts: What the encoder, or a decoder alone, was given.
            target: What a decoder beside an encoder was given, if not the same.
        """
        self._checkpoint, self._batch, self._texts, self._target = checkpoint, batch, texts, target

    def of(self, kind: Kind, queries: int, keys: int) -> tuple[Side, Side]:
        """Give the queries and the keys of a kind of attention, of which there are so many.

        Raises:
            AttnprobeError: When the model attends over other places than it has read tokens.
        """
        layout = layout_of(kind, self._batch, queries, keys)
        for features, number in ((layout.queries, queries), (layout.keys, keys)):
            if features.length != number:
                raise AttnprobeError(
                    f"{self._checkpoint.name} attends over {number:,} places where it has read "
                    f"{features.length:,} tokens, which a picture can't label."
                )
        decodes = self._batch.targets is not None
        if "input_ids" in self._batch.inputs:
            encoder = self._read if kind is not Kind.DECODER or not decodes else None
        else:
            encoder = Side.of_patches(keys, layout.grid, _special(layout.keys))
        if not decodes or kind is Kind.ENCODER:
            assert encoder is not None
            return encoder, encoder
        if kind is Kind.DECODER:
            return self._written, self._written
        assert encoder is not None
        return self._written, encoder

    @cached_property
    def _read(self) -> Side:
        ids = self._batch.ids[0].tolist()
        assert self._batch.tokens is not None
        special = _special(self._batch.tokens)
        return Side.of_text(self._checkpoint.tokenizer, ids, special, self._texts, self._covered)

    @cached_property
    def _covered(self) -> list[Covered] | None:
        ids, tokenizer = self._batch.ids[0].tolist(), self._checkpoint.tokenizer
        found = characters_of(tokenizer, ids, self._texts)
        if found is None and len(self._texts) == 2:
            found = characters_of(
                tokenizer, ids, self._texts, truncation="longest_first", max_length=len(ids)
            )
        return found

    @cached_property
    def _written(self) -> Side:
        ids = self._batch.inputs["decoder_input_ids"][0].tolist()
        tokenizer: Any = self._checkpoint.target_tokenizer or self._checkpoint.tokenizer
        assert self._batch.targets is not None
        special = _special(self._batch.targets)
        if self._target is None:
            before = None if self._covered is None else [None, *self._covered[: len(ids) - 1]]
            return Side.of_text(tokenizer, ids, special, self._texts, before)
        return Side.of_text(tokenizer, ids, special, (self._target,), _answered(tokenizer, ids, self._target))


def _answered(tokenizer: Any, ids: Sequence[int], target: str) -> list[Covered] | None:
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


def _special(features: TokenFeatures) -> NDArray[np.bool_]:
    return (features.first | features.separator)[0].cpu().numpy()
