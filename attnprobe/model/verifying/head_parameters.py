"""Which weights make the queries and keys of a head, found by what they give and not by their names.

At the first position no rotation changes anything, so that what a projection gives there is the query or the
key that the attention function is given, up to one factor. Elsewhere a rotation keeps its length.
"""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional
from transformers.pytorch_utils import Conv1D

from attnprobe.attention.kinds import Kind
from attnprobe.attention.parameters import HeadParameters
from attnprobe.model.loading.checkpoint import Checkpoint
from attnprobe.model.loading.support import PACKED, packed_as
from attnprobe.model.reading.adapters import full_attention
from attnprobe.model.reading.capture import captured_attention
from attnprobe.model.reading.pieces import Piece
from attnprobe.model.reading.routing import evaluating
from attnprobe.model.verifying.architecture import Architecture
from attnprobe.model.verifying.probing import probe_inputs, relative_difference

#: Largest difference that rounding explains, by bytes per number: of one product and one rotation.
_TOLERANCE = {8: 1e-6, 4: 1e-3, 2: 0.02}
_UNKNOWN = (
    "no projection gives its {side} as they reach the attention, up to a factor; they may be normalised, put "
    "together from several, or rotated at the first position too"
)


@dataclass(frozen=True)
class _Projected:
    """What a projection was given, and what it gave, (..., width)."""

    module: nn.Linear | Conv1D
    input: Tensor
    output: Tensor

    def rows(self, places: NDArray[np.intp], width: int) -> Tensor | None:
        """Give the weights that make some parts of the output, (head, width, model width).

        None where they are not what it multiplies by, as in a projection that is quantised or adapted.
        """
        weight: Any = self.module.weight.detach()
        weight = weight if isinstance(self.module, nn.Linear) else weight.T  # GPT-2's are turned over
        if packed_as(weight) or weight.shape != (self.output.shape[-1], self.input.shape[-1]):
            return None
        bias: Any = self.module.bias
        apart = relative_difference(functional.linear(self.input, weight, bias), self.output)
        if not apart <= _TOLERANCE[weight.dtype.itemsize]:
            return None
        return weight.unflatten(0, (-1, width))[torch.from_numpy(places)].cpu()


@dataclass
class _Watch:
    """Notes which projections came by before the attention of each layer, and what that was given."""

    recent: list[_Projected] = field(default_factory=list)
    feeding: dict[int, list[_Projected]] = field(default_factory=dict)
    queries: dict[tuple[int, int], list[Tensor]] = field(default_factory=dict)
    keys: dict[tuple[int, int], Tensor] = field(default_factory=dict)

    def __call__(self, piece: Piece) -> None:
        if piece.layer not in self.feeding:
            self.feeding[piece.layer], self.recent = self.recent, []
        queries, keys = piece.observed.queries, piece.observed.keys
        if queries is None or keys is None:
            return
        for place, (one, other) in enumerate(zip(queries, keys, strict=True), piece.sequence):
            self.queries.setdefault((piece.layer, place), []).append(one.clone())
            self.keys.setdefault((piece.layer, place), other.clone())

    def given(self, layer: int) -> tuple[Tensor, Tensor]:
        """Give queries and keys of a layer, (sequence, head, position, width)."""
        places = sorted(place for at, place in self.queries if at == layer)
        queries = torch.stack([torch.cat(self.queries[layer, place], 1) for place in places])
        return queries, torch.stack([self.keys[layer, place] for place in places])

    @contextmanager
    def over(self, body: nn.Module) -> Iterator[None]:
        with ExitStack() as hooks:
            for module in body.modules():
                if isinstance(module, nn.Linear | Conv1D):
                    hooks.callback(module.register_forward_hook(self._project, with_kwargs=True).remove)
            yield

    def _project(self, module: Any, arguments: tuple[Any, ...], options: dict[str, Any], output: Any) -> None:
        given = arguments[0] if arguments else next(iter(options.values()))
        if isinstance(given, Tensor) and isinstance(output, Tensor):  # a router of experts gives several
            self.recent.append(_Projected(module, given, output))


