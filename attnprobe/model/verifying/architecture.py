"""What the dry run found out about a model's attention, and which of its layers attend."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import nn

from attnprobe.attention.kinds import Kind, Place, list_lacking, number_layers
from attnprobe.attention.layout import Grid
from attnprobe.model.pruning import list_computed_heads
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

    def describe(self) -> dict[str, Any]:
        """Give what goes on record."""
        unsaid = {name for name in ("layer_heads", "joined") if not getattr(self, name)}
        return {name: value for name, value in asdict(self).items() if name not in unsaid}

    @property
    def lacking(self) -> tuple[tuple[int, int], ...]:
        """Heads that a layer never had, as layer and head, where others have more."""
        return list_lacking(self.layer_heads)

    @property
    def standing(self) -> NDArray[np.bool_]:
        """Which heads are there, (layer, head)."""
        found = np.ones((self.layers, self.heads), bool)
        for layer, head in (*self.removed, *self.lacking):
            found[layer, head] = False
        return found

    @property
    def present(self) -> tuple[tuple[int, ...], ...]:
        """The numbers of the heads that each layer computes; nothing at all where it is all of them."""
        return list_computed_heads(self.standing) if self.removed or self.lacking else ()

    @property
    def places(self) -> tuple[Place, ...]:
        return number_layers(self.kinds, self.numbers)


#: Where configurations list what each of their layers is.
_LISTS = ("layer_types", "layers_block_type")
#: What is called attention and has no map: it keeps a state from token to token.
_STATES = ("linear", "lightning", "delta", "recurrent")


def list_layer_kinds(config: Any) -> tuple[str, ...]:
    """List what a configuration says each of its layers is; nothing where it does not say."""
    for name in _LISTS:
        found = getattr(config, name, None)
        if isinstance(found, list | tuple) and found and all(isinstance(kind, str) for kind in found):
            return tuple(found)
    return ()


def find_attending_layers(config: Any) -> tuple[int, ...]:
    """Number the layers that attend, where a configuration says that others do not; else nothing.

    >>> class Config:
    ...     layer_types = ["linear_attention", "full_attention", "conv", "sliding_attention"]
    >>> find_attending_layers(Config)
    (1, 3)
    """
    kinds = list_layer_kinds(config)
    found = tuple(layer for layer, kind in enumerate(kinds) if _attends(kind))
    return found if len(found) < len(kinds) else ()


def _attends(kind: str) -> bool:
    """Tell a layer with a map by its kind; "hybrid" has one beside a state."""
    if kind == "hybrid":
        return True
    return "attention" in kind and not any(state in kind for state in _STATES)


def describe_skipped_layers(config: Any) -> str:
    """Name the layers that do not attend, by their kinds."""
    kinds, attend = list_layer_kinds(config), {*find_attending_layers(config)}
    by_kind: dict[str, list[str]] = {}
    for layer, kind in enumerate(kinds):
        if layer not in attend:
            by_kind.setdefault(kind.removesuffix("_layer"), []).append(str(layer))
    listed = "; ".join(f"{kind} in {_format_layers(some)}" for kind, some in by_kind.items())
    number = len(kinds) - len(attend)
    has, is_ = ("has", "is") if number == 1 else ("have", "are")
    return f"{number} of its {len(kinds)} layers {has} no attention map and {is_} left out: {listed}"


def _format_layers(numbers: Sequence[str]) -> str:
    return f"layer{'s' * (len(numbers) > 1)} {join_names(numbers, len(numbers))}"


def find_shared_weights(body: nn.Module, sites: Sequence[str], layers: int) -> NDArray[np.int64]:
    """Find for each layer the first one that has the same weights, (layer,); itself where it shares none.

    Layers share their weights where their attention is one module that is called several times, or modules
    whose parameters all lie in the same storage.
    """
    modules = dict(body.named_modules())
    if len(sites) != layers or not set(sites) <= modules.keys():
        return np.arange(layers)
    first: dict[object, int] = {}
    return np.array(
        [first.setdefault(_identify_weights(modules[site]), layer) for layer, site in enumerate(sites)]
    )


def _identify_weights(module: nn.Module) -> object:
    """Tell modules of other weights apart; one without any of its own is itself only."""
    # Parameters that are not in memory all lie at 0.
    return frozenset(one.data_ptr() or id(one) for one in module.parameters()) or id(module)
