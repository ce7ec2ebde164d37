"""Which weights belong to a head: the projections around the attention of every layer.

Names differ between architectures, and the output projection often lies beside the attention module
rather than inside it. What a projection does gives it away: it reads what the heads gave.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from transformers.pytorch_utils import Conv1D

from attnprobe.errors import AttnprobeError
from attnprobe.model.loading.checkpoint import Checkpoint
from attnprobe.model.loading.support import PACKED, UnsupportedModelError, packed_as
from attnprobe.model.switching.gates import Gates, gated_attention
from attnprobe.model.verifying.probing import TOLERANCE, probe_inputs, relative_difference


class UnprunableModelError(UnsupportedModelError):
    """The attention of this architecture can be read, but its heads can't be removed."""

    def __init__(self, architecture: str, reason: str) -> None:
        """Say which architecture and why."""
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
class _Watch:
    """Notes in a pass which projections feed the attention of a layer, and which read from it."""

    gates: Gates
    sites: tuple[str, ...]
    feeding: dict[int, list[str]] = field(default_factory=dict)
    reading: dict[int, list[str]] = field(default_factory=dict)

    @contextmanager
    def over(self, encoder: nn.Module) -> Iterator[None]:
        modules = dict(encoder.named_modules())
        with ExitStack() as hooks:
            for site in dict.fromkeys(self.sites):
                handle = modules[site].register_forward_pre_hook(self._enter)
                hooks.callback(handle.remove)
            for name, module in modules.items():
                if isinstance(module, nn.Linear | Conv1D):
                    handle = module.register_forward_pre_hook(partial(self._project, name), with_kwargs=True)
                    hooks.callback(handle.remove)
            yield

    def _enter(self, *_: Any) -> None:
        # What a shared module did since the attention of the layer before is none of this layer's.
        self.feeding[self.gates.sites.count] = []

    def _project(
        self, name: str, module: nn.Module, arguments: tuple[Any, ...], options: dict[str, Any]
    ) -> None:
        coming = self.gates.sites.count
        given = arguments[0] if arguments else next(iter(options.values()))
        if coming and _side_by_side(given, self.gates.outputs[coming - 1]):
            self.reading.setdefault(coming - 1, []).append(name)
        if coming < len(self.sites) and name.startswith(f"{self.sites[coming]}."):
            self.feeding.setdefault(coming, []).append(name)


def find_projections(checkpoint: Checkpoint) -> tuple[Projections, ...]:
    """Find the projections of every attention layer by running two short sequences.

    Args:
        checkpoint: Its encoder's heads are meant.

    Returns:
        The projections of each layer, in the order of a forward pass.

    Raises:
        UnsupportedModelError: When a layer has no output projection, or more than one.
    """
    encoder, inputs = checkpoint.body, probe_inputs(checkpoint)
    with gated_attention(encoder) as gates:
        checkpoint.forward(inputs)
        watch = _Watch(gates, tuple(gates.sites.called))
        gates.recording = True
        with watch.over(encoder):
            checkpoint.forward(inputs)
    if not watch.sites:
        raise UnprunableModelError(
            checkpoint.model_type,
            "it does not use transformers' attention registry, which tells what its heads give",
        )
    return tuple(_of_layer(checkpoint, watch, layer) for layer in range(len(watch.sites)))


def _of_layer(checkpoint: Checkpoint, watch: _Watch, layer: int) -> Projections:
    heads, width = watch.gates.outputs[layer].shape[2:]
    readers = watch.reading.get(layer, [])
    if len(readers) != 1:
        found = "no projection reads" if not readers else f"{len(readers)} projections read"
        raise UnprunableModelError(
            checkpoint.model_type, f"in layer {layer}, {found} what the heads give, side by side"
        )
    weight: Any = checkpoint.body.get_submodule(readers[0]).weight
    if kind := packed_as(weight):
        raise UnprunableModelError(checkpoint.model_type, PACKED.format(kind=kind))
    if _adapted(checkpoint.body, readers[0], watch.gates.outputs[layer].flatten(2)):
        raise UnprunableModelError(
            checkpoint.model_type,
            f"in layer {layer}, an adapter changes what the projection of the heads gives; merge it first "
            "(merge_and_unload)",
        )
    rows = {
        name: module.out_features
        for name in watch.feeding.get(layer, [])
        if isinstance(module := checkpoint.body.get_submodule(name), nn.Linear)
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


def _adapted(body: nn.Module, name: str, given: Tensor) -> bool:
    """Tell whether a projection is the ``base_layer`` of an adapter that gives something else."""
    projection, around = body.get_submodule(name), body.get_submodule(name.rpartition(".")[0])
    if getattr(around, "base_layer", None) is not projection:
        return False
    with torch.inference_mode():
        apart = relative_difference(around(given), projection(given))
    return not apart <= TOLERANCE[given.dtype.itemsize]


def _side_by_side(given: Any, output: Tensor) -> bool:
    """Tell whether a projection is given the heads' output (batch, query, head, width), joined."""
    if not isinstance(given, Tensor) or given.numel() != output.numel():
        return False
    joined = output.flatten(2)
    return given.shape[-1] == joined.shape[-1] and torch.equal(given.reshape(joined.shape), joined)
