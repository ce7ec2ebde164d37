"""What is shown of a sequence: its tokens, and the maps of all heads by kind of attention."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from attnprobe.attention.kinds import Kind
from attnprobe.errors import AttnprobeError
from attnprobe.survey.viewing.side import Side


@dataclass(frozen=True)
class Maps:
    """The attention of all layers of a kind.

    Attributes:
        kind: The kind.
        layers: The number of each layer, as tables have it.
        rows: Probabilities (layer, head, query, key); 0 for heads that were removed.
        queries: The tokens that attend.
        keys: The tokens they attend to.
        standing: Which heads are there (layer, head).
        rolled: Attention rolled out up to each layer, (layer, query, key), where it was asked for.
    """

    kind: Kind
    layers: tuple[int, ...]
    rows: NDArray[np.float32]
    queries: Side
    keys: Side
    standing: NDArray[np.bool_]
    rolled: NDArray[np.float32] | None = None


@dataclass(frozen=True)
class Seen:
    """A sequence, and all its attention.

    Attributes:
        model: What the user calls the checkpoint.
        texts: What was read: one text or two, or the name of a file; then what a decoder beside it read.
        maps: The attention of each kind that the model has.
        picture: The image that the model saw, (height, width, 3).
    """

    model: str
    texts: tuple[str, ...]
    maps: tuple[Maps, ...]
    picture: NDArray[np.uint8] | None = None

    def of(self, kind: str | None) -> Maps:
        """Give the attention of a kind; without a name, of the first.

        Raises:
            AttnprobeError: When the model has no such kind.
        """
        found = next((one for one in self.maps if kind in (None, one.kind.value)), None)
        if found is None:
            has = " and ".join(one.kind.value for one in self.maps)
            raise AttnprobeError(f"{self.model} has no {kind} attention here; it has {has}.")
        return found
