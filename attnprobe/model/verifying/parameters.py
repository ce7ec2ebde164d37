"""Which weights belong to a head: those of its queries and keys, and the projections around it."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from attnprobe.attention.kinds import HeadParameters, Kind
from attnprobe.errors import AttnprobeError
from attnprobe.model.checkpoint import Checkpoint
from attnprobe.model.quantisation import PACKED, describe_packing, is_packed, is_projection, read_weight
from attnprobe.model.quirks import UnsupportedModelError
from attnprobe.model.reading.capture import Piece, capture_attention
from attnprobe.model.reading.gates import Gates, gate_attention
from attnprobe.model.verifying.architecture import Architecture
from attnprobe.model.verifying.probing import (
    TOLERANCE,
    draw_probe_inputs,
    find_tolerance,
    relative_difference,
)

#: Largest difference that rounding explains, by bytes per number: of one product and one rotation.
_TOLERANCE = {8: 1e-6, 4: 1e-3, 2: 0.02}
_UNKNOWN = (
    "no projection gives its {side} as they reach the attention, up to a factor; they may be normalised, put "
    "together from several, or rotated at the first position too"
)


@dataclass(frozen=True)
class _Projected:
    """What a projection was given, and what it gave, (..., width)."""

    module: nn.Module
    input: Tensor
    output: Tensor

    def rows(self, places: NDArray[np.intp], width: int, coarse: float | None) -> Tensor | None:
        """Get the weights that make some parts of the output, (head, width, model width).

        None where they are not what it multiplies by, as in a projection that is adapted. ``coarse`` is what
        explains a difference where it rounds what it is given.
        """
        weight, bias = read_weight(self.module), cast(Any, self.module).bias
        if weight is None or weight.shape != (self.output.shape[-1], self.input.shape[-1]):
            return None
        product = functional.linear(self.input.to(weight.dtype), weight, bias)
        apart = relative_difference(product, self.output)
        if not apart <= (coarse or _TOLERANCE[weight.dtype.itemsize]):
            return None
        return weight.unflatten(0, (-1, width))[torch.from_numpy(places)].cpu()


@dataclass
class _InputWatch:
    """Records which projections ran before the attention of each layer; its queries and keys."""

    coarse: float | None = None
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

    def stack(self, layer: int) -> tuple[Tensor, Tensor]:
        """Stack queries and keys of a layer, (sequence, head, position, width)."""
        places = sorted(place for at, place in self.queries if at == layer)
        queries = torch.stack([torch.cat(self.queries[layer, place], 1) for place in places])
        return queries, torch.stack([self.keys[layer, place] for place in places])

    @contextmanager
    def watch(self, body: nn.Module) -> Iterator[None]:
        with ExitStack() as hooks:
            for module in body.modules():
                if is_projection(module):
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

    Returns:
        For each layer the weights of the heads that it computes, or why they can't be told.
    """
    watch = _watch_inputs(checkpoint, architecture)
    if not watch.queries:
        reason = f"its attention is reached through the {architecture.way}, which does not show its queries"
        return (reason,) * architecture.layers
    return tuple(_find_in_layer(watch, layer, kind) for layer, kind in enumerate(architecture.kinds))


def _watch_inputs(checkpoint: Checkpoint, architecture: Architecture) -> "_InputWatch":
    coarse = checkpoint.quantisation is not None
    body, watch = checkpoint.body, _InputWatch(find_tolerance(checkpoint) if coarse else None)
    with (
        capture_attention(body, watch, architecture.way, {"queries", "keys"}),
        watch.watch(body),
    ):
        checkpoint.forward(draw_probe_inputs(checkpoint))
    return watch


def _name_missing(watch: "_InputWatch", layer: int, side: str) -> str:
    unread = (each.module for each in watch.feeding[layer] if read_weight(each.module) is None)
    packed = next(unread, None)
    return _UNKNOWN.format(side=side) if packed is None else PACKED.format(kind=describe_packing(packed))


def _find_in_layer(watch: _InputWatch, layer: int, kind: Kind) -> HeadParameters | str:
    found: list[tuple[_Projected, Tensor]] = []
    for side, tokens in zip(("queries", "keys"), watch.stack(layer), strict=True):
        one = next(
            _find_matching(watch.feeding[layer], tokens, shared=side == "keys", coarse=watch.coarse), None
        )
        if one is None:
            return _name_missing(watch, layer, side)
        found.append(one)
    (query, queries), (key, keys) = found
    if kind is not Kind.CROSS and not torch.equal(query.input, key.input):
        return "its queries and keys are made of different things"
    return HeadParameters(queries, keys)


def _find_matching(
    projected: Sequence[_Projected], tokens: Tensor, *, shared: bool, coarse: float | None
) -> Iterator[tuple[_Projected, Tensor]]:
    """Find the projections that give tokens (sequence, head, position, width), each with its weights."""
    sequences, _, positions, width = tokens.shape
    tolerance = _TOLERANCE[tokens.dtype.itemsize]
    for one in projected:
        columns = one.output.shape[-1]
        if columns % width or one.output.numel() != sequences * positions * columns:
            continue
        parts = one.output.reshape(sequences, positions, -1, width).permute(0, 2, 1, 3)
        for places in _iterate_layouts(_find_parallel(parts, tokens, tolerance), shared=shared):
            if not _are_equal(parts[:, torch.from_numpy(places)].double(), tokens.double(), tolerance):
                continue
            weights = one.rows(places, width, coarse)
            if weights is not None:
                yield one, weights


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


