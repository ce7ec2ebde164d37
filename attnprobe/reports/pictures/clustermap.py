"""All pairs of heads as a matrix in the order of their tree, with the tree, layers and roles beside it."""

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

from attnprobe.errors import AttnprobeError
from attnprobe.reports.columns import PLAIN, DrawingRequest, Record, read_cells, sort_labels
from attnprobe.reports.pairs import SQUARED, Clusters, Place, cluster_parts, find_pairs, name_head
from attnprobe.reports.pictures.channels import (
    MOST_LISTED,
    colour_by_layer,
    interpolate_colours,
    make_tooltip,
)
from attnprobe.reports.scales import fit_scale
from attnprobe.reports.theme import FRAME, ROLE_COLOURS, SEQUENTIAL, Theme, choose_ink, mix_colours
from attnprobe.table.cells import clean, format_cell
from attnprobe.table.head_table import HeadTable
from attnprobe.table.naming import LETTERS, find_role_kind, join_names

#: Pairs of more heads than this have no tooltips: a mark for each would take megabytes.
_MARKED = 80
#: Pixels of a cell at most, and of one whose head has a name; of the tree; of a strip, and the air beside it.
_WIDEST, _NAMED, _TREE, _STRIP, _AIR = 14, 8, (36, 90), (6, 12), 3
#: Pixels of an image for one of the picture.
_FINE = 3
#: Narrower pictures have their legends below.
_BESIDE, _LEGEND, _MARGIN = 480, 118, 14
_LAYER, _ROLE = "layer", "role"
#: How a distance is called that is sqrt(ln 2) at most.
_JENSEN_SHANNON = "Jensen-Shannon distance (sqrt(nats))"
#: Browns of layers, the first and the last: distances have other hues, and roles greys. How wide a digit is,
#: as a share of its size.
_BROWNS, _BROWNS_ON_DARK, _DIGIT = ("#f4ece4", "#5f3a1e"), ("#5a4636", "#f6e9dc"), 0.56


@dataclass(frozen=True)
class _Frame:
    """Where the parts of a picture are, in pixels from its left upper corner."""

    cell: float
    strip: float
    tree: float  # how wide the tree is
    left: float  # where the matrix begins
    top: float
    side: float  # of the matrix
    named: bool
    below: bool  # whether legends stand below

    def row(self, place: float) -> float:
        """Give the upper edge of a row of the matrix, or of a column its left edge, from its own."""
        return place * self.cell


def can_draw_clustermap(table: HeadTable) -> bool:
    pairs = find_pairs(table) if SQUARED in table.data else None
    return pairs is not None and not pairs.within


def split_tables(tables: Sequence[HeadTable]) -> tuple[list[HeadTable], HeadTable | None]:
    """Part tables of pairs of heads from the one of roles that stands beside them.

    Raises AttnprobeError when there is more than one table of roles, or nothing else.
    """
    roles = [table for table in tables if _ROLE in table.data and "head" in table.data]
    if len(roles) > 1:
        raise AttnprobeError("--kind clustermap takes one table of roles beside a table of pairs of heads")
    pairs = [table for table in tables if not any(table is one for one in roles)]
    if roles and not pairs:
        raise AttnprobeError(
            "--kind clustermap draws pairs of heads, and roles beside them; put the table that `attnprobe "
            "distance MODEL --all-pairs` writes before the one of roles"
        )
    return pairs, roles[0] if roles else None


def draw_clustermap(table: HeadTable, request: DrawingRequest) -> Any:
    """Draw the distances of all heads, rows and columns in the order of the tree of average linkage.

    Left of it is the tree, then a strip of the layers and one of the roles, where they are given. The strips
    are above it, too. Squares on the diagonal are the clusters; see ``cluster_heads``. Of more than 80 heads,
    cells are one image and have no tooltip.
    """
    if request.roles is not None and set(request.roles.models) != set(table.models):
        whose, others = (clean(join_names(one.models)) for one in (table, request.roles))
        raise AttnprobeError(
            f"the pairs of heads are of {whose}, and the roles of {others}; give the roles of the same model"
        )
    parts = [_draw_part(one, place, request) for place, one in cluster_parts(table, request)]
    return parts[0] if len(parts) == 1 else alt.vconcat(*parts).resolve_scale(color="independent")


