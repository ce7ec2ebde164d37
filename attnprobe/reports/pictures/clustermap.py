"""All pairs of heads as a matrix in the order of their tree, with the tree and the layers beside it."""

import base64
import math
import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from textwrap import wrap
from typing import Any

import altair as alt
import numpy as np
from numpy.typing import NDArray

from attnprobe.reports.columns import PLAIN, DrawingRequest, Record, sort_labels
from attnprobe.reports.pairs import SQUARED, Clusters, Place, cluster_parts, find_pairs
from attnprobe.reports.pictures.channels import colour_by_layer, make_tooltip
from attnprobe.reports.scales import fit_scale
from attnprobe.reports.theme import FRAME, SEQUENTIAL, Theme, mix_colours
from attnprobe.table.cells import clean
from attnprobe.table.head_table import HeadTable
from attnprobe.table.numbers import format_number, name_head

#: Pairs of more heads than this are an image without tooltips: marks would take megabytes.
_MARKED = 80
#: Pixels of a cell of the image, which renderers may blur at its edges.
_FINE = 4
#: Pixels of a cell at most, and of one whose head has a name; of the tree; of the strip, and the air beside.
_WIDEST, _NAMED, _TREE, _STRIP, _AIR = 14, 8, (36, 90), 10, 3
#: Narrower pictures have their legends below.
_BESIDE, _LEGEND, _MARGIN = 480, 118, 14
#: How a distance is called that is sqrt(ln 2) at most.
_JENSEN_SHANNON = "Jensen-Shannon distance (sqrt(nats))"
#: Browns of layers, the first and the last: distances have other hues.
_BROWNS, _BROWNS_ON_DARK = ("#f4ece4", "#5f3a1e"), ("#5a4636", "#f6e9dc")


@dataclass(frozen=True)
class _Frame:
    """Where the parts of a picture are, in pixels from its left upper corner."""

    cell: float
    tree: float  # how wide the tree is
    left: float  # where the matrix begins
    side: float  # of the matrix
    names: float  # how wide the names of heads are; 0 where there is no room for them
    legend: dict[str, Any]  # where legends stand

    @property
    def width(self) -> float:
        return self.left + self.side + self.names


def can_draw_clustermap(table: HeadTable) -> bool:
    pairs = find_pairs(table) if SQUARED in table.data else None
    return pairs is not None and not pairs.within


def draw_clustermap(table: HeadTable, request: DrawingRequest) -> Any:
    """Draw the distances of all heads, rows and columns in the order of the tree of average linkage.

    Left of it are the tree and a strip of the layers. Squares on the diagonal are the clusters; see
    ``cluster_heads``. Of more than 80 heads, the cells are one image, without tooltips.
    """
    parts = [_draw_part(clusters, place, request) for place, clusters in cluster_parts(table, request)]
    return parts[0] if len(parts) == 1 else alt.vconcat(*parts).resolve_scale(color="independent")


def _draw_part(clusters: Clusters, place: str, request: DrawingRequest) -> Any:
    heads = [clusters.found.heads[leaf] for leaf in clusters.leaves]
    frame = _lay_out(heads, request)
    matrix = clusters.found.matrix[np.ix_(clusters.leaves, clusters.leaves)]
    layers = [
        *_draw_cells(matrix, heads, frame, clusters.found.name),
        *_draw_tree(clusters, frame, request.theme),
        _draw_squares(clusters, frame),
        _draw_layers(heads, clusters, frame, request.theme),
    ]
    if frame.names:
        layers.append(_draw_names(heads, frame, request.theme))
    explained = (
        f"rows, columns: {len(heads)} heads by average linkage; tree: at which distance they join; squares "
        f"and dashes: {clusters.sentence()}"
    )
    width = max(frame.width, request.width - 20)
    lines = wrap(explained, max(30, int(width / (PLAIN * request.theme.size))))
    # A single matrix needs no heading: what explains it stands in the place of one, in its own size.
    look: dict[str, Any] = {
        "fontWeight": "normal",
        "fontSize": request.theme.small(1),
        "color": request.theme.muted,
    }
    title = alt.TitleParams(place, subtitle=lines) if place else alt.TitleParams(lines, **look)
    whole = alt.layer(*layers).resolve_scale(color="independent")
    return whole.properties(width=frame.width, height=frame.side, title=title)


def _lay_out(heads: Sequence[Place], request: DrawingRequest) -> _Frame:
    below = request.width < _BESIDE
    width = request.width - _MARGIN - (0 if below else _LEGEND)
    tree = float(np.clip(0.16 * width, *_TREE))
    left = tree + _STRIP + 2 * _AIR
    names = 6 + 0.56 * (request.theme.size - 1) * max(len(name_head(*head)) for head in heads)
    if (width - left - names) / len(heads) < _NAMED:
        names = 0.0
    cell = min((width - left - names) / len(heads), _WIDEST)
    legend = {"orient": "bottom", "direction": "horizontal"} if below else {}
    return _Frame(cell, tree, left, cell * len(heads), names, legend)


def _chart(data: list[Record], frame: _Frame) -> Any:
    """Make a chart whose places are pixels."""
    x = alt.Scale(domain=[0, frame.width], range=[0, frame.width], nice=False, zero=False)
    y = alt.Scale(domain=[0, frame.side], range=[0, frame.side], nice=False, zero=False)
    return alt.Chart(alt.InlineData(values=data)).encode(
        x=alt.X("x:Q", axis=None, scale=x), y=alt.Y("y:Q", axis=None, scale=y)
    )


