"""Reaching attention from inside the model's own forward pass, block of queries by block.

One attention function is registered with transformers. Inside ``captured_attention``, every
attention layer of the model calls that function instead of its own; it computes the layer's output
in blocks that fit the processor's cache and hands the probabilities of each block to an observer.
"""

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from transformers import AttentionInterface, AttentionMaskInterface, PreTrainedModel
from transformers.masking_utils import sdpa_mask

from attnprobe.errors import first_line
from attnprobe.model.support import UnsupportedModelError

#: The name under which the function is registered.
IMPLEMENTATION = "attnprobe"
#: Probabilities in a block: 1.5 MiB of float32, so that scores and probabilities stay in cache.
BLOCK_CPU = 393_216
#: On an accelerator, launching kernels costs more than cache misses.
BLOCK_ACCELERATOR = 33_554_432
#: A block has at least this many queries, or matrix products become slow.
LEAST_QUERIES = 32


@dataclass(frozen=True, slots=True)
class Piece:
    """Where a block lies in the batch.

    Attributes:
        layer: The attention layer, counted from 0 in the order of the forward pass.
        sequence: First sequence of the batch in the block.
        query: Position of the first query in the block.
        probabilities: (batch, head, query, key). Overwritten by the next block: use it at once,
            or copy it.
    """

    layer: int
    sequence: int
    query: int
    probabilities: Tensor


Observer = Callable[[Piece], None]


@dataclass
class _Capture:
    """The state of one capture: who watches, and which layer comes next."""

    observer: Observer
    names: dict[int, str]
    sites: list[str] = field(default_factory=list)

    def restart(self, *_: Any) -> None:
        """Begin a new forward pass."""
        self.sites.clear()

    def enter(self, module: nn.Module) -> int:
        """Count a call. Modules shared between layers, as in ALBERT, are told apart by the count."""
        self.sites.append(self.names.get(id(module), type(module).__name__))
        return len(self.sites) - 1


_active: ContextVar[_Capture | None] = ContextVar("attnprobe_capture", default=None)