def _draw_part(found: Clusters, place: str, request: DrawingRequest) -> Any:
    heads = [found.found.heads[leaf] for leaf in found.leaves]
    roles = _find_roles(request.roles, heads, place)
    strips = [_LAYER, *([_ROLE] if any(roles) else [])]
    frame = _lay_out(heads, len(strips), request)
    matrix = found.found.matrix[np.ix_(found.leaves, found.leaves)]
    distances = _draw_cells(matrix, heads, frame, found.found.name)
    layers = [*distances, *_draw_tree(found, frame, request.theme), _draw_squares(found, frame)]
    layers += [
        one
        for number, name in enumerate(strips)
        for one in _draw_strip(name, number, heads, roles, found, frame, request)
    ]
    if frame.named:
        layers.append(_draw_names(heads, frame, request.theme))
    wide = frame.left + frame.side + (_measure_names(heads, frame.cell, request.theme) if frame.named else 0)
    said = (
        f"rows, columns: {len(heads)} heads by average linkage; tree: at which distance they join; squares "
        f"and dashes: {found.sentence()}"
    )
    lines = wrap(said, max(30, int(max(wide, request.width - 20) / (PLAIN * request.theme.size))))
    # A single matrix needs no heading: what explains it stands in the place of one, in its own size.
    look: dict[str, Any] = {
        "fontWeight": "normal",
        "fontSize": request.theme.small(1),
        "color": request.theme.muted,
    }
    title = alt.TitleParams(place, subtitle=lines) if place else alt.TitleParams(lines, **look)
    whole = alt.layer(*layers).resolve_scale(color="independent")
    return whole.properties(width=wide, height=frame.top + frame.side, title=title)


def _lay_out(heads: Sequence[Place], strips: int, request: DrawingRequest) -> _Frame:
    """Lay out the parts; legends stand below where that leaves room for the names of heads."""
    under = _fit(heads, strips, request.width - _MARGIN, request.theme, below=True)
    if request.width < _BESIDE:
        return under
    beside = _fit(heads, strips, request.width - _MARGIN - _LEGEND, request.theme, below=False)
    return under if under.named and not beside.named else beside


def _fit(heads: Sequence[Place], strips: int, wide: float, theme: Theme, *, below: bool) -> _Frame:
    tree = float(np.clip(0.16 * wide, *_TREE))
    strip = float(np.clip(0.02 * wide, *_STRIP))
    beside = tree + strips * (strip + _AIR) + _AIR
    names = _measure_names(heads, _NAMED, theme)
    named = (wide - beside - names) / len(heads) >= _NAMED
    cell = min((wide - beside - (names if named else 0.0)) / len(heads), _WIDEST)
    return _Frame(cell, strip, tree, beside, strips * (strip + _AIR), cell * len(heads), named, below)


def _measure_names(heads: Sequence[Place], cell: float, theme: Theme) -> float:
    return 6 + 0.56 * min(max(cell, _NAMED), theme.size - 1) * max(len(name_head(head)) for head in heads)


def _find_roles(table: HeadTable | None, heads: Sequence[Place], place: str) -> list[str | None]:
    """Find the kind of role of each head; None for one without, or all where no table is given.

    Raises AttnprobeError when the table has several rows for a head, or none of these heads.
    """
    if table is None:
        return [None] * len(heads)
    kinds = [format_cell(cell) for cell in read_cells(table, "attention")]
    rows = zip(kinds, *(read_cells(table, name) for name in (_LAYER, "head", _ROLE)), strict=True)
    known: dict[Place, str] = {}
    for kind, layer, head, role in rows:
        if kind and place and kind not in place:
            continue
        if (layer, head) in known:
            raise AttnprobeError(
                "the table of roles has several rows for one head; give the roles of one model"
            )
        known[layer, head] = find_role_kind(format_cell(role))
    if not known.keys() & set(heads):
        raise AttnprobeError("the table of roles is about none of these heads; give the roles of this model")
    return [known.get(head) for head in heads]


