"""What an observer of attention is shown, and what it gets hold of."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

from torch import Tensor

from attnprobe.attention.observed import NOTHING, Observed
from attnprobe.model.reading.routing import Sites


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
        observed: What was asked for beside them; overwritten likewise.
    """

    layer: int
    sequence: int
    query: int
    queries: int
    probabilities: Tensor
    observed: Observed = NOTHING


Observer = Callable[[Piece], None]


@dataclass(frozen=True)
class Capture:
    """Attention that is being read.

    Attributes:
        sites: Counts the layers of the passes that the asking thread runs.
        joined: What another thread enters before it runs passes of its own.
    """

    sites: Sites
    joined: Callable[[], AbstractContextManager[object]] = nullcontext
