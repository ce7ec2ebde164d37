"""Heads that attend alike: on a map, near one another (Clark et al. 2019, figure 6)."""

from typing import Any

import altair as alt
import numpy as np

from attnprobe.reports.columns import (
    DrawingRequest,
    Record,
    make_title,
    sort_labels,
)
from attnprobe.reports.pairs import (
    SQUARED,
    Pairs,
    compute_distances,
    find_pairs,
    scale_to_plane,
)
from attnprobe.reports.pictures.channels import (
    colour_by_layer,
    make_tooltip,
)
from attnprobe.table.head_table import HeadTable
from attnprobe.table.numbers import format_number, name_head

#: A stress that is poor (Kruskal 1964).
_POOR = 0.2
#: So many heads of a map are named: those farthest from its middle.
_NAMED = 3
#: Room around the points, as a share of their extent.
_ROOM = 0.08


def can_draw_map(table: HeadTable) -> bool:
    pairs = find_pairs(table) if SQUARED in table.data else None
    return pairs is not None and not pairs.within


def draw_map(table: HeadTable, request: DrawingRequest) -> Any:
    """Draw a map for all pairs."""
    pairs = find_pairs(table)
    assert pairs is not None  # or the table would not fit
    rows = [_draw_part(table, pairs, place, request) for place in pairs.maps]
    return rows[0] if len(rows) == 1 else alt.vconcat(*rows)


def _draw_part(table: HeadTable, pairs: Pairs, place: str, request: DrawingRequest) -> Any:
    rows = pairs.rows(place)
    found = compute_distances(table, rows, pairs, request)
    side = int(min(420, max(140, request.width - 90)))
    flat = scale_to_plane(found.matrix)
    data: list[Record] = [
        {"layer": head[0], "head": head[1], "name": name_head(*head), "x": float(x), "y": float(y)}
        for head, (x, y) in zip(found.heads, flat.points, strict=True)
    ]
    farthest = np.argsort(-np.hypot(*flat.points.T), kind="stable")[:_NAMED]
    for row, record in enumerate(data):
        record["named"] = row in farthest
    middle = (flat.points.max(0) + flat.points.min(0)) / 2
    # Half the side of a square that holds all points, with room around them.
    reach = float(np.ptp(flat.points, axis=0).max() / 2 * (1 + 2 * _ROOM)) or 1.0
    scales = [alt.Scale(domain=[float(m - reach), float(m + reach)], nice=False) for m in middle]
    poor = flat.stress >= _POOR
    stress = format_number(float(flat.stress), digits=2)
    said = [f"stress {stress}{', poor' if poor else ''} (Kruskal), {len(found.heads)} heads"]
    if poor:
        said.append("do not read distances off the places of heads")
    if found.left_out:
        said.append(f"without {', '.join(name_head(*head) for head in found.left_out[:4])}: no distance")
    base = alt.Chart(alt.InlineData(values=data)).encode(
        x=alt.X("x:Q", axis=None, scale=scales[0]), y=alt.Y("y:Q", axis=None, scale=scales[1])
    )
    theme, layers = request.theme, sort_labels(head[0] for head in found.heads)
    size, dy = (70, -9) if side > 250 else (40, -7)
    points = base.mark_point(filled=True, size=size, opacity=0.9, stroke=theme.background, strokeWidth=0.6)
    colour = colour_by_layer(layers, theme)
    tooltip = make_tooltip({"layer:O": "layer", "head:O": "head"})
    names = base.transform_filter("datum.named").mark_text(dy=dy, fontSize=theme.small(2), color=theme.ink)
    parts = [
        points.encode(color=colour, tooltip=tooltip),
        names.encode(text="name:N"),
    ]
    title = make_title(place or "similar heads lie together", *said, width=side, size=theme.size)
    frame = alt.ViewConfig(stroke=theme.grid)
    return alt.layer(*parts, view=frame).properties(width=side, height=side, title=title)