def _place(frame: _Frame) -> tuple[Any, Any]:
    """Make the scales of pixels."""
    wide, high = frame.left + frame.side, frame.top + frame.side
    x = alt.Scale(domain=[0, wide], range=[0, wide], nice=False, zero=False)
    y = alt.Scale(domain=[0, high], range=[0, high], nice=False, zero=False)
    return x, y


def _chart(data: list[Record], frame: _Frame) -> Any:
    x, y = _place(frame)
    return alt.Chart(alt.InlineData(values=data)).encode(
        x=alt.X("x:Q", axis=None, scale=x), y=alt.Y("y:Q", axis=None, scale=y)
    )


def _draw_cells(matrix: NDArray[np.float64], heads: Sequence[Place], frame: _Frame, name: str) -> list[Any]:
    """Draw the distances as an image, with the legend of their colours; and a mark a pair, with a tooltip."""
    scale = fit_scale([(matrix.ravel().tolist(), [None] * matrix.size)], effect=False)
    titled = wrap(clean(name), 36 if frame.below else 18, max_lines=3, placeholder=" ...")
    length = int(min(160, frame.side)) if frame.below else 90
    if name.startswith(_JENSEN_SHANNON):
        titled.append(f"largest possible: {math.sqrt(math.log(2)):.2f}")
    look = {"gradientLength": length, "values": scale.ends, "format": ".3~g", **_put(frame)}
    colours = alt.Scale(domain=[scale.low, scale.high], range=list(SEQUENTIAL), interpolate="rgb", clamp=True)
    colour = alt.Color("distance:Q", scale=colours, legend=alt.Legend(title=titled, **look))
    dot = _chart([{"x": frame.left, "y": frame.top, "distance": 0.0}], frame)
    url = _encode_png(_paint(matrix, scale.high, math.ceil(_FINE * frame.cell)))
    image = dot.mark_image(
        url=url, width=frame.side, height=frame.side, aspect=False, align="left", baseline="top"
    )
    if len(heads) > _MARKED:
        return [image, dot.mark_point(opacity=0, size=1).encode(color=colour)]
    data: list[Record] = [
        {"x": frame.left + frame.row(column), "x2": frame.left + frame.row(column + 1),
         "y": frame.top + frame.row(row), "y2": frame.top + frame.row(row + 1), "distance": distance,
         "one": name_head(heads[row]), "other": name_head(heads[column])}
        for row, line in enumerate(matrix.tolist())
        for column, distance in enumerate(line)
    ]  # fmt: skip
    tooltip = make_tooltip({"one:N": "head", "other:N": "other head", "distance:Q": "distance"})
    cells = _chart(data, frame).mark_rect(opacity=0, aria=False)
    return [image, cells.encode(x2="x2:Q", y2="y2:Q", color=colour, tooltip=tooltip)]


def _put(frame: _Frame) -> dict[str, Any]:
    return {"orient": "bottom", "direction": "horizontal"} if frame.below else {}


def _paint(matrix: NDArray[np.float64], high: float, times: int) -> NDArray[np.uint8]:
    """Paint a matrix as an image (height, width, 3), each cell so many pixels wide."""
    levels = [bytes.fromhex(mix_colours(SEQUENTIAL, level / 255)[1:]) for level in range(256)]
    ramp = np.array([list(level) for level in levels], np.uint8)
    pixels = ramp[np.rint(np.clip(matrix / high, 0, 1) * 255).astype(int)]
    return pixels.repeat(times, 0).repeat(times, 1)


def _encode_png(pixels: NDArray[np.uint8]) -> str:
    """Write an image (height, width, 3) as the data URL of a png."""
    high, wide, _ = pixels.shape
    # Rows begin with the number of their filter: 2 is the difference from the row above, which is mostly 0.
    rows = pixels.reshape(high, -1)
    above = np.concatenate([np.zeros_like(rows[:1]), rows[:-1]])
    lines = np.concatenate([np.full((high, 1), 2, np.uint8), rows - above], axis=1)

    def pack(name: bytes, content: bytes) -> bytes:
        return (
            struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))
        )

    header = struct.pack(">IIBBBBB", wide, high, 8, 2, 0, 0, 0)
    parts = ((b"IHDR", header), (b"IDAT", zlib.compress(lines.tobytes(), 9)), (b"IEND", b""))
    content = b"\x89PNG\r\n\x1a\n" + b"".join(pack(*part) for part in parts)
    return f"data:image/png;base64,{base64.b64encode(content).decode('ascii')}"


