"""A point a head: by two of its numbers, or near those that attend alike."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import altair as alt
import numpy as np

from attnprobe.errors import AttnprobeError
from attnprobe.reports.charts.figure import Drawing, Figure
from attnprobe.reports.charts.marks import (
    amend,
    colour_by_layer,
    make_chart,
    make_records,
    make_tooltip,
    stack_charts,
    wrap_words,
)
from attnprobe.reports.charts.places import AXES, place_heads
from attnprobe.reports.columns import (
    DrawingRequest,
    Record,
    is_one_quantity,
    label_rows,
    list_keys,
    read_cells,
    read_numbers,
    sort_labels,
    title_axis,
)
from attnprobe.reports.pairs import compute_distances, find_pairs, scale_to_plane
from attnprobe.reports.scales import read_spreads
from attnprobe.table.cells import clean
from attnprobe.table.kinds import IN, OUT
from attnprobe.table.numbers import name_head
from attnprobe.table.table import Column, HeadTable

#: How many heads are named.
_NAMED = 3
#: Pixels of what stands beside a plane.
_BESIDE = 110


@dataclass(frozen=True)
class Plane:
    """Points in a plane, with what its sides are; without titles, they are nothing but distances."""

    data: list[Record]  # x and y, layer and head, maybe with their ends (x_low, ...) and a name
    ends: Sequence[Sequence[float]]
    titles: Sequence[str] = ()
    equal: bool = False  # whether both sides are one measure, so that a line is drawn where they are equal
    heading: str = ""
    caption: Sequence[str] = ()


@dataclass(frozen=True, kw_only=True)
class Points(Figure):
    """Points in planes, coloured by layer; those that stand out most are named."""

    read: Callable[[HeadTable, DrawingRequest], list[Plane]]

    def draw(self, table: HeadTable, request: DrawingRequest) -> Drawing:
        planes = self.read(table, request)
        side = min(440, request.room - _BESIDE, request.high / len(planes) - 60)
        charts = [_draw_plane(plane, max(100.0, side), request) for plane in planes]
        caption = [phrase for plane in planes for phrase in plane.caption]
        return Drawing(stack_charts(charts), [*self.caption, *dict.fromkeys(caption)], side + _BESIDE)


def _draw_plane(plane: Plane, side: float, request: DrawingRequest) -> Any:
    theme, axis = request.theme, alt.Axis(tickCount=5) if plane.titles else None
    scales = [alt.Scale(domain=list(ends), nice=False, zero=False) for ends in plane.ends]
    titles = [wrap_words(title, side, theme.size) for title in plane.titles] or [None, None]
    x = alt.X("x:Q", title=titles[0], scale=scales[0], axis=axis)
    y = alt.Y("y:Q", title=titles[1], scale=scales[1], axis=axis)
    colour = colour_by_layer(sort_labels(record["layer"] for record in plane.data), theme)
    several = {"panel:N": "of"} if len({record.get("panel") for record in plane.data}) > 1 else {}
    numbers = {"x:Q": "across", "x_error:Q": "error", "y:Q": "up", "y_error:Q": "error"}
    tooltip = make_tooltip(
        {
            **several,
            "layer:O": "layer",
            "head:O": "head",
            **(numbers if plane.titles else {}),
        }
    )
    base = make_chart(plane.data).encode(x=x, y=y, color=colour)
    parts = []
    if plane.equal:
        ends = make_chart([{"x": end, "y": end} for end in plane.ends[0]])
        line = ends.mark_line(strokeDash=[4, 3], strokeWidth=1, color=theme.muted)
        parts.append(line.encode(x="x:Q", y="y:Q"))
    for name, low, high in (
        ("x", alt.X("x_low:Q"), alt.X2("x_high:Q")),
        ("y", alt.Y("y_low:Q"), alt.Y2("y_high:Q")),
    ):
        if any(record.get(f"{name}_low") is not None for record in plane.data):
            bars = base.transform_filter(f"isValid(datum.{name}_low)").mark_rule(
                strokeWidth=0.8, opacity=0.45
            )
            parts.append(bars.encode(**{name: low, f"{name}2": high}))
    look: dict[str, Any] = {"stroke": theme.background, "strokeWidth": 0.5}
    parts.append(base.mark_point(filled=True, size=46, opacity=0.95, **look).encode(tooltip=tooltip))
    names = base.transform_filter("isValid(datum.name)").mark_text(
        align="left", dx=6, fontSize=theme.small(1)
    )
    parts.append(names.encode(text="name:N", color=alt.value(theme.ink)))
    named = {"title": plane.heading} if plane.heading else {}
    return amend(alt.layer(*parts, view=alt.ViewConfig(stroke=theme.grid)), width=side, height=side, **named)


def read_scatter(table: HeadTable, request: DrawingRequest) -> list[Plane]:
    """Read two measures of each head, with 95 % intervals; those that differ most are named.

    Of one measure on two sides, that is by how much; else in standard deviations.
    """
    x, y = choose_axes(table, request)
    equal = _strip_side(x.name) == _strip_side(y.name) and x.unit == y.unit
    places = place_heads(table)
    others = [name for name in list_keys(table) if name not in AXES]
    columns: dict[str, Sequence[Any]] = {"panel": places.panel if places else label_rows(table, others)}
    columns |= {name: read_cells(table, name) for name in AXES}
    for side, column in (("x", x), ("y", y)):
        values, spreads = read_numbers(table, column.name), read_spreads(table, column.name)
        columns |= {side: values, f"{side}_error": read_numbers(table, f"{column.name}_se")}
        for end, sign in (("low", -1), ("high", 1)):
            columns[f"{side}_{end}"] = [
                None if value is None or spread is None else value + sign * spread
                for value, spread in zip(values, spreads, strict=True)
            ]
    data = make_records(columns)
    known = [record for record in data if record["x"] is not None and record["y"] is not None]
    _name_farthest(known, equal=equal)
    marks = ["dashes: both are equal"] * equal
    marks += ["bars: 95 % intervals"] * any(record["x_low"] is not None for record in data)
    return [Plane(data, _fit_ends(data, equal=equal), _title_axes(x, y), equal, caption=marks)]


def _name_farthest(known: Sequence[Record], *, equal: bool) -> None:
    if not known:
        return
    points = np.array([[record["x"], record["y"]] for record in known], float)
    if not equal:
        spread = points.std(0)
        points = (points - points.mean(0)) / np.where(spread > 0, spread, 1)
    for row in np.argsort(-np.abs(points[:, 1] - points[:, 0]), kind="stable")[:_NAMED]:
        known[row]["name"] = name_head(known[row]["layer"], known[row]["head"])


def _fit_ends(data: Sequence[Record], *, equal: bool) -> list[list[float]]:
    ends = []
    for side in ("x", "y"):
        names = (side, f"{side}_low", f"{side}_high")
        known = [record[name] for record in data for name in names if record[name] is not None]
        ends.append((min(known, default=0.0), max(known, default=1.0)))
    if equal:
        ends = [(min(low for low, _ in ends), max(high for _, high in ends))] * 2
    ends = [(0.0 if 0 < low < 0.34 * high else low, high) for low, high in ends]
    rooms = [0.04 * (high - low) or 0.5 for low, high in ends]
    return [[low - room * bool(low), high + room] for (low, high), room in zip(ends, rooms, strict=True)]


def choose_axes(table: HeadTable, request: DrawingRequest) -> tuple[Column, Column]:
    """Choose the measures of both axes: those that are asked for, or one on two sides, or the first two."""
    sides = find_sides(table)
    if sides and len(request.measures) < 2:
        wanted = request.measures[0] if request.measures else next(iter(sides))
        if wanted not in sides:
            raise AttnprobeError(
                f"--only {clean(wanted)}: in domain and out, the table has {', '.join(sides)}"
            )
        return sides[wanted]
    if request.measures and len(request.measures) != 2:
        raise AttnprobeError("a scatter takes two measures, such as --only entropy,previous")
    columns = request.columns(table)
    if len(columns) < 2:
        columns = list_measures(table)
    return columns[0], columns[1]


def find_sides(table: HeadTable) -> dict[str, tuple[Column, Column]]:
    """Find the measures that are there in domain and out."""
    sides = {}
    for column in sorted(list_measures(table), key=lambda column: not column.headline):
        base = _strip_side(column.name)
        if column.name.endswith(IN) and f"{base}{OUT}" in table.data:
            sides[base] = (column, table.column(f"{base}{OUT}"))
    return sides


def list_measures(table: HeadTable) -> list[Column]:
    return [
        column
        for column in table.columns
        if is_one_quantity(table, column)
        and not column.is_probability
        and any(value is not None for value in read_numbers(table, column.name))
    ]


def _strip_side(name: str) -> str:
    return next((name.removesuffix(end) for end in (IN, OUT, "_a", "_b") if name.endswith(end)), name)


def _title_axes(x: Column, y: Column) -> tuple[str, str]:
    if clean(x.title) != clean(y.title):
        return title_axis(x), title_axis(y)
    return _title_side(x, IN), _title_side(y, OUT)


def _title_side(column: Column, side: str) -> str:
    if not column.name.endswith(side) or (column.title and not column.unit):
        return title_axis(column)
    domain = "in domain" if side == IN else "out of domain"
    unit = f" ({clean(column.unit)})" if column.unit else ""
    name = clean(column.title) or clean(column.name.removesuffix(side)).replace("_", " ")
    return f"{name}{unit}, {domain}"


def read_map(table: HeadTable, request: DrawingRequest) -> list[Plane]:
    """Place heads in the plane so that near ones attend alike (Clark et al. 2019, figure 6)."""
    pairs = find_pairs(table)
    assert pairs is not None  # or the table would not fit
    return [_read_plane(table, place, pairs.rows(place), request) for place in pairs.maps]


def _read_plane(table: HeadTable, place: str, rows: list[int], request: DrawingRequest) -> Plane:
    pairs = find_pairs(table)
    assert pairs is not None
    distances = compute_distances(table, rows, pairs, request)
    flat = scale_to_plane(distances.matrix)
    data: list[Record] = [
        {"layer": layer, "head": head, "x": float(x), "y": float(y)}
        for (layer, head), (x, y) in zip(distances.heads, flat.points, strict=True)
    ]
    for row in np.argsort(-np.hypot(*flat.points.T), kind="stable")[:_NAMED]:
        data[row]["name"] = name_head(*distances.heads[row])
    middle = (flat.points.max(0) + flat.points.min(0)) / 2
    reach = 0.58 * float(np.ptp(flat.points, axis=0).max()) or 1.0  # a square that holds all points
    poor = flat.stress >= 0.2  # Kruskal (1964)
    caption = ["similar heads lie together", f"stress {flat.stress:.2f}{', poor' if poor else ''} (Kruskal)"]
    if poor:
        caption.append("do not read distances off the places of heads")
    if distances.left_out:
        heads = ", ".join(name_head(*head) for head in distances.left_out[:4])
        caption.append(f"without {heads}: no distance")
    return Plane(data, [[m - reach, m + reach] for m in middle.tolist()], heading=place, caption=caption)
