"""All pairs of heads as a matrix in the order of their tree, with the tree and the layers beside it."""

import base64
import math
import struct
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import altair as alt
import numpy as np
from numpy.typing import NDArray

from attnprobe.reports.charts.figure import Drawing, Figure
from attnprobe.reports.charts.marks import (
    BESIDE,
    amend,
    colour_by_layer,
    make_chart,
    make_tooltip,
    number_words,
    sort_rows,
    wrap_words,
)
from attnprobe.reports.columns import DrawingRequest, Record, sort_labels
from attnprobe.reports.pairs import Clusters, Place, cluster_parts
from attnprobe.reports.scales import fit_scale
from attnprobe.reports.theme import FRAME, SEQUENTIAL, Theme, mix_colours
from attnprobe.table.cells import clean
from attnprobe.table.numbers import name_head
from attnprobe.table.table import HeadTable

#: Pairs of more heads than this are an image without tooltips: marks would take megabytes.
_MARKED = 80
#: Pixels of a cell of the image, which renderers may blur at its edges.
_FINE = 4
#: Pixels of the strip of layers.
_STRIP = 10


@dataclass(frozen=True, kw_only=True)
class Tree(Figure):
    """A tree of average linkage, a strip of layers, and all distances in its order.

    Squares on the diagonal are the clusters; see ``cluster_heads``.
    """

    def draw(self, table: HeadTable, request: DrawingRequest) -> Drawing:
        parts = list(cluster_parts(table, request))
        charts = [_draw_part(clusters, place, len(parts), request) for place, clusters in parts]
        caption = ["rows, columns: heads by average linkage", "squares, dashes: clusters"]
        caption += [clusters.sentence() for _, clusters in parts]
        return Drawing(charts[0] if len(charts) == 1 else alt.vconcat(*charts), caption)


def _draw_part(clusters: Clusters, place: str, parts: int, request: DrawingRequest) -> Any:
    theme, heads = request.theme, [clusters.found.heads[leaf] for leaf in clusters.leaves]
    tree = float(np.clip(0.16 * request.room, 36, 90))
    side = min(request.room - tree - _STRIP, request.high / parts - 60, 14 * len(heads))
    below: dict[str, Any] = {}
    if request.width < BESIDE:
        below = {"orient": "bottom", "direction": "horizontal", "columns": 6}
    matrix = clusters.found.matrix[np.ix_(clusters.leaves, clusters.leaves)]
    cells = [*_draw_cells(matrix, heads, side, clusters.found.name, below), _draw_squares(clusters)]
    charts = [
        amend(alt.layer(*_draw_tree(clusters, theme)), width=tree, height=side),
        amend(_draw_layers(heads, clusters, theme, below), width=_STRIP, height=side),
        amend(alt.layer(*cells), width=side, height=side),
    ]
    if side / len(heads) >= 8:
        words = make_chart([{"label": word} for word in number_words([name_head(*head) for head in heads])])
        size = min(int(side / len(heads)), theme.small(1))
        named = words.mark_point(opacity=0).encode(y=sort_rows(orient="right", labelFontSize=size))
        charts.append(amend(named, width=1, height=side))
    whole = alt.hconcat(*charts, spacing=3)
    amend(whole, resolve={"scale": {"color": "shared", "fill": "shared"}})
    return amend(whole, title=place) if place else whole


def _make_side(name: str, channel: Callable[..., Any], heads: int) -> Any:
    """Make the channel of places of heads in the order of the tree."""
    scale = alt.Scale(domain=[0, heads], nice=False, zero=False, reverse=name == "y")
    return channel(f"{name}:Q", axis=None, scale=scale)


def _draw_cells(
    matrix: NDArray[np.float64], heads: Sequence[Place], side: float, name: str, below: dict[str, Any]
) -> list[Any]:
    scale = fit_scale([(matrix.ravel().tolist(), [None] * matrix.size)], effect=False)
    title = wrap_words(clean(name), 220 if below else 110, 11)
    if name.startswith("Jensen-Shannon distance (sqrt(nats))"):
        title.append(f"largest possible: {math.sqrt(math.log(2)):.2f}")
    colours = alt.Scale(domain=[scale.low, scale.high], range=list(SEQUENTIAL), interpolate="rgb", clamp=True)
    legend = alt.Legend(title=title, gradientLength=90, values=scale.ends, format=".3~g", **below)
    colour = alt.Color("distance:Q", scale=colours, legend=legend)
    places = {name: _make_side(name, channel, len(heads)) for name, channel in (("x", alt.X), ("y", alt.Y))}
    if len(heads) > _MARKED:
        corner = make_chart([{"x": 0, "y": 0, "distance": 0.0}]).encode(**places)
        size: dict[str, Any] = {"width": side, "height": side, "aspect": False}
        image = corner.mark_image(url=_encode_png(matrix / scale.high), align="left", baseline="top", **size)
        return [image, corner.mark_point(opacity=0, size=1).encode(color=colour)]
    data: list[Record] = [
        {
            **{"x": column, "x2": column + 1, "y": row, "y2": row + 1, "distance": distance},
            **{"one": name_head(*heads[row]), "other": name_head(*heads[column])},
        }
        for row, line in enumerate(matrix.tolist())
        for column, distance in enumerate(line)
    ]
    tooltip = make_tooltip({"one:N": "head", "other:N": "other head", "distance:Q": "distance"})
    cells = make_chart(data).encode(**places).mark_rect(aria=False)
    return [cells.encode(x2="x2:Q", y2="y2:Q", color=colour, tooltip=tooltip)]