def _draw_cells(matrix: NDArray[np.float64], heads: Sequence[Place], frame: _Frame, name: str) -> list[Any]:
    scale = fit_scale([(matrix.ravel().tolist(), [None] * matrix.size)], effect=False)
    title = wrap(clean(name), 36 if frame.legend else 18, max_lines=3, placeholder=" ...")
    if name.startswith(_JENSEN_SHANNON):
        title.append(f"largest possible: {math.sqrt(math.log(2)):.2f}")
    look: dict[str, Any] = {"gradientLength": 90, "values": scale.ends, "format": ".3~g", **frame.legend}
    colours = alt.Scale(domain=[scale.low, scale.high], range=list(SEQUENTIAL), interpolate="rgb", clamp=True)
    colour = alt.Color("distance:Q", scale=colours, legend=alt.Legend(title=title, **look))
    if len(heads) > _MARKED:
        dot = _chart([{"x": frame.left, "y": 0.0, "distance": 0.0}], frame)
        side: dict[str, Any] = {"width": frame.side, "height": frame.side, "aspect": False}
        image = dot.mark_image(url=_encode_png(matrix / scale.high), align="left", baseline="top", **side)
        return [image, dot.mark_point(opacity=0, size=1).encode(color=colour)]
    data: list[Record] = [
        {"x": frame.left + column * frame.cell, "x2": frame.left + (column + 1) * frame.cell,
         "y": row * frame.cell, "y2": (row + 1) * frame.cell, "distance": distance,
         "one": name_head(*heads[row]), "other": name_head(*heads[column])}
        for row, line in enumerate(matrix.tolist())
        for column, distance in enumerate(line)
    ]  # fmt: skip
    tooltip = make_tooltip({"one:N": "head", "other:N": "other head", "distance:Q": "distance"})
    cells = _chart(data, frame).mark_rect(aria=False)
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


def _draw_tree(clusters: Clusters, frame: _Frame, theme: Theme) -> list[Any]:
    """Draw the tree, the distance at which two groups join from 0 on the right to the last, and its cut."""
    from scipy.cluster.hierarchy import dendrogram

    # scipy draws leaves at 5, 15, 25, ...
    tree = dendrogram(clusters.joined, no_plot=True)
    top = float(clusters.joined[-1, 2]) or 1.0
    data: list[Record] = [
        {"link": link, "step": step, "x": frame.tree * (1 - height / top), "y": frame.cell * row / 10}
        for link, (rows, heights) in enumerate(zip(tree["icoord"], tree["dcoord"], strict=True))
        for step, (row, height) in enumerate(zip(rows, heights, strict=True))
    ]
    lines = _chart(data, frame).mark_line(
        strokeWidth=0.8 if frame.cell > 2 else 0.4, strokeJoin="miter", color=theme.ink
    )
    cut = {"x": frame.tree * (1 - clusters.height / top), "y": 0, "y2": frame.side}
    dashes = _chart([cut], frame).mark_rule(color=FRAME, strokeDash=[3, 2]).encode(y2="y2:Q")
    ends = [
        _chart([{"x": x, "y": frame.side + 2, "value": value}], frame)
        .mark_text(align=align, baseline="top", fontSize=theme.small(3), color=theme.ink)
        .encode(text="value:N")
        for x, align, value in ((0.0, "left", f"{format_number(top)}"), (frame.tree, "right", "0"))
    ]
    return [lines.encode(detail="link:N", order="step:Q"), dashes, *ends]


def _draw_squares(clusters: Clusters, frame: _Frame) -> Any:
    numbers = [clusters.numbers[leaf] for leaf in clusters.leaves]
    data: list[Record] = []
    for number in clusters.sizes:
        rows = [row for row, other in enumerate(numbers) if other == number]
        start, stop = frame.cell * min(rows), frame.cell * (max(rows) + 1)
        data.append({"x": frame.left + start, "x2": frame.left + stop, "y": start, "y2": stop})
    squares = _chart(data, frame).mark_rect(fill=None, stroke=FRAME, strokeWidth=1.4)
    return squares.encode(x2="x2:Q", y2="y2:Q")


def _draw_layers(heads: Sequence[Place], clusters: Clusters, frame: _Frame, theme: Theme) -> Any:
    left = frame.tree + _AIR
    data: list[Record] = [
        {"layer": layer, "head": head, "cluster": str(clusters.numbers[leaf] or "on its own"),
         "x": left, "x2": left + _STRIP, "y": row * frame.cell, "y2": (row + 1) * frame.cell}
        for row, ((layer, head), leaf) in enumerate(zip(heads, clusters.leaves, strict=True))
    ]  # fmt: skip
    browns = _BROWNS_ON_DARK if theme.name == "dark" else _BROWNS
    colour = colour_by_layer(sort_labels(layer for layer, _ in heads), theme, colours=browns, **frame.legend)
    tooltip = make_tooltip({"layer:O": "layer", "head:O": "head", "cluster:N": "cluster"})
    return _chart(data, frame).mark_rect().encode(x2="x2:Q", y2="y2:Q", color=colour, tooltip=tooltip)


def _draw_names(heads: Sequence[Place], frame: _Frame, theme: Theme) -> Any:
    data: list[Record] = [
        {"name": name_head(*head), "x": frame.left + frame.side + 4, "y": frame.cell * (row + 0.5)}
        for row, head in enumerate(heads)
    ]
    size = int(min(frame.cell, theme.size - 1))
    text = _chart(data, frame).mark_text(align="left", baseline="middle", fontSize=size, color=theme.ink)
    return text.encode(text="name:N")