def _are_equal(found: Tensor, tokens: Tensor, tolerance: float) -> bool:
    """Tell whether first tokens are the same up to one factor, and all tokens as long up to that factor."""
    first, other = found[:, :, 0], tokens[:, :, 0]
    factor = (first * other).sum() / first.square().sum()
    apart = (factor * first - other).abs().max() / other.abs().max()
    long, wide = found.norm(dim=3) * factor, tokens.norm(dim=3)
    return bool(factor > 0) and bool(apart <= tolerance) and relative_difference(long, wide) <= tolerance


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


@dataclass
class _SiteWatch:
    """Records which projections feed the attention of a layer, and which read from it."""

    gates: Gates
    sites: tuple[str, ...]
    feeding: dict[int, list[str]] = field(default_factory=dict)
    reading: dict[int, list[str]] = field(default_factory=dict)

    @contextmanager
    def watch(self, encoder: nn.Module) -> Iterator[None]:
        modules = dict(encoder.named_modules())
        with ExitStack() as hooks:
            for site in dict.fromkeys(self.sites):
                hooks.callback(modules[site].register_forward_pre_hook(self._enter).remove)
            for name, module in modules.items():
                if is_projection(module):
                    project = partial(self._project, name)
                    hooks.callback(module.register_forward_pre_hook(project, with_kwargs=True).remove)
            yield

    def _enter(self, *_: Any) -> None:
        # What a shared module did since the attention of the layer before is none of this layer's.
        self.feeding[self.gates.sites.count] = []

    def _project(
        self, name: str, module: nn.Module, arguments: tuple[Any, ...], options: dict[str, Any]
    ) -> None:
        coming = self.gates.sites.count
        given = arguments[0] if arguments else next(iter(options.values()))
        if coming and _are_joined_heads(given, self.gates.outputs[coming - 1]):
            self.reading.setdefault(coming - 1, []).append(name)
        if coming < len(self.sites) and name.startswith(f"{self.sites[coming]}."):
            self.feeding.setdefault(coming, []).append(name)


def find_projections(checkpoint: Checkpoint) -> tuple[Projections, ...]:
    """Find the projections of every attention layer by running two short sequences.

    Returns:
        The projections of each layer, in the order of a forward pass.

    Raises:
        UnsupportedModelError: When a layer has no output projection, or more than one.
    """
    encoder, inputs = checkpoint.body, draw_probe_inputs(checkpoint)
    with gate_attention(encoder) as gates:
        checkpoint.forward(inputs)
        watch = _SiteWatch(gates, tuple(gates.sites.called))
        gates.recording = True
        with watch.watch(encoder):
            checkpoint.forward(inputs)
    if not watch.sites:
        raise UnprunableModelError(
            checkpoint.model_type,
            "it does not use transformers' attention registry, which tells what its heads give",
        )
    return tuple(_choose_projections(checkpoint, watch, layer) for layer in range(len(watch.sites)))


def _choose_projections(checkpoint: Checkpoint, watch: _SiteWatch, layer: int) -> Projections:
    heads, width = watch.gates.outputs[layer].shape[2:]
    readers = watch.reading.get(layer, [])
    if len(readers) != 1:
        found = "no projection reads" if not readers else f"{len(readers)} projections read"
        raise UnprunableModelError(
            checkpoint.model_type, f"in layer {layer}, {found} what the heads give, side by side"
        )
    if read_weight(output := checkpoint.body.get_submodule(readers[0])) is None:
        raise UnprunableModelError(checkpoint.model_type, PACKED.format(kind=describe_packing(output)))
    if _is_adapted(checkpoint.body, readers[0], watch.gates.outputs[layer].flatten(2)):
        raise UnprunableModelError(
            checkpoint.model_type,
            f"in layer {layer}, an adapter changes what the projection of the heads gives; merge it first "
            "(merge_and_unload)",
        )
    rows = {
        name: cast(Any, module).out_features
        for name in watch.feeding.get(layer, [])
        if isinstance(module := checkpoint.body.get_submodule(name), nn.Linear) or is_packed(module)
    }
    whole = tuple(name for name, count in rows.items() if count == heads * width)
    fused = [name for name, count in rows.items() if count == 3 * heads * width]
    return Projections(
        attention=watch.sites[layer],
        output=readers[0],
        inputs=whole,
        fused=fused[0] if len(fused) == 1 and not whole else None,
        heads=heads,
        width=width,
    )


def _is_adapted(body: nn.Module, name: str, given: Tensor) -> bool:
    """Tell whether a projection is the ``base_layer`` of an adapter that gives something else."""
    projection, around = body.get_submodule(name), body.get_submodule(name.rpartition(".")[0])
    if getattr(around, "base_layer", None) is not projection:
        return False
    with torch.inference_mode():
        apart = relative_difference(around(given), projection(given))
    return not apart <= TOLERANCE[given.dtype.itemsize]


def _are_joined_heads(given: Any, output: Tensor) -> bool:
    """Tell whether a projection is given the heads' output (batch, query, head, width), joined."""
    if not isinstance(given, Tensor) or given.numel() != output.numel():
        return False
    joined = output.flatten(2)
    return given.shape[-1] == joined.shape[-1] and torch.equal(given.reshape(joined.shape), joined)
