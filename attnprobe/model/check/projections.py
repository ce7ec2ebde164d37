"""Which weights belong to a head: those of its queries and keys, and the projections around it."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from attnprobe.attention.kinds import HeadParameters, Kind
from attnprobe.errors import AttnprobeError
from attnprobe.model.check.architecture import Architecture
from attnprobe.model.check.trace import (
    TOLERANCE,
    Call,
    Trace,
    draw_probe_inputs,
    find_tolerance,
    relative_difference,
    trace_pass,
)
from attnprobe.model.checkpoint import Checkpoint
from attnprobe.model.quantisation import PACKED, find_packing, is_packed, is_projection, read_weight
from attnprobe.model.quirks import UnsupportedModelError
from attnprobe.model.reading.ways import Way

#: Largest difference that rounding explains, by bytes per number: of one product and one rotation.
_TOLERANCE = {8: 1e-6, 4: 1e-3, 2: 0.02}
_UNKNOWN = (
    "no projection gives its {side} as they reach the attention, up to a factor; they may be normalised, put "
    "together from several, or rotated at the first position too"
)


def _trace_projections(checkpoint: Checkpoint, way: Way, *observe: str) -> Trace:
    return trace_pass(
        checkpoint,
        draw_probe_inputs(checkpoint),
        way,
        observe,
        watched=lambda _, module: is_projection(module),
    )


def find_head_parameters(
    checkpoint: Checkpoint, architecture: Architecture
) -> tuple[HeadParameters | str, ...]:
    """Find W_Q,h and W_K,h of every layer by running two short sequences.

    Returns:
        For each layer the weights of the heads that it computes, or why they can't be told.
    """
    trace = _trace_projections(checkpoint, architecture.way, "queries", "keys")
    if not all({"queries", "keys"} <= seen.keys() for seen in trace.layers):
        reason = f"its attention is reached through the {architecture.way}, which does not show its queries"
        return (reason,) * architecture.layers
    coarse = find_tolerance(checkpoint) if checkpoint.quantisation else None
    return tuple(_find_in_layer(trace, layer, kind, coarse) for layer, kind in enumerate(architecture.kinds))


def _find_in_layer(trace: Trace, layer: int, kind: Kind, coarse: float | None) -> HeadParameters | str:
    # A router of experts gives several tensors.
    feeding = [call for call in trace.calls if call.layer == layer and isinstance(call.gave, Tensor)]
    matching: list[tuple[Call, Tensor]] = []
    for side in ("queries", "keys"):
        tokens = trace.layers[layer][side]
        match = next(_find_matching(feeding, tokens, shared=side == "keys", coarse=coarse), None)
        if match is None:
            packed = [call.module for call in feeding if read_weight(call.module) is None]
            return PACKED.format(kind=find_packing(packed[0])) if packed else _UNKNOWN.format(side=side)
        matching.append(match)
    (query, queries), (key, keys) = matching
    if kind is not Kind.CROSS and not torch.equal(query.given[0], key.given[0]):
        return "its queries and keys are made of different things"
    return HeadParameters(queries, keys)


def _find_matching(
    calls: list[Call], tokens: Tensor, *, shared: bool, coarse: float | None
) -> Iterator[tuple[Call, Tensor]]:
    """Find the projections that give tokens (sequence, head, position, width), each with its weights."""
    sequences, _, positions, width = tokens.shape
    tolerance = _TOLERANCE[tokens.dtype.itemsize]
    for call in calls:
        columns = call.gave.shape[-1]
        if columns % width or call.gave.numel() != sequences * positions * columns:
            continue
        parts = call.gave.reshape(sequences, positions, -1, width).permute(0, 2, 1, 3)
        for places in _iterate_layouts(_find_parallel(parts, tokens, tolerance), shared=shared):
            if _are_equal(parts[:, torch.from_numpy(places)].double(), tokens.double(), tolerance):
                weight = _read_checked_weight(call, coarse)
                if weight is not None:
                    yield call, weight.unflatten(0, (-1, width))[torch.from_numpy(places)].cpu()


def _read_checked_weight(call: Call, coarse: float | None) -> Tensor | None:
    """Get the weight of a projection; None where it is not what it multiplies by, as where it is adapted.

    ``coarse`` is what explains a difference where it rounds what it is given.
    """
    weight, bias, given = read_weight(call.module), call.module.bias, call.given[0]
    if weight is None or weight.shape != (call.gave.shape[-1], given.shape[-1]):
        return None
    difference = relative_difference(functional.linear(given.to(weight.dtype), weight, bias), call.gave)
    return weight if difference <= (coarse or _TOLERANCE[weight.dtype.itemsize]) else None


def _find_parallel(parts: Tensor, tokens: Tensor, tolerance: float) -> NDArray[np.bool_]:
    """Tell which part of an output is a multiple of which head's first token, (part, head)."""
    ours, theirs = (
        every[:, :, 0].double().transpose(0, 1).flatten(1).cpu().numpy() for every in (parts, tokens)
    )
    sizes = np.outer(np.linalg.norm(ours, axis=1), np.linalg.norm(theirs, axis=1))
    return np.abs(ours @ theirs.T - sizes) <= tolerance * sizes


