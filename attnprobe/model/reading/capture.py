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
from attnprobe.model.reading.blocks import CHANGES, attend_in_blocks, iterate_blocks, spread_band
from attnprobe.model.reading.ways import Form, Reader, Sites, Way, read_attention


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
    """Show ``observer`` every block of attention of the forward passes made inside, in their own threads.

    The model is left as it was: attention implementation, training mode and hooks. Several models can be read
    at the same time, and one model by several threads, each with passes of its own, which enters the
    ``thread_context`` of what is given here.

    ``way`` is how attention is reached; ``observe`` names what blocks hold beside probabilities, as far as
    that way gives it: "scores", "values", "outputs", "queries", "keys".

    Raises:
        UnsupportedModelError: When the model can't be switched to another attention function.
    """
    with force_full_attention(model):
        showing = _Showing(Sites(model), observer, observe)
        with read_attention(model, way, showing):
            yield showing


class _Showing(Reader):
    def __init__(self, sites: Sites, observer: Observer, observe: Collection[str]) -> None:
        self.sites, self._observer, self._observe = sites, observer, observe

    def attend(self, layer: int, module: nn.Module | None, *given: Any, **options: Any) -> Tensor:
        sinks = options.get(SINKS)
        if sinks is None and getattr(module, "sinks", None) is not None:
            raise AttentionSinkError(type(module).__name__)
        self.sites.sunk = self.sites.sunk or sinks is not None
        queries = given[0].shape[2]

        def show(sequence: int, start: int, rows: Tensor, seen: Observed) -> None:
            self._observer(Piece(layer, sequence, start, queries, rows, seen))

        known = {name: options.get(name) for name in CHANGES}
        return attend_in_blocks(*given, sinks=sinks, observe=self._observe, show=show, **known)

    def weigh(self, layer: int, scores: Tensor, given: Tensor, form: Form, length: int | None) -> Tensor:
        probabilities = form.by_head(given.detach())
        # Outside of a band there are no scores to show.
        raw = form.by_head(scores.detach()) if "scores" in self._observe and not form.band else None
        batch, heads, queries, keys = probabilities.shape
        if form.band:
            queries = keys = length or queries
        for members, span in iterate_blocks(batch, heads, queries, keys, given):
            block = probabilities[members, :, span]
            if form.band:
                block = spread_band(block, span.start, keys)
            precise = torch.promote_types(block.dtype, torch.float32)
            seen = NOTHING if raw is None else Observed(scores=raw[members, :, span].to(precise))
            self._observer(Piece(layer, members.start, span.start, queries, block.to(precise), seen))
        return given
