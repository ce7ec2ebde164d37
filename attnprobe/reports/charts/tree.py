"""All pairs of heads as a matrix in the order of their tree, with the tree and the layers beside it."""

import base64
import math
import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import altair as alt
import numpy as np
from numpy.typing import NDArray

from attnprobe.reports.charts.channels import (
    BESIDE,
    amend,
    colour_by_layer,
    make_chart,
    make_records,
    make_tooltip,
    number_words,
    sort_rows,
    wrap_words,
)
from attnprobe.reports.charts.figure import Drawing, Figure
from attnprobe.reports.columns import DrawingRequest, sort_labels
from attnprobe.reports.pairs import Clusters, cluster_heads, read_distances
from attnprobe.reports.scales import fit_scale
from attnprobe.reports.theme import FRAME, SEQUENTIAL, Theme, mix_colours
from attnprobe.table.cells import clean
from attnprobe.table.numbers import name_head
from attnprobe.table.table import HeadTable

#: Pairs of more heads than this are an image without tooltips: marks would take megabytes.
_MARKED = 80
#: Pixels of the strip of layers.
_STRIP = 10


@dataclass(frozen=True, kw_only=True)
class Tree(Figure):
    """A tree of average linkage, a strip of layers, and a matrix of all distances in the tree's order.

    Squares on the diagonal are the clusters; see ``cluster_heads``.
    """

    def draw(self, table: HeadTable, request: DrawingRequest) -> Drawing:
        parts = [cluster_heads(part, request.clusters) for part in read_distances(table, request)]
        charts = [_draw_part(clusters, len(parts), request) for clusters in parts]
        caption = ["rows, columns: heads by average linkage", "squares, dashes: clusters"]
        caption += [clusters.explain() for clusters in parts]
        return Drawing(charts[0] if len(charts) == 1 else alt.vconcat(*charts), caption)


def _draw_part(clusters: Clusters, parts: int, request: DrawingRequest) -> Any:
    theme, narrow = request.theme, request.width < BESIDE
    heads = [clusters.distances.heads[leaf] for leaf in clusters.leaves]
    names = [name_head(*head) for head in heads]
    tree = float(np.clip(0.16 * request.room, 36, 90))
    room = request.room - tree - _STRIP - (60 if narrow else 170)  # beside names and legends
    side = max(60.0, min(room, request.high / parts - (150 if narrow else 60), 14 * len(heads)))
    below: dict[str, Any] = {"orient": "bottom", "direction": "horizontal", "columns": 6} if narrow else {}
    charts = [
        amend(_draw_tree(clusters, theme), width=tree),
        amend(_draw_layer_strip(clusters, theme, below), width=_STRIP),
        amend(alt.layer(_draw_matrix(clusters, names, side, below), _draw_clusters(clusters)), width=side),
    ]
    if side / len(heads) >= 8:
        words = make_chart([{"label": word} for word in number_words(names)]).mark_point(opacity=0)
        size = min(int(side / len(heads)), theme.small(1))
        charts.append(amend(words.encode(y=sort_rows(orient="right", labelFontSize=size)), width=1))
    whole = alt.hconcat(*(amend(chart, height=side) for chart in charts), spacing=3)
    amend(whole, resolve={"scale": {"color": "shared", "fill": "shared"}})
    part = clusters.distances.part
    return amend(whole, title=part) if part else whole


def _place(heads: int, **channels: Any) -> dict[str, Any]:
    """Make channels of places of heads in the order of the tree."""
    places = {}
    for name, channel in channels.items():
        scale = alt.Scale(domain=[0, heads], nice=False, zero=False, reverse=name == "y")
        places[name] = channel(f"{name}:Q", axis=None, scale=scale)
    return places


def _draw_matrix(clusters: Clusters, names: Sequence[str], side: float, below: dict[str, Any]) -> Any:
    matrix = clusters.distances.matrix[np.ix_(clusters.leaves, clusters.leaves)]
    scale = fit_scale([(matrix.ravel().tolist(), [None] * matrix.size)], effect=False)
    title = wrap_words(clean(clusters.distances.name), 220 if below else 110, 11)
    if clusters.distances.name.startswith("Jensen-Shannon distance (sqrt(nats))"):
        title.append(f"largest possible: {math.sqrt(math.log(2)):.2f}")
    colours = alt.Scale(domain=[scale.low, scale.high], range=list(SEQUENTIAL), interpolate="rgb", clamp=True)
    legend = alt.Legend(title=title, gradientLength=90, values=scale.ends, format=".3~g", **below)
    colour = alt.Color("distance:Q", scale=colours, legend=legend)
    places = _place(len(names), x=alt.X, y=alt.Y)
    if len(names) > _MARKED:
        corner = make_chart([{"x": 0, "y": 0, "distance": 0.0}]).encode(**places)
        size: dict[str, Any] = {"width": side, "height": side, "aspect": False}
        image = corner.mark_image(url=_encode_png(matrix / scale.high), align="left", baseline="top", **size)
        return alt.layer(image, corner.mark_point(opacity=0, size=1).encode(color=colour))
    y, x = (axis.ravel().tolist() for axis in np.indices(matrix.shape))
    sides = {"row": [names[row] for row in y], "column": [names[column] for column in x]}
    ends = {"x": x, "x2": [column + 1 for column in x], "y": y, "y2": [row + 1 for row in y]}
    data = make_records({**ends, "distance": matrix.ravel().tolist(), **sides})
    cells = make_chart(data).mark_rect(aria=False)
    tooltip = make_tooltip({"row:N": "head", "column:N": "other head", "distance:Q": "distance"})
    return cells.encode(**places, x2="x2:Q", y2="y2:Q", color=colour, tooltip=tooltip)


