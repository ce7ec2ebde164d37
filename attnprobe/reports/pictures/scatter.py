"""Heads by two numbers: in domain and out, or any two measures, with errors."""

from textwrap import wrap
from typing import Any

import altair as alt
import numpy as np

from attnprobe.errors import AttnprobeError
from attnprobe.reports.columns import (
    PLAIN,
    DrawingRequest,
    Record,
    is_one_quantity,
    is_probability,
    label_rows,
    list_keys,
    read_cells,
    read_numbers,
    sort_labels,
    title_axis,
)
from attnprobe.reports.pictures.channels import (
    colour_by_layer,
    make_records,
    make_remark,
    make_tooltip,
)
from attnprobe.reports.scales import read_spreads
from attnprobe.reports.shapes import AXES, lay_out_grid
from attnprobe.table.cells import clean
from attnprobe.table.documents import count_documents
from attnprobe.table.head_table import HeadTable
from attnprobe.table.kinds import IN, OUT
from attnprobe.table.numbers import name_head
from attnprobe.table.table import Column

#: How the names of a measure end that is there on two sides: of two datasets, two models, two halves.
_SIDES = (IN, OUT, "_a", "_b")
#: How many heads are named.
_NAMED = 3
_LARGEST = 440
#: An axis whose numbers begin within this share of their end begins at 0.
_NEAR = 0.34


def can_draw_scatter(table: HeadTable) -> bool:
    return bool(_find_sides(table)) or len(_list_measures(table)) > 1


def draw_scatter(table: HeadTable, request: DrawingRequest) -> Any:
    """Draw a point a head, with 95 % intervals where there are errors."""
    x, y = choose_axes(table, request)
    equal = _strip_side(x.name) == _strip_side(y.name) and x.unit == y.unit  # one measure on two sides
    data = _read_points(table, x, y)
    documents = np.minimum(*(count_documents(table, one.name) for one in (x, y)))
    _choose_named(data, documents, equal=equal)
    layers = sort_labels(record["layer"] for record in data)
    side = int(min(_LARGEST, request.width - 130))
    scales = _fit_scales(data, equal=equal)
    titles = _title_axes(x, y)
    tooltip = make_tooltip({
        **({"place:N": "of"} if len({record["place"] for record in data}) > 1 else {}), "layer:O": "layer",
        "head:O": "head", "x:Q": f"across: {titles[0]}", "x_error:Q": "standard error",
        "y:Q": f"up: {titles[1]}", "y_error:Q": "standard error",
    })  # fmt: skip
    grid = alt.Axis(tickCount=5)
    base = alt.Chart(alt.InlineData(values=data)).encode(
        x=alt.X("x:Q", title=_wrap(titles[0], side, request), scale=scales[0], axis=grid),
        y=alt.Y("y:Q", title=_wrap(titles[1], side, request), scale=scales[1], axis=grid),
    )
    parts = []
    if equal:
        ends = alt.InlineData(values=[{"x": end, "y": end} for end in scales[0].domain])
        line = alt.Chart(ends).mark_line(strokeDash=[4, 3], strokeWidth=1, color=request.theme.muted)
        parts.append(line.encode(x="x:Q", y="y:Q"))
    colour = colour_by_layer(layers, request.theme)
    for one, channel in (("x", alt.X), ("y", alt.Y)):
        if any(record[f"{one}_error"] is not None for record in data):
            bars = base.transform_filter(f"isValid(datum.{one}_low)").mark_rule(strokeWidth=0.8, opacity=0.45)
            ends = {one: channel(f"{one}_low:Q"), f"{one}2": f"{one}_high:Q"}
            parts.append(bars.encode(**ends, color=colour))
    points = base.mark_point(
        filled=True, size=46, opacity=0.95, stroke=request.theme.background, strokeWidth=0.5
    ).encode(color=colour, tooltip=tooltip)
    names = base.transform_filter("isValid(datum.name)").mark_text(
        align="left", dx=7, fontSize=request.theme.small(1)
    )
    parts += [points, names.encode(text="name:N")]
    marks = ["dashes: both are equal"] * equal + ["bars: 95 % intervals"] * (len(parts) > 2 + equal)
    remark = make_remark(["; ".join(marks)], request.theme, request.width)
    return alt.layer(*parts).properties(width=side, height=side, title=remark)


