"""One point per head: by two of its numbers, or near those that attend alike."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import altair as alt
import numpy as np

from attnprobe.errors import UsageError
from attnprobe.reports.charts.channels import (
    amend,
    colour_by_layer,
    make_chart,
    make_records,
    make_tooltip,
    stack_charts,
    wrap_words,
)
from attnprobe.reports.charts.figure import Drawing, Figure
from attnprobe.reports.charts.places import place_heads
from attnprobe.reports.columns import (
    DrawingRequest,
    Record,
    is_one_quantity,
    label_by_others,
    read_cells,
    read_floats,
    read_numbers,
    sort_labels,
    title_axis,
)
from attnprobe.reports.pairs import read_distances, scale_to_plane
from attnprobe.reports.scales import read_intervals
from attnprobe.table.cells import clean
from attnprobe.table.kinds import HEAD, IN, OUT
from attnprobe.table.numbers import name_head
from attnprobe.table.table import Column, HeadTable


@dataclass(frozen=True)
class Plane:
    """Points in a plane and the axes of the plane; a map of distances has no titles."""

    data: list[Record]  # x, y, layer and head of each point; ends of its intervals (x_low, ...); its name
    ends: Sequence[Sequence[float]]
    titles: Sequence[str] = ()
    equal: bool = False  # whether both axes are the same measure, and a line shows where they are equal
    heading: str = ""
    caption: Sequence[str] = ()


@dataclass(frozen=True, kw_only=True)
class Points(Figure):
    """Points in planes, coloured by layer; those that stand out most are named."""

    read: Callable[[HeadTable, DrawingRequest], Iterator[Plane]]

    def draw(self, table: HeadTable, request: DrawingRequest) -> Drawing:
        planes = list(self.read(table, request))
        side = max(100.0, min(440, request.room - 124, request.high / len(planes) - 60))
        caption = dict.fromkeys(phrase for plane in planes for phrase in plane.caption)
        return Drawing(stack_charts([_draw_plane(plane, side, request) for plane in planes]), [*caption])


def _draw_plane(plane: Plane, side: float, request: DrawingRequest) -> Any:
    theme, axis = request.theme, alt.Axis(tickCount=5) if plane.titles else None
    scales = [alt.Scale(domain=list(ends), nice=False, zero=False) for ends in plane.ends]
    titles = [wrap_words(title, side, theme.size) for title in plane.titles] or [None, None]
    x = alt.X("x:Q", title=titles[0], scale=scales[0], axis=axis)
    y = alt.Y("y:Q", title=titles[1], scale=scales[1], axis=axis)
    colour = colour_by_layer(sort_labels(record["layer"] for record in plane.data), theme)
    told = {"panel:N": "of"} if len({record.get("panel") for record in plane.data}) > 1 else {}
    numbers = {"x:Q": "across", "x_error:Q": "error", "y:Q": "up", "y_error:Q": "error"}
    told |= {"layer:O": "layer", "head:O": "head", **(numbers if plane.titles else {})}
    base = make_chart(plane.data).encode(x=x, y=y, color=colour)
    parts = []
    if plane.equal:
        ends = make_chart([{"x": end, "y": end} for end in plane.ends[0]]).encode(x="x:Q", y="y:Q")
        parts.append(ends.mark_line(strokeDash=[4, 3], strokeWidth=1, color=theme.muted))
    for name in "xy":
        if any(record.get(f"{name}_low") is not None for record in plane.data):
            known = base.transform_filter(f"isValid(datum.{name}_low)")
            bars = known.mark_rule(strokeWidth=0.8, opacity=0.45)
            parts.append(bars.encode(**{name: f"{name}_low:Q", f"{name}2": f"{name}_high:Q"}))
    points = base.mark_point(filled=True, size=46, opacity=0.95, stroke=theme.background, strokeWidth=0.5)
    parts.append(points.encode(tooltip=make_tooltip(told)))
    named = base.transform_filter("isValid(datum.name)").encode(text="name:N", color=alt.value(theme.ink))
    parts.append(named.mark_text(align="left", dx=6, fontSize=theme.small(1)))
    chart = amend(alt.layer(*parts, view=alt.ViewConfig(stroke=theme.grid)), width=side, height=side)
    return amend(chart, title=plane.heading) if plane.heading else chart


def _name_farthest(data: Sequence[Record], distances: np.ndarray) -> None:
    """Set the ``name`` of three records, those with the largest distances; a distance of NaN gets none."""
    for row in np.argsort(-distances, kind="stable")[:3]:
        if not np.isnan(distances[row]):
            data[row]["name"] = name_head(data[row]["layer"], data[row]["head"])


def read_scatter(table: HeadTable, request: DrawingRequest) -> Iterator[Plane]:
    """Read two measures of each head, with 95 % intervals, and name the heads in which they differ most.

    Two sides of one measure are compared as they are, two measures in standard deviations.
    """
    axes = choose_axes(table, request)
    equal = _strip_side(axes[0].name) == _strip_side(axes[1].name) and axes[0].unit == axes[1].unit
    places = place_heads(table)
    panel = places.panel if places else label_by_others(table, HEAD)
    columns: dict[str, Sequence[Any]] = {"panel": panel}
    columns |= {name: read_cells(table, name) for name in HEAD}
    ends = []
    for side, column in zip("xy", axes, strict=True):
        low, high = read_intervals(table, column.name)
        columns |= {side: read_numbers(table, column.name), f"{side}_low": low, f"{side}_high": high}
        columns[f"{side}_error"] = read_numbers(table, f"{column.name}_se")
        known = [number for cells in (columns[side], low, high) for number in cells if number is not None]
        ends.append((min(known, default=0.0), max(known, default=1.0)))
    data = make_records(columns)
    points = np.array([columns["x"], columns["y"]], float)
    points[:, np.isnan(points).any(0)] = np.nan
    if equal:
        ends = [(min(low for low, _ in ends), max(high for _, high in ends))] * 2
    elif not np.isnan(points).all():
        spread = np.nanstd(points, 1, keepdims=True)
        points = (points - np.nanmean(points, 1, keepdims=True)) / np.where(spread > 0, spread, 1)
    _name_farthest(data, np.abs(points[1] - points[0]))
    bars = any(record["x_low"] is not None for record in data)
    caption = ["dashes: both are equal"] * equal + ["bars: 95 % intervals"] * bars
    titles = [title_axis(axis) for axis in axes]
    yield Plane(data, [_widen_ends(*pair) for pair in ends], titles, equal, caption=caption)


def _widen_ends(low: float, high: float) -> tuple[float, float]:
    """Widen a range by 4 % on either side; one that comes near 0 begins at 0."""
    low = 0.0 if 0 < low < 0.34 * high else low
    air = 0.04 * (high - low) or 0.5
    return low - air if low else low, high + air


def choose_axes(table: HeadTable, request: DrawingRequest) -> tuple[Column, Column]:
    """Choose both axes: two measures named, or both sides of one, or the first two; or refuse the names."""
    sides, named = find_sides(table), request.measures
    if sides and len(named) < 2:
        wanted = next(iter([*named, *sides]))
        if wanted not in sides:
            raise UsageError(f"--only {clean(wanted)}: in domain and out, there is {', '.join(sides)}")
        return sides[wanted]
    if named and len(named) != 2:
        raise UsageError("a scatter takes two measures, such as --only entropy,previous")
    columns = request.columns(table)
    x, y, *_ = columns if len(columns) > 1 else list_measures(table)
    return x, y


def find_sides(table: HeadTable) -> dict[str, tuple[Column, Column]]:
    """Map each measure that a table has both in and out of domain to the two columns, headlines first."""
    measures = sorted(list_measures(table), key=lambda column: not column.headline)
    pairs = ((column.name.removesuffix(IN), column) for column in measures)
    return {
        name: (column, table.column(f"{name}{OUT}")) for name, column in pairs if f"{name}{OUT}" in table.data
    }


def list_measures(table: HeadTable) -> list[Column]:
    return [
        column
        for column in table.columns
        if is_one_quantity(table, column)
        and not column.is_probability
        and np.isfinite(read_floats(table, column.name)).any()
    ]


def _strip_side(name: str) -> str:
    """Remove the ending that says which of two sides a column is about."""
    return next((name.removesuffix(end) for end in (IN, OUT, "_a", "_b") if name.endswith(end)), name)


def read_map(table: HeadTable, request: DrawingRequest) -> Iterator[Plane]:
    """Place heads in a plane, one per part, so that near ones attend alike (Clark et al. 2019, figure 6)."""
    for distances in read_distances(table, request):
        points, stress = scale_to_plane(distances.matrix)
        layers, heads = zip(*distances.heads, strict=True)
        x, y = points.T.tolist()
        data = make_records({"layer": layers, "head": heads, "x": x, "y": y})
        _name_farthest(data, np.hypot(*points.T))
        reach = 0.58 * float(np.ptp(points, axis=0).max()) or 1.0  # a square that holds all points
        poor = stress >= 0.2  # Kruskal (1964)
        caption = ["similar heads lie together", f"stress {stress:.2f}{', poor' if poor else ''} (Kruskal)"]
        caption += ["do not read distances off the places of heads"] if poor else []
        if distances.left_out:
            caption.append(f"{len(distances.left_out)} heads without distances left out")
        ends = [[side - reach, side + reach] for side in np.array([points.max(0), points.min(0)]).mean(0)]
        yield Plane(data, ends, heading=distances.part, caption=caption)
