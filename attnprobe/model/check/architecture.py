"""The architecture of a model's attention: its layers and heads, and how they are read."""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import nn

from attnprobe.attention.kinds import Kind, Place, list_absent_heads, number_layers
from attnprobe.attention.layout import Grid
from attnprobe.model.pruning import list_computed_heads
from attnprobe.model.quirks import LAYER_KINDS, has_map
from attnprobe.model.reading.gates import Gates, gate_attention
from attnprobe.model.reading.ways import Way


@dataclass(frozen=True)
class Architecture:
    """The result of the dry run, with a sentence of ``evidence`` for each check."""

    model_type: str
    layers: int
    heads: int  # query heads of a layer; the most of all layers, where they differ
    head_width: int
    way: Way
    evidence: tuple[str, ...]
    warnings: tuple[str, ...] = ()
    sites: tuple[str, ...] = ()  # the attention module of each layer
    kinds: tuple[Kind, ...] = ()
    positions: int = 0  # tokens in each sequence of the dry run
    grid: Grid | None = None
    numbers: tuple[int, ...] = ()  # the model's own, where other layers lie between
    removed: tuple[tuple[int, int], ...] = ()  # layer and head that a pruned checkpoint lacks
    threaded: bool = False  # several threads may run the model, which keeps nothing from pass to pass
    layer_heads: tuple[int, ...] = ()  # of each layer, where layers have different tokens
    joined: bool = False  # in a decoder, the tokens of an image see each other

    @property
    def absent(self) -> tuple[tuple[int, int], ...]:
        """The heads (layer, head) that a layer never had, where other layers have more."""
        return list_absent_heads(self.layer_heads)

    @property
    def kept(self) -> NDArray[np.bool_]:
        """Which heads the model has, (layer, head)."""
        kept = np.ones((self.layers, self.heads), bool)
        for layer, head in (*self.removed, *self.absent):
            kept[layer, head] = False
        return kept

    @property
    def computed_heads(self) -> tuple[tuple[int, ...], ...]:
        """The numbers of the heads that each layer computes; empty where every layer computes all."""
        return list_computed_heads(self.kept) if self.removed or self.absent else ()

    def gate(self, body: Any) -> AbstractContextManager[Gates]:
        """Put gates on all heads of a model of this architecture; see ``gate_attention``."""
        return gate_attention(body, self.way, self.sites, self.computed_heads)

    @property
    def places(self) -> tuple[Place, ...]:
        return number_layers(self.kinds, self.numbers)


def find_layer_kinds(config: Any) -> tuple[str, ...]:
    """List the kinds of layers that a configuration states; none where all attend, or it states none."""
    listed = [getattr(config, name, None) for name in LAYER_KINDS]
    kinds = next((tuple(kinds) for kinds in listed if isinstance(kinds, list | tuple)), ())
    return () if all(map(has_map, kinds)) else kinds


def find_attending_layers(config: Any) -> tuple[int, ...]:
    """List the numbers of the layers that attend, if a configuration states that others do not.

    >>> class Config:
    ...     layer_types = ["linear_attention", "full_attention", "conv", "sliding_attention"]
    >>> find_attending_layers(Config)
    (1, 3)
    """
    return tuple(layer for layer, kind in enumerate(find_layer_kinds(config)) if has_map(kind))


def share_weights(body: nn.Module, sites: Sequence[str]) -> bool:
    """Tell whether layers share the weights of their attention, as one module or as parameters."""
    modules = [body.get_submodule(site) for site in sites]
    weights = [  # parameters that are not in memory all lie at 0
        frozenset(weight.data_ptr() or id(weight) for weight in module.parameters()) or id(module)
        for module in modules
    ]
    return len({*weights}) < len(weights)
