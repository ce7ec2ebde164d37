"""The weights of heads: of queries and keys, of the output projection, and from there to the logits."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from attnprobe.attention.block import factor_projection
from attnprobe.attention.kinds import HeadParameters, Kind
from attnprobe.model.check.architecture import Architecture
from attnprobe.model.check.trace import (
    Call,
    Trace,
    draw_probe_inputs,
    find_tolerance,
    record_calls,
    relative_difference,
    trace_pass,
)
from attnprobe.model.checkpoint import Checkpoint
from attnprobe.model.quantisation import LOCKED, find_packing, is_projection, read_weight
from attnprobe.model.quirks import UnsupportedModelError
from attnprobe.model.reading.ways import Way, evaluation_mode

#: A norm counts as the last where its output has at least this cosine with the input of the logits.
_SAME = 1 - 1e-4
_UNKNOWN = (
    "no projection gives its {side} as they reach the attention, up to a factor; they may be normalised, put "
    "together from several, or rotated at the first position too"
)


def trace_projections(checkpoint: Checkpoint, way: Way, *observe: str) -> Trace:
    """Trace a pass of two short sequences, with the calls of all projections."""
    inputs = draw_probe_inputs(checkpoint)
    return trace_pass(checkpoint, inputs, way, observe, watched=lambda _, module: is_projection(module))


def find_head_parameters(
    checkpoint: Checkpoint, architecture: Architecture
) -> tuple[HeadParameters | str, ...]:
    """Find W_Q,h and W_K,h of the heads that each layer computes, or why they can't be known."""
    trace = trace_projections(checkpoint, architecture.way, "queries", "keys")
    return tuple(_find_parameters(checkpoint, trace, *layer) for layer in enumerate(architecture.kinds))


def _find_parameters(checkpoint: Checkpoint, trace: Trace, layer: int, kind: Kind) -> HeadParameters | str:
    if not {"queries", "keys"} <= trace.layers[layer].keys():
        return "its attention is reached through the softmax tap, which does not show its queries"
    # A router of experts gives several tensors.
    feeding = [call for call in trace.calls if call.layer == layer and isinstance(call.gave, Tensor)]
    inputs, weights = [], []
    for side in ("queries", "keys"):
        for call in feeding:
            weight = _match_weights(call, trace.layers[layer][side], find_tolerance(checkpoint))
            if weight is not None:
                inputs.append(call.given[0])
                weights.append(weight)
                break
        else:
            packed = [call.module for call in feeding if read_weight(call.module) is None]
            return LOCKED.format(kind=find_packing(packed[0])) if packed else _UNKNOWN.format(side=side)
    if kind is not Kind.CROSS and not torch.equal(*inputs):
        return "its queries and keys are made of different things"
    return HeadParameters(*weights)


def _match_weights(call: Call, tokens: Tensor, tolerance: float) -> Tensor | None:
    """Get the weights (head, width, model width) of a projection that gives ``tokens`` up to a factor.

    ``tokens`` are (sequence, head, position, width). The projection's output is cut into parts as wide as a
    head; the part of each head is the one with the direction of its first token. None where the first tokens
    differ by more than one factor, or the lengths of the others do (they may be rotated), or where the output
    is not the product with these weights, as with an adapter.
    """
    sequences, _, positions, width = tokens.shape
    columns, tokens = call.gave.shape[-1], tokens.double()
    if columns % width or call.gave.numel() != sequences * positions * columns:
        return None
    parts = call.gave.double().reshape(sequences, positions, -1, width).transpose(1, 2)
    ours, theirs = (
        functional.normalize(every[:, :, 0].transpose(0, 1).flatten(1)) for every in (parts, tokens)
    )
    places = torch.cdist(ours, theirs).argmin(0)
    first, other = parts[:, places, 0], tokens[:, :, 0]
    factor = (first * other).sum() / first.square().sum()
    lengths = parts[:, places].norm(dim=3) * factor, tokens.norm(dim=3)
    alike = relative_difference(factor * first, other) <= tolerance
    if not (factor > 0 and alike and relative_difference(*lengths) <= tolerance):
        return None
    weight, given = read_weight(call.module), call.given[0]
    if weight is None or weight.shape != (columns, given.shape[-1]):
        return None
    product = functional.linear(given.to(weight.dtype), weight, call.module.bias)
    known = relative_difference(product, call.gave) <= tolerance
    return weight.unflatten(0, (-1, width))[places].cpu() if known else None


class UnprunableModelError(UnsupportedModelError):
    """The attention of this architecture can be read, but its heads can't be removed."""

    def __init__(self, architecture: str, reason: str) -> None:
        super().__init__(architecture, reason, "remove heads of")


@dataclass(frozen=True)
class Projections:
    """The projections of a layer of ``heads`` of one ``width``, by their names in the model."""

    attention: str  # the module around them
    output: str  # reads what the heads gave, side by side
    inputs: tuple[str, ...]  # to queries, keys and values; fewer where heads share keys, none where ``fused``
    fused: str | None  # the one to queries, keys and values
    heads: int
    width: int


def find_projections(checkpoint: Checkpoint) -> tuple[Projections, ...]:
    """Find the projections of every attention layer, in order, by running two short sequences.

    Raises:
        UnprunableModelError: When a layer has not one output projection, or one that can't be read.
    """
    trace = trace_projections(checkpoint, Way.REGISTRY, "outputs")
    if not trace.layers:
        reason = "it does not use transformers' attention registry, which tells what its heads give"
        raise UnprunableModelError(checkpoint.model_type, reason)
    return tuple(_find_layer_projections(checkpoint, trace, layer) for layer in range(len(trace.layers)))


