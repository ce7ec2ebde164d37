"""The words of a picture: which kinds there are, and which themes; without anything slow to import."""

from typing import Literal

#: The kinds of pictures. The first that is a table's by nature is drawn where nobody asks for another.
Kind = Literal[
    "roles",
    "change",
    "relations",
    "settling",
    "curves",
    "lines",
    "scatter",
    "matrix",
    "map",
    "dendrogram",
    "heatmap",
    "depth",
    "intervals",
    "shares",
    "checks",
]
#: The kind that has clusters.
TREE: Literal["dendrogram"] = "dendrogram"
ThemeName = Literal["light", "dark", "paper"]
