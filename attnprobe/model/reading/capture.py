"""Reading attention from inside the model's own forward pass, block of queries by block."""

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from attnprobe.attention.kinds import NOTHING, Observed
from attnprobe.model.quirks import SINKS, AttentionSinkError, force_full_attention
from attnprobe.model.reading.blocks import SCORE_OPTIONS, attend_in_blocks, iterate_blocks, spread_band
from attnprobe.model.reading.ways import CallCounter, MapShape, Reader, Way, read_attention


@dataclass(frozen=True, slots=True)
class Piece:
    """A block of attention, and where it lies in the batch; overwritten by the next, so use it at once."""

    layer: int  # from 0, in the order of the forward pass
    sequence: int  # the first in the block
    query: int  # the first in the block
    queries: int  # of the whole sequence
    probabilities: Tensor  # (batch, head, query, key)
    observed: Observed = NOTHING


Observer = Callable[[Piece], None]


@contextmanager
def capture_attention(
    model: PreTrainedModel, observer: Observer, way: Way = Way.REGISTRY, observe: Collection[str] = ()
) -> Iterator[Reader]:
    """Call ``observer`` with every block of attention of the forward passes made inside.

    Afterwards the model has its attention implementation, training mode and hooks back. Several models can be
    read at a time, and a model by several threads; each further thread enters the ``thread_context`` of the
    value. ``observe`` names what blocks hold beside probabilities, as far as the ``way`` gives it: "scores",
    "values", "outputs", "queries", "keys".

    Raises:
        UnsupportedModelError: When the model can't be switched to another attention function.
    """
    with force_full_attention(model):
        reader = _BlockReader(CallCounter(model), observer, observe)
        with read_attention(model, way, reader):
            yield reader


class _BlockReader(Reader):
    def __init__(self, counter: CallCounter, observer: Observer, observe: Collection[str]) -> None:
        self.counter, self._observer, self._observe = counter, observer, observe

    def attend(self, layer: int, module: nn.Module | None, *given: Any, **options: Any) -> Tensor:
        """Compute attention, and show each block; refuses learned sinks that are not passed to it."""
        sinks = options.get(SINKS)
        if sinks is None and getattr(module, "sinks", None) is not None:
            raise AttentionSinkError(type(module).__name__)
        self.counter.sunk = self.counter.sunk or sinks is not None
        queries = given[0].shape[2]

        def show(sequence: int, start: int, rows: Tensor, seen: Observed) -> None:
            self._observer(Piece(layer, sequence, start, queries, rows, seen))

        known = {name: options.get(name) for name in SCORE_OPTIONS}
        return attend_in_blocks(*given, sinks=sinks, observe=self._observe, show=show, **known)

    def weigh(self, layer: int, scores: Tensor, given: Tensor, shape: MapShape, length: int | None) -> Tensor:
        """Show tapped probabilities ``given`` to the observer, block by block, and return them unchanged."""
        probabilities = shape.by_head(given.detach())
        # Outside of a band there are no scores to show.
        raw = shape.by_head(scores.detach()) if "scores" in self._observe and not shape.band else None
        batch, heads, queries, keys = probabilities.shape
        if shape.band:
            queries = keys = length or queries
        for members, span in iterate_blocks(batch, heads, queries, keys, given):
            block = probabilities[members, :, span]
            if shape.band:
                block = spread_band(block, span.start, keys)
            precise = torch.promote_types(block.dtype, torch.float32)
            seen = NOTHING if raw is None else Observed(scores=raw[members, :, span].to(precise))
            self._observer(Piece(layer, members.start, span.start, queries, block.to(precise), seen))
        return given