def _draw_tree(found: Clusters, frame: _Frame, theme: Theme) -> list[Any]:
    """Draw the tree, the distance at which two groups join from 0 on the right to the last, and its cut."""
    from scipy.cluster.hierarchy import dendrogram

    # scipy draws leaves at 5, 15, 25, ...
    tree = dendrogram(found.joined, no_plot=True)
    top = float(found.joined[-1, 2]) or 1.0
    data: list[Record] = [
        {"link": link, "step": step, "x": frame.tree * (1 - height / top),
         "y": frame.top + frame.row(row / 10)}
        for link, (rows, heights) in enumerate(zip(tree["icoord"], tree["dcoord"], strict=True))
        for step, (row, height) in enumerate(zip(rows, heights, strict=True))
    ]  # fmt: skip
    lines = _chart(data, frame).mark_line(
        strokeWidth=0.8 if frame.cell > 2 else 0.4, strokeJoin="miter", color=theme.ink
    )
    cut = frame.tree * (1 - found.height / top)
    rule = {"x": cut, "y": frame.top, "y2": frame.top + frame.side}
    dashes = _chart([rule], frame).mark_rule(color=FRAME, strokeDash=[3, 2]).encode(y2="y2:Q")
    size = theme.small(3)
    value = f"{found.height:.3g}"
    room = 0.3 * size * len(value)  # half of how wide it is
    at = {"x": min(max(cut, room), frame.tree - room), "y": frame.top - 2, "value": value}
    label = _chart([at], frame).mark_text(baseline="bottom", fontSize=size, color=theme.ink)
    below = frame.top + frame.side + 2
    ends = [
        _chart([{"x": x, "y": below, "value": value}], frame)
        .mark_text(align=align, baseline="top", fontSize=size, color=theme.ink)
        .encode(text="value:N")
        for x, align, value in ((0.0, "left", f"{top:.3g}"), (frame.tree, "right", "0"))
    ]
    return [lines.encode(detail="link:N", order="step:Q"), dashes, label.encode(text="value:N"), *ends]


def _draw_squares(found: Clusters, frame: _Frame) -> Any:
    """Draw a square on the diagonal for each cluster."""
    numbers = [found.numbers[leaf] for leaf in found.leaves]
    data: list[Record] = []
    for number in found.sizes:
        own = [row for row, one in enumerate(numbers) if one == number]
        start, stop = frame.row(min(own)), frame.row(max(own) + 1)
        data.append({
            "x": frame.left + start, "x2": frame.left + stop, "y": frame.top + start, "y2": frame.top + stop,
        })  # fmt: skip
    squares = _chart(data, frame).mark_rect(fill=None, stroke=FRAME, strokeWidth=1.4)
    return squares.encode(x2="x2:Q", y2="y2:Q")


