"""What each kind of table can be drawn as."""

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Literal

_OF_HEADS = ("atlas", "heatmap", "scatter", "depth")
#: The pictures of each kind of table, where its numbers allow them; first what is drawn by default.
PICTURES: Mapping[str, Sequence[str]] = {
    "heads of groups": ("groups", "heatmap"),
    "groups": ("groups",),
    "correlations": ("intervals",),
    "settling": ("settling",),
    "pruning of checkpoints": ("curves",),
    "pruning": ("curves",),
    "probes": ("probes",),
    "best heads": ("relations",),
    "alignments": ("alignments",),
    "aligning heads": ("atlas", "heatmap"),
    "heads of checkpoints": ("lines", "heatmap", "scatter"),
    "layers of checkpoints": ("lines",),
    "roles": ("roles", *_OF_HEADS),
    "change": ("change", *_OF_HEADS),
    "two sides": ("scatter", "heatmap", "depth"),
    "heads at positions": ("positions",),
    "modalities": ("modality", *_OF_HEADS),
    "heads": (*_OF_HEADS, "modality"),
    "interactions": ("pairs",),
    "all pairs": ("matrix", "map", "clustermap"),
    "pairs in layers": ("matrix",),
    "layers": ("depth",),
}

if TYPE_CHECKING:
    PictureKind = str
else:
    #: What a table can be drawn as.
    PictureKind = Literal[*dict.fromkeys(chain(*PICTURES.values()))]