def _wrap(title: str, side: int, request: DrawingRequest) -> list[str]:
    return wrap(title, max(12, int(side / (PLAIN * request.theme.size))), max_lines=3, placeholder=" ...")


def _read_points(table: HeadTable, x: Column, y: Column) -> list[Record]:
    grid = lay_out_grid(table)
    labels = [name for name in list_keys(table) if name not in AXES]
    places = grid.places if grid is not None else label_rows(table, labels)
    columns: dict[str, list[Any]] = {"place": places, **{name: read_cells(table, name) for name in AXES}}
    for side, column in (("x", x), ("y", y)):
        values = read_numbers(table, column.name)
        errors = read_numbers(table, f"{column.name}_se")
        spreads = read_spreads(table, column.name)
        columns |= {side: values, f"{side}_error": errors}
        for end, sign in (("low", -1), ("high", 1)):
            columns[f"{side}_{end}"] = [
                None if value is None or spread is None else value + sign * spread
                for value, spread in zip(values, spreads, strict=True)
            ]
    return make_records(columns)


def _choose_named(data: list[Record], documents: np.ndarray, *, equal: bool) -> None:
    """Name the heads that are farthest apart: of one measure on two sides, in that; else in deviations."""
    rows = [row for row, record in enumerate(data) if record["x"] is not None and record["y"] is not None]
    known = [data[row] for row in rows]
    if not known:
        return
    points = np.array([[record["x"], record["y"]] for record in known], float)
    if not equal:
        spread = points.std(0)
        points = (points - points.mean(0)) / np.where(spread > 0, spread, 1)
    apart = np.abs(points[:, 1] - points[:, 0])
    for row in np.argsort(-apart, kind="stable")[:_NAMED]:
        known[row]["name"] = name_head(known[row]["layer"], known[row]["head"])


def _fit_scales(data: list[Record], *, equal: bool) -> list[alt.Scale]:
    ends = []
    for side in ("x", "y"):
        names = (side, f"{side}_low", f"{side}_high")
        found = [record[name] for record in data for name in names if record[name] is not None]
        ends.append((min(found, default=0.0), max(found, default=1.0)))
    if equal:
        ends = [(min(low for low, _ in ends), max(high for _, high in ends))] * 2
    ends = [(0.0 if 0 < low < _NEAR * high else low, high) for low, high in ends]
    scales = []
    for low, high in ends:
        room = 0.04 * (high - low) or 0.5
        scales.append(alt.Scale(domain=[low - room * bool(low), high + room], nice=False, zero=False))
    return scales


def choose_axes(table: HeadTable, request: DrawingRequest) -> tuple[Column, Column]:
    """Choose the measures of both axes: those that are asked for, or one on two sides, or the first two."""
    sides = _find_sides(table)
    if sides and len(request.measures) < 2:
        wanted = request.measures[0] if request.measures else next(iter(sides))
        if wanted not in sides:
            raise AttnprobeError(
                f"--measure {clean(wanted)}: in domain and out, the table has {', '.join(sides)}"
            )
        return sides[wanted]
    if request.measures and len(request.measures) != 2:
        raise AttnprobeError("a scatter takes two measures, such as --measure entropy,previous")
    columns = request.columns(table)
    if len(columns) < 2:
        columns = _list_measures(table)
    return columns[0], columns[1]


def _find_sides(table: HeadTable) -> dict[str, tuple[Column, Column]]:
    found = {}
    for column in sorted(_list_measures(table), key=lambda column: not column.headline):
        base = _strip_side(column.name)
        if column.name.endswith(IN) and f"{base}{OUT}" in table.data:
            found[base] = (column, table.column(f"{base}{OUT}"))
    return found


def _strip_side(name: str) -> str:
    return next((name.removesuffix(end) for end in _SIDES if name.endswith(end)), name)


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


def _list_measures(table: HeadTable) -> list[Column]:
    return [
        column
        for column in table.columns
        if is_one_quantity(table, column)
        and not is_probability(column)
        and any(value is not None for value in read_numbers(table, column.name))
    ]