def _encode_png(shares: NDArray[np.float64]) -> str:
    """Encode shares (row, column) as a PNG in the sequential colours, 4 x 4 pixels each, in a data URL."""
    ramp = [bytes.fromhex(mix_colours(SEQUENTIAL, level / 255)[1:]) for level in range(256)]
    levels = np.rint(np.clip(shares, 0, 1) * 255).astype(int)
    # Four pixels a cell, as renderers may blur its edges.
    pixels = np.array([list(colour) for colour in ramp], np.uint8)[levels].repeat(4, 0).repeat(4, 1)
    high, wide, _ = pixels.shape
    lines = b"".join(b"\0" + row.tobytes() for row in pixels)  # each begins with the number of its filter
    header = struct.pack(">IIBBBBB", wide, high, 8, 2, 0, 0, 0)
    content = b"\x89PNG\r\n\x1a\n"
    for name, part in ((b"IHDR", header), (b"IDAT", zlib.compress(lines)), (b"IEND", b"")):
        content += struct.pack(">I", len(part)) + name + part + struct.pack(">I", zlib.crc32(name + part))
    return f"data:image/png;base64,{base64.b64encode(content).decode('ascii')}"


def _draw_tree(clusters: Clusters, theme: Theme) -> Any:
    """Draw the tree and its cut: distances at which groups join, from 0 on the right to the largest."""
    from scipy.cluster.hierarchy import dendrogram

    tree = dendrogram(clusters.joined, no_plot=True)
    top = float(clusters.joined[-1, 2]) or 1.0
    corners = [
        # scipy draws leaves at 5, 15, 25, ...
        {"link": link, "step": step, "distance": height, "y": row / 10}
        for link, (rows, heights) in enumerate(zip(tree["icoord"], tree["dcoord"], strict=True))
        for step, (row, height) in enumerate(zip(rows, heights, strict=True))
    ]
    axis = alt.Axis(values=[0, top], format=".3~g", grid=False)
    scale = alt.Scale(domain=[0, top], reverse=True, nice=False)
    x = alt.X("distance:Q", title="distance", axis=axis, scale=scale)
    thin = 0.8 if len(clusters.leaves) < 2 * _MARKED else 0.4
    lines = make_chart(corners).mark_line(strokeWidth=thin, strokeJoin="miter", color=theme.ink)
    cut = make_chart([{"distance": clusters.height}]).mark_rule(color=FRAME, strokeDash=[3, 2])
    places = _place(len(clusters.leaves), y=alt.Y)
    return alt.layer(lines.encode(x=x, **places, detail="link:N", order="step:Q"), cut.encode(x=x))


def _draw_clusters(clusters: Clusters) -> Any:
    numbers = [clusters.numbers[leaf] for leaf in clusters.leaves]
    ends = [(numbers.index(number), numbers.index(number) + size) for number, size in clusters.sizes.items()]
    data = [{"x": low, "x2": high, "y": low, "y2": high} for low, high in ends]
    squares = make_chart(data).mark_rect(fill=None, stroke=FRAME, strokeWidth=1.4)
    return squares.encode(**_place(len(numbers), x=alt.X, y=alt.Y), x2="x2:Q", y2="y2:Q")


def _draw_layer_strip(clusters: Clusters, theme: Theme, below: dict[str, Any]) -> Any:
    data = [
        {
            **dict(zip(("layer", "head"), clusters.distances.heads[leaf], strict=True)),
            **{"y": row, "y2": row + 1, "cluster": str(clusters.numbers[leaf] or "on its own")},
        }
        for row, leaf in enumerate(clusters.leaves)
    ]
    # Browns, as distances have other hues.
    browns = ("#5a4636", "#f6e9dc") if theme.name == "dark" else ("#f4ece4", "#5f3a1e")
    layers = sort_labels(layer for layer, _ in clusters.distances.heads)
    colour = colour_by_layer(layers, theme, alt.Fill, browns, **below)
    tooltip = make_tooltip({"layer:O": "layer", "head:O": "head", "cluster:N": "cluster"})
    strip = make_chart(data).mark_rect()
    return strip.encode(**_place(len(data), y=alt.Y), y2="y2:Q", fill=colour, tooltip=tooltip)