def _find_layer_projections(checkpoint: Checkpoint, trace: Trace, layer: int) -> Projections:
    site, outputs = trace.counter.called[layer], trace.layers[layer]["outputs"]
    heads, width, joined = outputs.shape[1], outputs.shape[3], outputs.transpose(1, 2).flatten(2)

    def reads_heads(call: Call) -> bool:
        given = call.given[0]
        alike = given.numel() == joined.numel() and given.shape[-1] == joined.shape[-1]
        return alike and torch.equal(given.reshape(joined.shape), joined)

    readers = [call for call in trace.calls if call.layer == layer + 1 and reads_heads(call)]
    if len(readers) != 1:
        number = len(readers) or "no"
        reason = f"in layer {layer}, {number} projections read what the heads give, side by side"
        raise UnprunableModelError(checkpoint.model_type, reason)
    output = readers[0]
    if read_weight(output.module) is None:
        reason = LOCKED.format(kind=find_packing(output.module))
        raise UnprunableModelError(checkpoint.model_type, reason)
    rows = {
        call.name: call.module.out_features
        for call in trace.calls
        if call.layer == layer and call.name.startswith(f"{site}.") and isinstance(call.module, nn.Linear)
        if call.name != output.name  # of a module that the layer before shares
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


def find_output_weights(checkpoint: Checkpoint) -> tuple[Tensor, ...]:
    """Find W_O,h of every layer, (head, width, model width)."""
    return tuple(split_by_head(checkpoint.body, layer) for layer in find_projections(checkpoint))


def find_output_factors(checkpoint: Checkpoint) -> tuple[Tensor, ...]:
    """Find the factors of W_O,h of every layer, for lengths alone; see ``factor_projection``."""
    return tuple(map(factor_projection, find_output_weights(checkpoint)))


def split_by_head(body: nn.Module, projection: Projections) -> Tensor:
    """Get W_O,h of a layer, (head, width, model width), in at least float32."""
    weight = read_weight(body.get_submodule(projection.output))
    assert weight is not None  # or the projections would have been refused
    rows = weight.T.reshape(projection.heads, projection.width, -1)
    return rows.to(torch.promote_types(weight.dtype, torch.float32))


@dataclass(frozen=True)
class Unembedding:
    """The linear map from the residual stream to logits.

    Norms are their gains at a fixed scale, which does not change the order of logits; nonlinearities are left
    out.
    """

    weight: Tensor  # (token, width) of the layer that gives the logits
    before: Tensor  # (width, model width), from the residual stream to the input of that layer

    def rows(self, ids: Tensor) -> Tensor:
        """Get the directions that raise the logits of tokens (batch, position): (..., model width)."""
        return self.weight[ids.to(self.weight.device)].to(self.before.dtype) @ self.before


def find_unembedding(checkpoint: Checkpoint) -> Unembedding | str:
    """Find the unembedding of a language model from a pass of two short sequences, or why there is none.

    References:
        Elhage et al. (2021), A mathematical framework for transformer circuits, on the direct path;
        Kobayashi et al. (2021) on why norms are taken at a fixed scale.
    """
    model, body, name = checkpoint.model, {*checkpoint.body.modules()}, checkpoint.name
    last: Any = model.get_output_embeddings()
    if last is None or not is_projection(last):
        return f"{name} has no language model head"
    inputs = checkpoint.inputs(draw_probe_inputs(checkpoint))
    with (
        evaluation_mode(model),
        torch.inference_mode(),
        record_calls(model, lambda _, module: is_projection(module) or _is_norm(module)) as calls,
    ):
        model(**inputs)
    calls = [call for call in calls if call.given and isinstance(call.gave, Tensor)]
    at = max((place for place, call in enumerate(calls) if call.module is last), default=None)
    weight = read_weight(last)
    if at is None or weight is None:
        return f"the language model head of {name} is no plain matrix"
    before, reached = torch.eye(weight.shape[1], device=weight.device), calls[at].given[0]
    for call in reversed(calls[:at]):
        last_norm = _is_norm(call.module) and call.gave.shape == reached.shape
        gave, behind = call.gave.flatten().float(), reached.flatten().float()
        if call.module not in body or (last_norm and torch.cosine_similarity(gave, behind, 0) > _SAME):
            factor = _find_factor(call)
            if factor is None or factor.shape[0] != before.shape[1]:
                return f"the way from the residual stream of {name} to its logits is not known"
            before, reached = before @ factor.to(before.device), call.given[0]
        if call.module in body:
            break
    return Unembedding(weight, before)


def _is_norm(module: nn.Module) -> bool:
    weight: Any = getattr(module, "weight", None)
    return isinstance(weight, Tensor) and weight.ndim == 1 and not list(module.children())


def _find_factor(call: Call) -> Tensor | None:
    """Find the matrix by which a projection, or a norm at a fixed scale, multiplies; None if unreadable."""
    module = call.module
    if not _is_norm(module):
        weight = read_weight(module)
        return None if weight is None else weight.float()
    if isinstance(module, nn.LayerNorm):
        gain = torch.diag(module.weight.detach().float())
        return gain - gain.mean(1, keepdim=True)
    # RMS norms multiply by their weight, or by 1 plus it; their output shows which.
    given, gave = (tensor.flatten(0, -2).float() for tensor in (call.given[0], call.gave))
    plain = given / given.square().mean(-1, keepdim=True).sqrt()
    return torch.diag((plain * gave).sum(0) / plain.square().sum(0).clamp_min(1e-12))
