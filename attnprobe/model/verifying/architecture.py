"""What is known about a model's attention once it was read rightly."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from attnprobe.attention.kinds import Kind, Place, places_of
from attnprobe.attention.layout import Grid
from attnprobe.model.loading.pruned import present_in
from attnprobe.model.reading.ways import Way


@dataclass(frozen=True)
class Architecture:
    """What the dry run found, and how it was verified.

    Attributes:
        model_type: As ``config.model_type`` names it.
        layers: Attention layers in a forward pass, of all kinds.
        heads: Query heads in each.
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

    @property
    def standing(self) -> NDArray[np.bool_]:
        """Which heads are there, (layer, head)."""
        found = np.ones((self.layers, self.heads), bool)
        for layer, head in self.removed:
            found[layer, head] = False
        return found

    @property
    def present(self) -> tuple[tuple[int, ...], ...]:
        """The numbers of the heads that each layer computes; nothing at all where it is all of them."""
        return present_in(self.standing) if self.removed else ()

    @property
    def places(self) -> tuple[Place, ...]:
        """What names each layer."""
        return places_of(self.kinds, self.numbers)
