"""What the dry run found out about a model's attention, and which of its layers attend."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import nn

from attnprobe.attention.kinds import Kind, Place, list_lacking, number_layers
from attnprobe.attention.layout import Grid
from attnprobe.model.pruning import list_computed_heads
from attnprobe.model.quirks import LAYER_KINDS, has_map
from attnprobe.model.reading.ways import Way


@dataclass(frozen=True)
class Architecture:
    """What the dry run found, and how it was verified: one sentence of ``evidence`` for each check."""

    model_type: str
    layers: int
    heads: int  # query heads of a layer; the most of all layers, where they differ
    head_width: int
    way: Way
    evidence: tuple[str, ...]
    warnings: tuple[str, ...] = ()
    sites: tuple[str, ...] = ()  # the modules of the layers
    kinds: tuple[Kind, ...] = ()
    positions: int = 0  # tokens in each sequence of the dry run
    grid: Grid | None = None
    numbers: tuple[int, ...] = ()  # the model's own, where other layers lie between
    removed: tuple[tuple[int, int], ...] = ()  # layer and head that a pruned checkpoint lacks
    threaded: bool = False  # several threads may run it: it keeps nothing from pass to pass
    layer_heads: tuple[int, ...] = ()  # of each layer, where layers attend to other tokens than one another
    joined: bool = False  # the tokens of an image see each other in a decoder

    @property
    def lacking(self) -> tuple[tuple[int, int], ...]:
        """Heads that a layer never had, as layer and head, where others have more."""
        return list_lacking(self.layer_heads)

    @property
    def standing(self) -> NDArray[np.bool_]:
        """Which heads are there, (layer, head)."""
        standing = np.ones((self.layers, self.heads), bool)
        for layer, head in (*self.removed, *self.lacking):
            standing[layer, head] = False
        return standing

    @property
    def present(self) -> tuple[tuple[int, ...], ...]:
        """The numbers of the heads that each layer computes; nothing at all where it is all of them."""
        return list_computed_heads(self.standing) if self.removed or self.lacking else ()

    @property
    def places(self) -> tuple[Place, ...]:
        return number_layers(self.kinds, self.numbers)


def find_layer_kinds(config: Any) -> tuple[str, ...]:
    """Find what a configuration says each of its layers is; nothing where all attend, or it does not say."""
    listed = [getattr(config, name, None) for name in LAYER_KINDS]
    kinds = next((tuple(kinds) for kinds in listed if isinstance(kinds, list | tuple)), ())
    return () if all(map(has_map, kinds)) else kinds


def find_attending_layers(config: Any) -> tuple[int, ...]:
    """Number the layers that attend, where a configuration says that others do not; else nothing.

    >>> class Config:
    ...     layer_types = ["linear_attention", "full_attention", "conv", "sliding_attention"]
    >>> find_attending_layers(Config)
    (1, 3)
    """
    return tuple(layer for layer, kind in enumerate(find_layer_kinds(config)) if has_map(kind))


def share_weights(body: nn.Module, sites: Sequence[str]) -> bool:
    """Tell whether layers share the weights of their attention: one module, or parameters in one storage."""
    modules = [body.get_submodule(site) for site in sites]
    weights = [  # parameters that are not in memory all lie at 0
        frozenset(weight.data_ptr() or id(weight) for weight in module.parameters()) or id(module)
        for module in modules
    ]
    return len({*weights}) < len(weights)
