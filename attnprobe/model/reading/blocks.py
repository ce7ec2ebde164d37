"""Attention computed in blocks of queries that fit the processor's cache."""

import math
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import torch
from torch import Tensor

from attnprobe.attention.block import NOTHING, Observed

#: Probabilities in a block: 1.5 MiB of float32, so that scores and probabilities stay in cache.
BLOCK_CPU = 393_216
#: On an accelerator, launching kernels costs more than cache misses.
BLOCK_ACCELERATOR = 33_554_432
#: A block has at least this many queries, or matrix products become slow; fewer only to save memory.
LEAST_QUERIES = 32
#: How often a block's probabilities are held at most: scores, with their mask, as probabilities, without
#: special tokens, and on the way through a statistic.
COPIES = 6

#: How many more there are where scores are kept beside probabilities.
COPIES_WITH_SCORES = 8

#: Is called with a block: its first sequence, its first query, its probabilities (batch, head, query, key),
#: and what was asked for beside them.
Show = Callable[[int, int, Tensor, Observed], None]

_memory: ContextVar[tuple[int, int] | None] = ContextVar("attnprobe_block_memory", default=None)


@contextmanager
def limit_block_memory(size: int | None, copies: int = COPIES) -> Iterator[None]:
    """Let blocks made inside take at most ``size`` bytes; None for blocks that suit the device.

    Blocks on a processor never grow above what suits its cache; those on an accelerator do. A block of
    one query of one sequence is made even if it takes more. ``copies`` is how often a block is held.
    """
    token = _memory.set(None if size is None else (size, copies))
    try:
        yield
    finally:
        _memory.reset(token)


def count_query_bytes(heads: int, keys: int, itemsize: int = 4, copies: int = COPIES) -> int:
    """Count the bytes that a query of a block takes, all heads and copies together."""
    return copies * itemsize * heads * keys


def attend_in_blocks(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    *,
    scaling: float | None = None,
    position_bias: Tensor | None = None,
    softcap: float | None = None,
    sinks: Tensor | None = None,
    observe: Collection[str] = (),
    show: Show = lambda *_: None,
) -> Tensor:
    """Attend as the model's own function would, showing each block on the way.

    Args:
        query: (batch, head, query, width); ``key`` and ``value`` may have fewer heads (GQA).
        key: (batch, key/value head, key, width)
        value: (batch, key/value head, key, width)
        attention_mask: None, boolean (True is seen) or additive, broadcast to the scores.
        scaling: Factor of the scores; 1 / sqrt(width) by default.
        position_bias: Added to the scores (T5).
        softcap: Scores become softcap * tanh(scores / softcap) (Gemma 2).
        sinks: For each head, the score of attending to nothing (gpt-oss). Rows are shown without it, over
            the tokens; what they give is turned down by the share that goes to it.
        observe: What is shown beside probabilities: "scores", "values", "outputs", "queries", "keys".
        show: Is called with each block; its memory is used again for the next.

    Returns:
        The output (batch, query, head, width).
    """
    batch, heads, queries, width = query.shape
    repeats = heads // key.shape[1]
    if repeats > 1:
        key, value = key.repeat_interleave(repeats, 1), value.repeat_interleave(repeats, 1)
    scale = width**-0.5 if scaling is None else scaling
    keys_last = key.transpose(2, 3)

    output = query.new_empty(batch, queries, heads, value.shape[3])
    room = None if torch.is_grad_enabled() else query.new_empty(0)
    keys_here, values_here = key, value
    for some, span in iterate_blocks(batch, heads, queries, key.shape[2], query):
        if not span.start:  # one tensor for all queries of a sequence, so that what is made of it can be kept
            keys_here, values_here = key[some].detach(), value[some].detach()
        scores = _multiply(query[some, :, span], keys_last[some], scale, room)
        if softcap is not None:
            scores = softcap * torch.tanh(scores / softcap)
        for extra in (attention_mask, position_bias):
            if extra is not None:
                scores = _add_bias(scores, _cut_block(extra, some, span, batch, queries))
        precise = torch.promote_types(scores.dtype, torch.float32)
        kept = None if sinks is None else _share_with_sinks(scores.to(precise), sinks)
        inplace = room is not None and scores.dtype == precise and "scores" not in observe
        probabilities = torch.softmax(scores, -1, dtype=precise, out=scores if inplace else None)
        mixed = torch.matmul(probabilities.to(value.dtype), value[some])
        if kept is not None:
            mixed = mixed * kept.to(mixed.dtype)
        output[some, span] = mixed.transpose(1, 2)
        seen = NOTHING
        if observe:
            given = {
                "scores": scores.detach().to(precise),
                "values": values_here,
                "outputs": mixed.detach(),
                "queries": query[some, :, span].detach(),
                "keys": keys_here,
            }
            seen = Observed(**{name: given[name] for name in observe if name in given})
        show(some.start, span.start, probabilities.detach(), seen)
    return output


def _share_with_sinks(scores: Tensor, sinks: Tensor) -> Tensor:
    """Compute the share (batch, head, query, 1) of the tokens, with the sink of each head as one more key."""
    return torch.sigmoid(scores.logsumexp(-1, keepdim=True) - sinks.to(scores)[None, :, None, None])


def _multiply(query: Tensor, keys_last: Tensor, scale: float, room: Tensor | None) -> Tensor:
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


def iterate_blocks(
    batch: int, heads: int, queries: int, keys: int, like: Tensor
) -> Iterator[tuple[slice, slice]]:
    """Cut (batch, query) into blocks; whole sequences together when they are short."""
    processor, memory = like.device.type == "cpu", _memory.get()
    budget = BLOCK_CPU if processor else BLOCK_ACCELERATOR
    rows = max(LEAST_QUERIES, budget // (heads * keys))
    if memory is not None:
        size, copies = memory
        itemsize = torch.promote_types(like.dtype, torch.float32).itemsize
        affordable = max(1, size // count_query_bytes(heads, keys, itemsize, copies))
        rows = min(rows, affordable) if processor else affordable
    sequences = max(1, rows // queries)
    for first in range(0, batch, sequences):
        some = slice(first, min(first + sequences, batch))
        for start in range(0, queries, rows):
            yield some, slice(start, min(start + rows, queries))


def _cut_block(extra: Tensor, some: slice, span: slice, batch: int, queries: int) -> Tensor:
    """Cut the part of a mask or bias that belongs to a block; size 1 axes broadcast."""
    if extra.shape[0] == batch and batch > 1:
        extra = extra[some]
    return extra[:, :, span] if extra.shape[2] == queries and queries > 1 else extra


def _add_bias(scores: Tensor, extra: Tensor) -> Tensor:
    """Add a bias, or mask what a boolean mask leaves out."""
    lowest = torch.finfo(scores.dtype).min
    if extra.dtype == torch.bool:
        return scores.masked_fill(~extra, lowest)
    return scores + extra.to(scores.dtype).clamp_min(lowest)