def _draw_strip(
    name: str, number: int, heads: Sequence[Place], roles: Sequence[str | None], found: Clusters,
    frame: _Frame, request: DrawingRequest,
) -> list[Any]:  # fmt: skip
    """Draw a strip of layers or roles, left of the rows and above the columns."""
    theme, start = request.theme, number * (frame.strip + _AIR)
    labels = sort_labels(layer for layer, _ in heads)
    browns = dict(zip(labels, interpolate_colours(_choose_browns(theme), len(labels)), strict=True))
    data: list[Record] = []
    above: list[Record] = []  # of which nothing is read aloud: it would say all twice
    for row, ((layer, head), role) in enumerate(zip(heads, roles, strict=True)):
        cluster = found.numbers[found.leaves[row]]
        own = {"layer": layer, "head": head, "role": role or "", "cluster": str(cluster or "on its own")}
        along = frame.row(row), frame.row(row + 1)
        across = frame.tree + _AIR + start
        if name == _LAYER or role:
            letter, ground = format_cell(layer), browns[layer]
            if name == _ROLE and role:
                letter, ground = LETTERS[role], ROLE_COLOURS[role] or theme.grid
            data.append({
                **own, "x": across, "x2": across + frame.strip, "y": frame.top + along[0],
                "y2": frame.top + along[1], "letter": letter, "ground": ground,
            })  # fmt: skip
            above.append({
                **own, "x": frame.left + along[0], "x2": frame.left + along[1], "y": start,
                "y2": start + frame.strip,
            })  # fmt: skip
    lines = {"layer:O": "layer", "head:O": "head", "cluster:N": "cluster"}
    tooltip = make_tooltip({**lines, **({"role:N": "role"} if any(roles) else {})})
    if name == _LAYER:
        colour = _colour_layers(labels, frame, request)
    else:
        colour = _colour_roles(roles, frame, request)
    ends: dict[str, Any] = {"x2": "x2:Q", "y2": "y2:Q", "color": colour, "tooltip": tooltip}
    both = (
        _chart(data, frame).mark_rect().encode(**ends),
        _chart(above, frame).mark_rect(aria=False).encode(**ends),
    )
    strip = [alt.layer(*both).resolve_scale(color="shared")]
    longest = max((len(one["letter"]) for one in data), default=1)
    if frame.cell >= _NAMED and frame.strip >= max(_NAMED, _DIGIT * _NAMED * longest):
        for ink in ("#000000", "#ffffff"):
            some = [
                {**one, "x": (one["x"] + one["x2"]) / 2, "y": (one["y"] + one["y2"]) / 2}
                for one in data
                if choose_ink(one["ground"]) == ink
            ]
            if some:
                text = _chart(some, frame).mark_text(fontSize=_NAMED, color=ink, baseline="middle")
                strip.append(text.encode(text="letter:N"))
    return [*strip, _name_strip(name, start, frame, theme)]


def _name_strip(name: str, start: float, frame: _Frame, theme: Theme) -> Any:
    """Name a strip above the columns at its left end, which is above the same strip of the rows."""
    at = {"x": frame.left - _AIR, "y": start + frame.strip / 2, "name": name}
    text = _chart([at], frame).mark_text(
        align="right", baseline="middle", fontSize=theme.small(3), color=theme.ink
    )
    return text.encode(text="name:N")


def _colour_layers(labels: Sequence[Any], frame: _Frame, request: DrawingRequest) -> Any:
    """Make the channel of layers, its legend where the others are."""
    look = _put(frame)
    if look and len(labels) <= MOST_LISTED:
        look["columns"] = max(1, int((request.width - 40) / (2.8 * request.theme.size)))
    return colour_by_layer(labels, request.theme, colours=_choose_browns(request.theme), **look)


def _choose_browns(theme: Theme) -> tuple[str, str]:
    return _BROWNS_ON_DARK if theme.name == "dark" else _BROWNS


def _colour_roles(roles: Sequence[str | None], frame: _Frame, request: DrawingRequest) -> Any:
    theme = request.theme
    kinds = [kind for kind in LETTERS if kind in roles]
    names = {kind: f"{LETTERS[kind]}  {kind}" for kind in kinds}
    scale = alt.Scale(domain=kinds, range=[ROLE_COLOURS[kind] or theme.grid for kind in kinds])
    look = _put(frame)
    if look:
        longest = max(map(len, names.values()))
        look["columns"] = max(1, int((request.width - 30) / ((longest + 3) * 0.56 * theme.size)))
    said = ", ".join(f"'{kind}': '{name}'" for kind, name in names.items())
    legend = alt.Legend(title="role", symbolType="square", labelExpr=f"({{{said}}})[datum.value]", **look)
    return alt.Color("role:N", scale=scale, legend=legend)


def _draw_names(heads: Sequence[Place], frame: _Frame, theme: Theme) -> Any:
    data: list[Record] = [
        {"name": name_head(head), "x": frame.left + frame.side + 4, "y": frame.top + frame.row(row + 0.5)}
        for row, head in enumerate(heads)
    ]
    size = int(min(max(frame.cell, _NAMED), theme.size - 1))
    text = _chart(data, frame).mark_text(align="left", baseline="middle", fontSize=size, color=theme.ink)
    return text.encode(text="name:N")
