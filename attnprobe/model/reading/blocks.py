"""Attention computed in blocks of queries that fit the cache."""

import math
from collections.abc import Callable, Collection, Iterator
from inspect import signature
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from attnprobe.attention.kinds import NOTHING, Observed
from attnprobe.model.private import sdpa_attention_forward
from attnprobe.model.quirks import SINKS, UnsupportedModelError, find_window


def spread_band(band: Tensor, first: int, keys: int) -> Tensor:
    """Spread rows of a band (batch, head, query, window) from query ``first`` on over all keys, 0 outside.

    The middle of a window is the query itself.

    >>> import torch
    >>> spread_band(torch.tensor([[[[0.0, 0.7, 0.3], [0.2, 0.5, 0.3]]]]), 0, 4)[0, 0]
    tensor([[0.7000, 0.3000, 0.0000, 0.0000],
            [0.2000, 0.5000, 0.3000, 0.0000]])
    """
    batch, heads, queries, width = band.shape
    side = width // 2
    whole = band.new_zeros(batch, heads, queries, max(keys + 2 * side, first + queries - 1 + width))
    strides = whole.stride()
    # Each row begins one key later than the row before.
    rows = whole.as_strided(band.shape, (*strides[:2], strides[2] + 1, 1), first)
    rows.copy_(band)
    return whole[..., side : side + keys]


def spread_maps(model: nn.Module, maps: Tensor) -> Tensor:
    """Spread the maps (batch, head, query, window) that a model gives, if they are bands."""
    widths = {2 * window + 1 for module in model.modules() if (window := find_window(module)) is not None}
    banded = maps.ndim == 4 and maps.shape[3] != maps.shape[2] and maps.shape[3] in widths
    return spread_band(maps, 0, maps.shape[2]) if banded else maps


def multi_head_attention(
    attend: Callable[..., Tensor], *arguments: Any, **options: Any
) -> tuple[Tensor, None]:
    """Do what ``torch.nn.functional.multi_head_attention_forward`` does, but for the attention itself.

    ``attend`` computes that, of queries, keys, values (batch, head, token, width) and a mask. Maps are None.
    """
    bound = signature(functional.multi_head_attention_forward).bind(*arguments, **options)
    bound.apply_defaults()
    given = SimpleNamespace(**bound.arguments)
    padded = given.key_padding_mask is not None and bool(given.key_padding_mask.any())
    if given.bias_k is not None or given.bias_v is not None or given.add_zero_attn or padded:
        raise UnsupportedModelError("multi_head_attention_forward", "it adds keys of its own, or padding")
    weights = given.q_proj_weight, given.k_proj_weight, given.v_proj_weight
    if not given.use_separate_proj_weight:
        weights = given.in_proj_weight.chunk(3)
    biases = (None,) * 3 if given.in_proj_bias is None else given.in_proj_bias.chunk(3)
    sides = zip((given.query, given.key, given.value), weights, biases, strict=True)
    projected = (functional.linear(*side).unflatten(-1, (given.num_heads, -1)) for side in sides)
    queries, keys, values = (tokens.permute(1, 2, 0, 3) for tokens in projected)
    mask = given.attn_mask
    if mask is not None and mask.ndim == 3:
        mask = mask.unflatten(0, (-1, given.num_heads))
    if mask is not None and mask.dtype == torch.bool:
        mask = ~mask  # here True is what is not seen
    joined = attend(queries, keys, values, mask).permute(2, 0, 1, 3).flatten(2)
    return functional.linear(joined, given.out_proj_weight, given.out_proj_bias), None


#: Probabilities in a block: 3 MiB of float32, so that scores and probabilities stay in cache. An accelerator
#: takes larger ones, since launching kernels costs it more than cache misses.
BLOCK_CPU, BLOCK_ACCELERATOR = 786_432, 33_554_432
#: A block has at least this many queries, or matrix products become slow.
LEAST_QUERIES = 32

