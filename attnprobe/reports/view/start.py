"""What a view of one sentence shows first."""

from typing import NamedTuple


class Start(NamedTuple):
    """What a page shows first."""

    kind: str  # of attention
    layer: int  # its place among the layers of the kind
    head: int  # one more than there are is the rollout
    draw: str  # "lines", "map" or "patches"
    words: bool  # whether whole words are shown
    special: bool  # whether special tokens are shown