def _iterate_layouts(alike: NDArray[np.bool_], *, shared: bool) -> Iterator[NDArray[np.intp]]:
    """List the part of an output for each head, in every order that is known and agrees.

    Heads lie one after the other, behind whatever else there is; or with two or three parts for each head or
    group, as queries, keys and values (head, 3, width); or with a group's queries before its key and value.
    Where heads share keys, the queries of a group have that of their group.
    """
    parts, heads = alike.shape
    head = np.arange(heads)
    for groups in (count for count in range(heads, 0, -1) if heads % count == 0):
        size = heads // groups
        if not shared and groups < heads:
            orders = [head // size * (size + 2) + head % size]
        else:
            orders = [head // size * stride for stride in dict.fromkeys((1, 2, 3, size + 2))]
        for order in orders:
            for start in np.flatnonzero(alike[:, 0]):
                places = start + order
                if places[-1] < parts and alike[places, head].all():
                    yield places


def _are_equal(given: Tensor, tokens: Tensor, tolerance: float) -> bool:
    """Tell whether first tokens are the same up to one factor, and all tokens as long up to that factor."""
    first, other = given[:, :, 0], tokens[:, :, 0]
    factor = (first * other).sum() / first.square().sum()
    difference = (factor * first - other).abs().max() / other.abs().max()
    long, wide = given.norm(dim=3) * factor, tokens.norm(dim=3)
    return bool(factor > 0) and bool(difference <= tolerance) and relative_difference(long, wide) <= tolerance


class UnprunableModelError(UnsupportedModelError):
    """The attention of this architecture can be read, but its heads can't be removed."""

    def __init__(self, architecture: str, reason: str) -> None:
        AttnprobeError.__init__(self, f"attnprobe can't remove heads of {architecture!r}: {reason}.")
        self.architecture, self.reason = architecture, reason


@dataclass(frozen=True)
class Projections:
    """The projections of a layer, by the names that its encoder gives them.

    Attributes:
        attention: The attention module.
        output: The projection that reads what the heads gave, side by side.
        inputs: Projections to queries, keys and values, where each has as many rows as all heads
            together; fewer than three where query heads share keys, and none where ``fused``.
        fused: The one projection to queries, keys and values, if there is one.
        heads: Number of heads.
        width: Width of a head.
    """

    attention: str
    output: str
    inputs: tuple[str, ...]
    fused: str | None
    heads: int
    width: int


def find_projections(checkpoint: Checkpoint) -> tuple[Projections, ...]:
    """Find the projections of every attention layer by running two short sequences.

    Returns:
        The projections of each layer, in the order of a forward pass.

    Raises:
        UnsupportedModelError: When a layer has no output projection, or more than one.
    """
    trace = _trace_projections(checkpoint, Way.REGISTRY, "outputs")
    if not trace.layers:
        raise UnprunableModelError(
            checkpoint.model_type,
            "it does not use transformers' attention registry, which tells what its heads give",
        )
    return tuple(_find_around(checkpoint, trace, layer) for layer in range(len(trace.layers)))


def _find_around(checkpoint: Checkpoint, trace: Trace, layer: int) -> Projections:
    site, outputs = trace.sites.called[layer], trace.layers[layer]["outputs"]
    heads, width, joined = outputs.shape[1], outputs.shape[3], outputs.transpose(1, 2).flatten(2)

    def refuse(reason: str) -> UnprunableModelError:
        return UnprunableModelError(checkpoint.model_type, reason)

    readers = [call for call in trace.calls if call.layer == layer + 1 and _reads(call, joined)]
    if len(readers) != 1:
        number = "no projection reads" if not readers else f"{len(readers)} projections read"
        raise refuse(f"in layer {layer}, {number} what the heads give, side by side")
    output = readers[0]
    if read_weight(output.module) is None:
        raise refuse(PACKED.format(kind=find_packing(output.module)))
    if _is_adapted(checkpoint.body, output.name, joined):
        raise refuse(
            f"in layer {layer}, an adapter changes what the projection of the heads gives; merge it first "
            "(merge_and_unload)"
        )
    # What a shared module did since the attention of the layer before is none of this layer's.
    before = trace.layers[layer - 1]["outputs"].transpose(1, 2).flatten(2) if layer else None
    rows = {
        call.name: cast(Any, call.module).out_features
        for call in trace.calls
        if call.layer == layer and call.name.startswith(f"{site}.")
        if isinstance(call.module, nn.Linear) or is_packed(call.module)
        if before is None or not _reads(call, before)
    }
    whole = tuple(name for name, count in rows.items() if count == heads * width)
    fused = [name for name, count in rows.items() if count == 3 * heads * width]
    return Projections(
        attention=site,
        output=output.name,
        inputs=whole,
        fused=fused[0] if len(fused) == 1 and not whole else None,
        heads=heads,
        width=width,
    )


def _reads(call: Call, joined: Tensor) -> bool:
    """Tell whether a projection is given the outputs of heads, joined (sequence, query, width)."""
    given = call.given[0]
    if given.numel() != joined.numel() or given.shape[-1] != joined.shape[-1]:
        return False
    return torch.equal(given.reshape(joined.shape), joined)


def _is_adapted(body: nn.Module, name: str, given: Tensor) -> bool:
    """Tell whether a projection is the ``base_layer`` of an adapter that gives something else."""
    projection, around = body.get_submodule(name), body.get_submodule(name.rpartition(".")[0])
    if getattr(around, "base_layer", None) is not projection:
        return False
    with torch.inference_mode():
        difference = relative_difference(around(given), projection(given))
    return not difference <= TOLERANCE[given.dtype.itemsize]