#: Called with each block: its first sequence, its first query, its probabilities (batch, head, query, key),
#: and what else is observed.
Show = Callable[[int, int, Tensor, Observed], None]


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
    """Compute attention (batch, query, head, width) as the model's own function would, showing each block.

    Queries, keys and values are (batch, head, token, width); the latter two have fewer heads where heads
    share them. A mask is boolean (True is seen) or additive. ``scaling`` is 1 / sqrt(width) by default,
    ``position_bias`` is added to the scores (T5), which become softcap * tanh(scores / softcap) (Gemma 2).
    ``sinks`` are each head's score of attending to nothing (gpt-oss): rows are shown without it, over the
    tokens, and the output is scaled by the share that remains. ``observe`` names what is shown beside
    probabilities. The next block reuses the memory of a block.
    """
    batch, heads, queries, width = query.shape
    repeats = heads // key.shape[1]
    if repeats > 1:
        key, value = key.repeat_interleave(repeats, 1), value.repeat_interleave(repeats, 1)
    scale = width**-0.5 if scaling is None else scaling

    output = query.new_empty(batch, queries, heads, value.shape[3])
    room = None if torch.is_grad_enabled() else query.new_empty(0)
    precise = torch.promote_types(query.dtype, torch.float32)
    inplace = room is not None and query.dtype == precise and "scores" not in observe
    asking, keys, values = query, key, value
    for members, span in iterate_blocks(batch, heads, queries, key.shape[2], query):
        if not span.start:  # one tensor for all queries of a sequence, so that what is made of it can be kept
            asking, keys, values = query[members], key[members], value[members]
        scores = _multiply(asking[:, :, span], keys.mT, scale, room)
        if softcap is not None:
            scores = softcap * torch.tanh(scores / softcap)
        for extra in (attention_mask, position_bias):
            if extra is not None:
                scores = _add_bias(scores, extra, batch, queries, members, span)
        kept = None
        if sinks is not None:  # with that of each head as one more key
            total = scores.to(precise).logsumexp(-1, keepdim=True)
            kept = torch.sigmoid(total - sinks.to(precise)[:, None, None])
        probabilities = torch.softmax(scores, -1, dtype=precise, out=scores if inplace else None)
        mixed = torch.matmul(probabilities.to(value.dtype), values)
        if kept is not None:
            mixed = mixed * kept.to(mixed.dtype)
        output[members, span] = mixed.transpose(1, 2)
        seen = NOTHING
        if observe:
            given = {"values": values, "outputs": mixed, "queries": asking[:, :, span], "keys": keys}
            given["scores"] = scores.to(precise)
            seen = Observed(**{name: given[name].detach() for name in observe if name in given})
        show(members.start, span.start, probabilities.detach(), seen)
    return output


#: Options by which a module changes its scores, as ``attend_in_blocks`` takes them.
SCORE_OPTIONS = ("scaling", "position_bias", "softcap")


def attend_at_once(module: Any, *given: Any, **options: Any) -> Tensor:
    """Compute attention of queries, keys, values and a mask by sdpa, or in blocks where sdpa can't."""
    sinks = options.get(SINKS)
    if options.get("softcap") is None and sinks is None:
        # Without a mask sdpa would take what its module calls causal for that, also across sequences.
        options["is_causal"] = bool(options.get("is_causal"))
        return sdpa_attention_forward(module, *given, **options)[0]
    return attend_in_blocks(*given, sinks=sinks, **{name: options.get(name) for name in SCORE_OPTIONS})


def _multiply(query: Tensor, keys_last: Tensor, scale: float, room: Tensor | None) -> Tensor:
    """Multiply (batch, head, query, width), (batch, head, width, key) and a scale, into any ``room``."""
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
    """Cut (batch, query) into slices that fit the device of ``like``; short sequences stay whole."""
    budget = BLOCK_CPU if like.device.type == "cpu" else BLOCK_ACCELERATOR
    rows = max(LEAST_QUERIES, budget // (heads * keys))
    sequences = max(1, rows // queries)
    for first in range(0, batch, sequences):
        members = slice(first, min(first + sequences, batch))
        for start in range(0, queries, rows):
            yield members, slice(start, min(start + rows, queries))


def _add_bias(scores: Tensor, extra: Tensor, batch: int, queries: int, members: slice, span: slice) -> Tensor:
    """Add what a mask (True is seen) or bias of all queries holds for a block to the scores of the block."""
    if extra.shape[0] == batch and batch > 1:
        extra = extra[members]
    if extra.shape[2] == queries and queries > 1:
        extra = extra[:, :, span]
    lowest = torch.finfo(scores.dtype).min
    if extra.dtype == torch.bool:
        return scores.masked_fill(~extra, lowest)
    return scores + extra.to(scores.dtype).clamp_min(lowest)
