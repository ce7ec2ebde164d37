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
from attnprobe.table.naming import join_names


@dataclass(frozen=True)
class Architecture:
    """What the dry run found, and how it was verified.

    Attributes:
        model_type: As ``config.model_type`` names it.
        layers: Attention layers in a forward pass, of all kinds.
        heads: Query heads in each; the most of all layers, where they differ.
        head_width: Width of a head's keys.
        way: How attention is reached.
        evidence: One sentence for each check that passed.
        warnings: One sentence for each thing that is odd without being wrong.
        sites: The module of each layer.
        kinds: The kind of each layer.
        positions: Tokens in each sequence of the dry run.
        grid: Where the patches are, if it reads images and its tokens are patches.
        numbers: The model's own numbers of the layers, where others that do not attend lie between.
        removed: Heads that the weights lack, as layer and head: those of a physically pruned checkpoint.
        threaded: Whether several threads may run it at the same time: it keeps nothing from pass to pass.
        layer_heads: The heads of each layer, where layers attend from and to other tokens than one another;
            nothing where all see the same tokens.
        joined: Whether the tokens of an image see each other in a decoder, also those that come later.
    """

    model_type: str
    layers: int
    heads: int
    head_width: int
    way: Way
    evidence: tuple[str, ...]
    warnings: tuple[str, ...] = ()
    sites: tuple[str, ...] = ()
    kinds: tuple[Kind, ...] = ()
    positions: int = 0
    grid: Grid | None = None
    numbers: tuple[int, ...] = ()
    removed: tuple[tuple[int, int], ...] = ()
    threaded: bool = False
    layer_heads: tuple[int, ...] = ()
    joined: bool = False

    @property
    def patches(self) -> bool:
        """Whether tokens are patches in rows, so that places have two axes."""
        return self.grid is not None

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


def list_layer_kinds(config: Any) -> tuple[str, ...]:
    """List what a configuration says each of its layers is; nothing where it does not say."""
    for name in LAYER_KINDS:
        kinds = getattr(config, name, None)
        if isinstance(kinds, list | tuple) and kinds and all(isinstance(kind, str) for kind in kinds):
            return tuple(kinds)
    return ()


def find_attending_layers(config: Any) -> tuple[int, ...]:
    """Number the layers that attend, where a configuration says that others do not; else nothing.

    >>> class Config:
    ...     layer_types = ["linear_attention", "full_attention", "conv", "sliding_attention"]
    >>> find_attending_layers(Config)
    (1, 3)
    """
    kinds = list_layer_kinds(config)
    attending = tuple(layer for layer, kind in enumerate(kinds) if has_map(kind))
    return attending if len(attending) < len(kinds) else ()


def describe_skipped_layers(config: Any) -> str:
    """Name the layers that do not attend, by their kinds."""
    kinds = list_layer_kinds(config)
    skipped = set(range(len(kinds))) - {*find_attending_layers(config)}
    by_kind: dict[str, list[str]] = {}
    for layer in sorted(skipped):
        by_kind.setdefault(kinds[layer].removesuffix("_layer"), []).append(str(layer))
    listed = "; ".join(
        f"{kind} in layer{'s' * (len(numbers) > 1)} {join_names(numbers, len(numbers))}"
        for kind, numbers in by_kind.items()
    )
    without = "has no attention map and is" if len(skipped) == 1 else "have no attention map and are"
    return f"{len(skipped)} of its {len(kinds)} layers {without} left out: {listed}"


def share_weights(body: nn.Module, sites: Sequence[str]) -> bool:
    """Tell whether layers share the weights of their attention.

    Then it is one module that is called several times, or modules whose parameters all lie in the same
    storage. Parameters that are not in memory all lie at 0.
    """
    modules = [body.get_submodule(site) for site in sites]
    weights = [
        frozenset(weight.data_ptr() or id(weight) for weight in module.parameters()) or id(module)
        for module in modules
    ]
    return len({*weights}) < len(weights)
