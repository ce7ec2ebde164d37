"""What an observer of attention is shown."""

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True, slots=True)
class Piece:
    """A block of attention, and where it lies in the batch.

    Attributes:
        layer: The attention layer, counted from 0 in the order of the forward pass.
        sequence: First sequence of the batch in the block.
        query: Position of the first query in the block.
        queries: How many queries the sequence has.
        probabilities: (batch, head, query, key). Overwritten by the next block: use it at once,
            or copy it.
    """

    layer: int
    sequence: int
    query: int
    queries: int
    probabilities: Tensor


Observer = Callable[[Piece], None]
