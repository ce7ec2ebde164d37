"""Heads as a tree: those that attend alike join first."""

from typing import Any

import altair as alt
import numpy as np

from attnprobe.reports.pictures.asked import Asked
from attnprobe.reports.pictures.layers import layer_colour
from attnprobe.reports.pictures.pairs import distances, has_distances, head_name, pairs_of
from attnprobe.reports.pictures.rows import Record, ordered
from attnprobe.table.head_table import HeadTable

#: Pixels for a head; fewer where there are many, and no names below ``_NAMED``.
_HIGH, _NAMED = 13, 8


def fits(table: HeadTable) -> bool:
    """Tell whether a table holds divergences of all pairs of heads."""
    pairs = pairs_of(table)
    return has_distances(table) and pairs is not None and not pairs.within


def draw(table: HeadTable, asked: Asked) -> Any:
    """Draw the tree of average linkage (UPGMA, Sokal and Michener 1958) on roots of divergences.

    Two groups join at the mean distance of their pairs.
    """
    pairs = pairs_of(table)
    assert pairs is not None  # or the table would not fit
    trees = []
    for place in pairs.maps:
        rows = [row for row, of in enumerate(pairs.of) if of == place]
        found = distances(table, rows, pairs, asked)
        trees.append(_tree(found, place, asked))
    return trees[0] if len(trees) == 1 else alt.vconcat(*trees)


def _tree(found: Any, place: str, asked: Asked) -> Any:
    from scipy.cluster.hierarchy import dendrogram, linkage
    from scipy.spatial.distance import squareform

    joined = linkage(
        squareform(found.matrix, checks=False), "average", optimal_ordering=len(found.heads) <= 300
    )
    # scipy draws leaves at 5, 15, 25, ...
    tree = dendrogram(joined, no_plot=True)
    leaves = [found.heads[leaf] for leaf in tree["leaves"]]
    links: list[Record] = [
        {"link": number, "step": step, "distance": float(distance), "row": (float(row) - 5) / 10}
        for number, (rows, ends) in enumerate(zip(tree["icoord"], tree["dcoord"], strict=True))
        for step, (row, distance) in enumerate(zip(rows, ends, strict=True))
    ]
    named: list[Record] = [
        {"name": head_name(head), "layer": head[0], "head": head[1], "row": row}
        for row, head in enumerate(leaves)
    ]
    high = int(np.clip(900 / len(leaves), 3, _HIGH))
    height = high * len(leaves)
    y = alt.Y("row:Q", axis=None, scale=alt.Scale(domain=[len(leaves) - 0.5, -0.5], nice=False))
    top = float(max(tree["dcoord"][-1] if tree["dcoord"] else [1.0])) * 1.02
    lines = (
        alt.Chart(alt.InlineData(values=links))
        .mark_line(strokeWidth=1, color=asked.theme.ink, strokeJoin="miter")
        .encode(
            x=alt.X("distance:Q", title=found.name, scale=alt.Scale(domain=[top, 0], nice=False),
                    axis=alt.Axis(grid=False, tickCount=6)),
            y=y,
            detail="link:N",
            order="step:Q",
        )
    )  # fmt: skip
    layers = ordered(head[0] for head in found.heads)
    base = alt.Chart(alt.InlineData(values=named)).encode(y=y, x=alt.value("width"))
    tiles = base.mark_square(size=min(high, 11) ** 2, xOffset=8, opacity=1).encode(
        color=layer_colour(layers, asked.theme),
        tooltip=[alt.Tooltip("layer:O", title="layer"), alt.Tooltip("head:O", title="head")],
    )
    parts: list[Any] = [lines, tiles]
    if high >= _NAMED:
        parts.append(
            base.mark_text(
                align="left", dx=17, fontSize=min(high, asked.theme.size - 1), color=asked.theme.ink
            ).encode(text="name:N")
        )
    width = max(160, int(asked.width - 150))
    said = f"average linkage, {len(leaves)} heads"
    return alt.layer(*parts).properties(
        width=width, height=height,
        title=alt.TitleParams(place or "heads that attend alike join first", subtitle=[said]),
    )  # fmt: skip