def _encode_png(shares: NDArray[np.float64]) -> str:
    levels = [bytes.fromhex(mix_colours(SEQUENTIAL, level / 255)[1:]) for level in range(256)]
    ramp = np.array([list(level) for level in levels], np.uint8)
    pixels = ramp[np.rint(np.clip(shares, 0, 1) * 255).astype(int)].repeat(_FINE, 0).repeat(_FINE, 1)
    high, wide, _ = pixels.shape
    lines = b"".join(b"\0" + row.tobytes() for row in pixels)  # each begins with the number of its filter
    header = struct.pack(">IIBBBBB", wide, high, 8, 2, 0, 0, 0)
    content = b"\x89PNG\r\n\x1a\n"
    for name, part in ((b"IHDR", header), (b"IDAT", zlib.compress(lines)), (b"IEND", b"")):
        content += struct.pack(">I", len(part)) + name + part + struct.pack(">I", zlib.crc32(name + part))
    return f"data:image/png;base64,{base64.b64encode(content).decode('ascii')}"


def _draw_tree(clusters: Clusters, theme: Theme) -> list[Any]:
    """Draw the tree, the distance at which two groups join from 0 on the right to the last, and its cut."""
    from scipy.cluster.hierarchy import dendrogram

    # scipy draws leaves at 5, 15, 25, ...
    tree = dendrogram(clusters.joined, no_plot=True)
    top = float(clusters.joined[-1, 2]) or 1.0
    data: list[Record] = [
        {"link": link, "step": step, "distance": height, "y": row / 10}
        for link, (rows, heights) in enumerate(zip(tree["icoord"], tree["dcoord"], strict=True))
        for step, (row, height) in enumerate(zip(rows, heights, strict=True))
    ]
    axis = alt.Axis(values=[0, top], format=".3~g", grid=False)
    scale = alt.Scale(domain=[0, top], reverse=True, nice=False)
    x = alt.X("distance:Q", title="distance", axis=axis, scale=scale)
    y = _make_side("y", alt.Y, len(clusters.leaves))
    thin = 0.8 if len(clusters.leaves) < 2 * _MARKED else 0.4
    lines = make_chart(data).mark_line(strokeWidth=thin, strokeJoin="miter", color=theme.ink)
    cut = make_chart([{"distance": clusters.height}]).mark_rule(color=FRAME, strokeDash=[3, 2])
    return [lines.encode(x=x, y=y, detail="link:N", order="step:Q"), cut.encode(x=x)]


def _draw_squares(clusters: Clusters) -> Any:
    numbers = [clusters.numbers[leaf] for leaf in clusters.leaves]
    data: list[Record] = []
    for number in clusters.sizes:
        rows = [row for row, other in enumerate(numbers) if other == number]
        start, stop = min(rows), max(rows) + 1
        data.append({"x": start, "x2": stop, "y": start, "y2": stop})
    places = {name: _make_side(name, one, len(numbers)) for name, one in (("x", alt.X), ("y", alt.Y))}
    squares = make_chart(data).mark_rect(fill=None, stroke=FRAME, strokeWidth=1.4)
    return squares.encode(**places, x2="x2:Q", y2="y2:Q")


def _draw_layers(heads: Sequence[Place], clusters: Clusters, theme: Theme, below: dict[str, Any]) -> Any:
    data: list[Record] = [
        {
            **{"layer": layer, "head": head, "y": row, "y2": row + 1},
            "cluster": str(clusters.numbers[leaf] or "on its own"),
        }
        for row, ((layer, head), leaf) in enumerate(zip(heads, clusters.leaves, strict=True))
    ]
    # Browns, as distances have other hues.
    browns = ("#5a4636", "#f6e9dc") if theme.name == "dark" else ("#f4ece4", "#5f3a1e")
    colour = colour_by_layer(
        sort_labels(layer for layer, _ in heads), theme, colours=browns, channel=alt.Fill, **below
    )
    tooltip = make_tooltip({"layer:O": "layer", "head:O": "head", "cluster:N": "cluster"})
    y = _make_side("y", alt.Y, len(heads))
    return make_chart(data).mark_rect().encode(y=y, y2="y2:Q", fill=colour, tooltip=tooltip)