def find_head_parameters(
    checkpoint: Checkpoint, architecture: Architecture
) -> tuple[HeadParameters | str, ...]:
    """Find W_Q,h and W_K,h of every layer by running two short sequences.

    Args:
        checkpoint: Which model is asked.
        architecture: What the dry run found.

    Returns:
        For each layer the weights of the heads that it computes, or why they can't be told.
    """
    body, watch = checkpoint.body, _Watch()
    with (
        full_attention(body),
        evaluating(body),
        captured_attention(body, watch, architecture.way, {"queries", "keys"}),
        watch.over(body),
    ):
        checkpoint.forward(probe_inputs(checkpoint))
    if not watch.queries:
        reason = f"its attention is reached through the {architecture.way}, which does not show its queries"
        return (reason,) * architecture.layers
    return tuple(_of_layer(watch, layer, kind) for layer, kind in enumerate(architecture.kinds))


def _of_layer(watch: _Watch, layer: int, kind: Kind) -> HeadParameters | str:
    found: list[tuple[_Projected, Tensor]] = []
    for side, tokens in zip(("queries", "keys"), watch.given(layer), strict=True):
        one = next(_matching(watch.feeding[layer], tokens, shared=side == "keys"), None)
        if one is None:
            packed = next(filter(None, (packed_as(each.module.weight) for each in watch.feeding[layer])), "")
            return PACKED.format(kind=packed) if packed else _UNKNOWN.format(side=side)
        found.append(one)
    (query, queries), (key, keys) = found
    if kind is not Kind.CROSS and not torch.equal(query.input, key.input):
        return "its queries and keys are made of different things"
    return HeadParameters(queries, keys)


def _matching(
    projected: Sequence[_Projected], tokens: Tensor, *, shared: bool
) -> Iterator[tuple[_Projected, Tensor]]:
    """Find the projections that give tokens (sequence, head, position, width), each with its weights."""
    sequences, _, positions, width = tokens.shape
    tolerance = _TOLERANCE[tokens.dtype.itemsize]
    for one in projected:
        columns = one.output.shape[-1]
        if columns % width or one.output.numel() != sequences * positions * columns:
            continue
        parts = one.output.reshape(sequences, positions, -1, width).permute(0, 2, 1, 3)
        for places in _layouts(_alike(parts, tokens, tolerance), shared=shared):
            if not _equal(parts[:, torch.from_numpy(places)].double(), tokens.double(), tolerance):
                continue
            weights = one.rows(places, width)
            if weights is not None:
                yield one, weights


def _alike(parts: Tensor, tokens: Tensor, tolerance: float) -> NDArray[np.bool_]:
    """Tell which part of an output is a multiple of which head's first token, (part, head)."""
    ours, theirs = (
        every[:, :, 0].double().transpose(0, 1).flatten(1).cpu().numpy() for every in (parts, tokens)
    )
    sizes = np.outer(np.linalg.norm(ours, axis=1), np.linalg.norm(theirs, axis=1))
    return np.abs(ours @ theirs.T - sizes) <= tolerance * sizes


def _layouts(alike: NDArray[np.bool_], *, shared: bool) -> Iterator[NDArray[np.intp]]:
    """Give the part of an output for each head, in every order that is known and agrees.

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


def _equal(found: Tensor, tokens: Tensor, tolerance: float) -> bool:
    """Tell whether first tokens are the same up to one factor, and all tokens as long up to that factor."""
    first, other = found[:, :, 0], tokens[:, :, 0]
    factor = (first * other).sum() / first.square().sum()
    apart = (factor * first - other).abs().max() / other.abs().max()
    long, wide = found.norm(dim=3) * factor, tokens.norm(dim=3)
    return bool(factor > 0) and bool(apart <= tolerance) and relative_difference(long, wide) <= tolerance