@contextmanager
def captured_attention(model: PreTrainedModel, observer: Observer) -> Iterator[_Capture]:
    """Let ``observer`` see every block of attention of the forward passes made inside.

    The model is left as it was found: attention implementation, training mode and hooks.

    Raises:
        UnsupportedModelError: When the model can't be switched to another attention function.
    """
    before = model.config._attn_implementation
    capture = _Capture(observer, {id(module): name for name, module in model.named_modules()})
    hook = model.register_forward_pre_hook(capture.restart)
    token = _active.set(capture)
    try:
        switch_attention(model, IMPLEMENTATION)
        with evaluating(model):
            yield capture
    finally:
        _active.reset(token)
        hook.remove()
        switch_attention(model, before)


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Switch dropout off, and afterwards back on wherever it was on."""
    training = [module for module in model.modules() if module.training]
    model.eval()
    try:
        yield
    finally:
        for module in training:
            module.training = True


def switch_attention(model: PreTrainedModel, implementation: str | None) -> None:
    """Change the attention function of a model."""
    try:
        model.set_attn_implementation(implementation or "eager")
    except (ValueError, KeyError, AttributeError, ImportError) as error:
        reason = f"its attention can't be replaced ({first_line(error)})"
        raise UnsupportedModelError(model.config.model_type, reason) from error


def _blocked_attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    dropout: float = 0.0,
    position_bias: Tensor | None = None,
    softcap: float | None = None,
    **options: Any,
) -> tuple[Tensor, None]:
    """Attend as the model's own function would, showing each block to the active observer.

    Args:
        module: The attention module that calls.
        query: (batch, head, query, width); ``key`` and ``value`` may have fewer heads (GQA).
        key: (batch, key/value head, key, width)
        value: (batch, key/value head, key, width)
        attention_mask: None, boolean (True is seen) or additive, broadcast to the scores.
        scaling: Factor of the scores; 1 / sqrt(width) by default.
        dropout: Ignored; probabilities after dropout are not attention.
        position_bias: Added to the scores (T5).
        softcap: Scores become softcap * tanh(scores / softcap) (Gemma 2).
        options: Everything else a model may pass; attention sinks are refused.

    Returns:
        The output (batch, query, head, width), and None in place of the weights.
    """
    capture = _active.get()
    if capture is None:
        raise RuntimeError(f"attention {IMPLEMENTATION!r} is only usable inside captured_attention")
    if options.get("s_aux") is not None or getattr(module, "sinks", None) is not None:
        raise UnsupportedModelError(
            type(module).__name__, "its rows do not sum to 1 (learned attention sinks)"
        )
    layer = capture.enter(module)
    batch, heads, queries, width = query.shape
    repeats = heads // key.shape[1]
    if repeats > 1:
        key, value = key.repeat_interleave(repeats, 1), value.repeat_interleave(repeats, 1)
    scale = width**-0.5 if scaling is None else scaling
    keys_last = key.transpose(2, 3)

    output = query.new_empty(batch, queries, heads, value.shape[3])
    room = None if torch.is_grad_enabled() else query.new_empty(0)
    for some, span in _blocks(batch, heads, queries, key.shape[2], query.device.type):
        scores = _scores(query[some, :, span], keys_last[some], scale, room)
        if softcap is not None:
            scores = softcap * torch.tanh(scores / softcap)
        for extra in (attention_mask, position_bias):
            if extra is not None:
                scores = _add(scores, _part(extra, some, span, batch, queries))
        precise = torch.promote_types(scores.dtype, torch.float32)
        inplace = scores if room is not None and scores.dtype == precise else None
        probabilities = torch.softmax(scores, -1, dtype=precise, out=inplace)
        mixed = torch.matmul(probabilities.to(value.dtype), value[some])
        output[some, span] = mixed.transpose(1, 2)
        capture.observer(Piece(layer, some.start, span.start, probabilities.detach()))
    return output, None


def _scores(query: Tensor, keys_last: Tensor, scale: float, room: Tensor | None) -> Tensor:
    """Multiply (batch, head, query, width) by (batch, head, width, key), into ``room`` if there is one.

    Fresh memory for each block costs page faults and cache misses; ``room`` grows to the largest
    block and is used again. Gradients need memory of their own.
    """
    batch, heads, queries, width = query.shape
    shape = batch * heads, queries, keys_last.shape[3]
    if room is not None:
        if room.numel() < math.prod(shape):
            room.resize_(math.prod(shape))
        room = room[: math.prod(shape)].view(shape)
    scores = torch.baddbmm(
        query.new_empty(1, 1, 1) if room is None else room,
        query.reshape(batch * heads, queries, width),
        keys_last.reshape(batch * heads, width, shape[2]),
        beta=0,
        alpha=scale,
        out=room,
    )
    return scores.view(batch, heads, queries, shape[2])


def _blocks(batch: int, heads: int, queries: int, keys: int, device: str) -> Iterator[tuple[slice, slice]]:
    """Cut (batch, query) into blocks; whole sequences together when they are short."""
    budget = BLOCK_CPU if device == "cpu" else BLOCK_ACCELERATOR
    rows = max(LEAST_QUERIES, budget // (heads * keys))
    sequences = max(1, rows // queries)
    for first in range(0, batch, sequences):
        some = slice(first, min(first + sequences, batch))
        for start in range(0, queries, rows):
            yield some, slice(start, min(start + rows, queries))


def _part(extra: Tensor, some: slice, span: slice, batch: int, queries: int) -> Tensor:
    """Cut the part of a mask or bias that belongs to a block; size 1 axes broadcast."""
    if extra.shape[0] == batch and batch > 1:
        extra = extra[some]
    return extra[:, :, span] if extra.shape[2] == queries and queries > 1 else extra


def _add(scores: Tensor, extra: Tensor) -> Tensor:
    """Add a bias, or forbid what a boolean mask leaves out."""
    lowest = torch.finfo(scores.dtype).min
    if extra.dtype == torch.bool:
        return scores.masked_fill(~extra, lowest)
    return scores + extra.to(scores.dtype).clamp_min(lowest)


def _mask(*arguments: Any, **options: Any) -> Tensor | None:
    """Build the mask of the capture: always explicit where attention is causal."""
    options["allow_is_causal_skip"] = False
    return sdpa_mask(*arguments, **options)


AttentionInterface.register(IMPLEMENTATION, _blocked_attention)
AttentionMaskInterface.register(IMPLEMENTATION, _mask)
