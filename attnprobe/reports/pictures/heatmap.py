"""Heat maps of heads: layers down, heads across, a colour a number."""

from textwrap import wrap
from typing import Any

import altair as alt
import numpy as np

from attnprobe.findings.outliers import find_outliers
from attnprobe.reports.pictures.asked import Asked, has_measures
from attnprobe.reports.pictures.grid import MANY, SIGNED, Fit, Grid, axes, fit, grid_of, records, several
from attnprobe.reports.pictures.rows import Record, axis_of, cells, heading, keys, name_of, numbers, tip
from attnprobe.reports.pictures.theme import FRAME, SEQUENTIAL, Theme
from attnprobe.reports.scales import Scale, marks_of, scales_of
from attnprobe.table.cells import written
from attnprobe.table.cleaning import clean
from attnprobe.table.head_table import HeadTable
from attnprobe.table.table import Column

#: Numbers that a legend writes out; smaller and larger ones have a power of ten.
_PLAIN = (1e-3, 1e6)
#: How many characters of a unit stand in a line above a legend.
_UNIT = 16
#: How much of its colour an effect keeps that does not differ significantly from 0.
_PALE = 0.3


def fits(table: HeadTable) -> bool:
    """Tell whether rows are heads, each there once, with a number."""
    return has_measures(table) and grid_of(table) is not None


def draw(table: HeadTable, asked: Asked) -> Any:
    """Draw a map for each measure.

    A measure whose 0 says "no effect" (a difference, a gain; anything with negative values) has two colours
    that part at 0, and a sign, + or -, in each head whose value differs significantly from 0; the others are
    pale. Of any other measure, 0 is no hypothesis; there, a frame marks outliers, as ``findings.outliers``
    says. ``reports.scales`` says where colours begin and end, and what is significant. What is undefined is
    an empty cell; a removed head has none.
    """
    return maps(table, asked, asked.columns(table))


def maps(table: HeadTable, asked: Asked, columns: list[Column]) -> Any:
    """Draw a map for each of some measures."""
    grid = grid_of(table)
    assert grid is not None  # or the table would not fit
    scales = scales_of(table, columns)
    if len(grid.maps) > MANY and (parts := _parts(table)):
        blocks = [
            _map(part, column, _known(part), fit(_known(part), 1, asked), asked, scales[column.name], name)
            for column in columns
            for name, part in parts.items()
        ]
        return alt.vconcat(*blocks).resolve_scale(color="independent")
    sizes = fit(grid, len(columns), asked)
    charts = [_map(table, column, grid, sizes, asked, scales[column.name]) for column in columns]
    if len(charts) == 1:
        return charts[0]
    return alt.concat(*charts, columns=sizes.measures).resolve_scale(color="independent")


def _known(table: HeadTable) -> Grid:
    grid = grid_of(table)
    assert grid is not None  # a part of a table of heads is one
    return grid


def _parts(table: HeadTable) -> dict[str, HeadTable]:
    """Part a table of many maps by the label that has the fewest values, so that names stay short."""
    labels = {
        name: [written(cell) for cell in cells(table, name)]
        for name in keys(table)
        if name not in {"layer", "head"}
    }
    varying = {name: values for name, values in labels.items() if len(set(values)) > 1}
    if len(varying) < 2:
        return {}
    values = min(varying.values(), key=lambda some: len(set(some)))
    found = {}
    for value in dict.fromkeys(values):
        rows = [row for row, one in enumerate(values) if one == value]
        data = {name: [column[row] for row in rows] for name, column in table.data.items()}
        found[value.replace("_", " ")] = HeadTable(table.title, table.columns, data)
    return found


def colours(scale: Scale, theme: Theme) -> alt.Scale:
    """Give the colours of a scale: one way from 0, or both."""
    ends = [scale.low, scale.high]
    if scale.is_of_effects:
        return alt.Scale(domain=ends, range=list(theme.diverging), interpolate="lab", clamp=True)
    return alt.Scale(domain=ends, range=list(SEQUENTIAL), interpolate="rgb", clamp=True)


def legend_of(column: Column, scale: Scale, values: list[float | int | None], length: int) -> Any:
    """Give the legend of a scale of colours: the unit in lines, both ends of the scale, and its middle."""
    known = {value for value in values if value is not None}
    if not known:
        return None
    ends = scale.ends if any(known) else [0.0]  # where all is 0, other numbers would promise some
    format = ".6~g" if _PLAIN[0] <= scale.high <= _PLAIN[1] else ".3~g"
    unit = wrap(clean(column.unit), _UNIT, max_lines=3, placeholder=" ...") or None
    return alt.Legend(title=unit, gradientLength=length, values=ends, format=format)


def _map(
    table: HeadTable,
    column: Column,
    grid: Grid,
    sizes: Fit,
    asked: Asked,
    scale: Scale,
    part: str = "",
) -> Any:
    """Draw one measure on a scale of colours; ``part`` names the rows."""
    values = numbers(table, column.name)
    data = records(table, grid)
    counts = numbers(table, f"{column.name}_n" if f"{column.name}_n" in table.data else "n")
    errors = numbers(table, f"{column.name}_se")
    for record, value, error, count in zip(data, values, errors, counts, strict=True):
        record |= {"value": value, "error": error, "n": count}
    remarks = _mark(table, column, data, grid, sizes.cell, effect=scale.is_of_effects)
    channels = axes(grid, sizes.cell)
    height = sizes.cell * len(grid.layers)
    legend = legend_of(column, scale, values, max(40, min(height, 140)))
    base = alt.Chart().encode(**channels)
    shown = (
        base.transform_filter("isValid(datum.value)")
        .mark_rect()
        .encode(
            color=alt.Color("value:Q", scale=colours(scale, asked.theme), legend=legend),
            tooltip=_tooltip(grid, column, data),
        )
    )
    if any(record.get("pale") for record in data):
        shown = shown.encode(fillOpacity=alt.condition("datum.pale", alt.value(_PALE), alt.value(1)))
    layers = [shown]
    if any(record["value"] is None for record in data):
        empty = base.transform_filter("!isValid(datum.value)").mark_rect(
            fill=None, stroke=asked.theme.muted, strokeWidth=0.6, strokeDash=[2, 2]
        )
        layers.append(empty.encode(tooltip=_tooltip(grid, column, data)))
    if any(record.get("sign") for record in data) and sizes.cell >= SIGNED:
        layers.append(_signs(base, scale, sizes.cell, asked.theme))
    if any(record.get("apart") for record in data):
        framed = base.transform_filter("datum.apart").mark_rect(
            fill=None, stroke=FRAME, strokeWidth=2 if sizes.cell >= 12 else 1.2
        )
        layers.append(framed)
    return several(alt.layer(*layers), grid, sizes, data, _title(column, remarks, part))


def _title(column: Column, remarks: list[str], part: str) -> Any:
    return heading(", ".join(filter(None, [name_of(column), part])), *remarks)


def _mark(
    table: HeadTable, column: Column, data: list[Record], grid: Grid, cell: int, *, effect: bool
) -> list[str]:
    """Mark heads in the data, and say by what rule; nothing where there is none."""
    if effect:
        marks = marks_of(table, column)
        for record, sign, pale in zip(data, marks.signs, marks.pale, strict=True):
            record |= {"sign": sign, "pale": pale}
        if not marks.rule:
            return []
        if not any(marks.signs):
            return [f"all pale: no head with {marks.rule}"]
        full = "+ \u2212" if cell >= SIGNED else "full colour"
        return [f"{full}: {marks.rule}, else pale"]
    any_apart = False
    for place in grid.maps:
        rows = [row for row, record in enumerate(data) if record["place"] == place]
        found = find_outliers(
            np.array([_float(data[row]["value"]) for row in rows]),
            np.array([_float(data[row]["error"]) for row in rows]),
        )
        for head in (head for one in found for head in one.heads):
            data[rows[head]]["apart"] = any_apart = True
    return ["framed: outliers (Tukey's outer fence)"] if any_apart else []


def _float(value: float | int | None) -> float:
    return float("nan") if value is None else float(value)


def _signs(base: Any, scale: Scale, cell: int, theme: Theme) -> Any:
    """Write the signs, in ink that is seen on the colour below it."""
    strong = f"abs(datum.value) > {0.45 * scale.high}"
    on_strong, on_weak = ("#000000", theme.ink) if theme.name == "dark" else ("#ffffff", theme.ink)
    return (
        base.transform_filter("datum.sign")
        .mark_text(baseline="middle", fontSize=max(8, min(cell - 3, 15)))
        .encode(
            text="sign:N",
            color=alt.condition(strong, alt.value(on_strong), alt.value(on_weak)),
        )
    )


def _tooltip(grid: Grid, column: Column, data: list[Record]) -> list[alt.Tooltip]:
    lines = [alt.Tooltip("place:N", title="of")] if len(grid.maps) > 1 else []
    lines += [alt.Tooltip("layer:O", title="layer"), alt.Tooltip("head:O", title="head")]
    lines.append(alt.Tooltip("value:Q", title=tip(axis_of(column)), format=".4~g"))
    if any(record["error"] is not None for record in data):
        lines.append(alt.Tooltip("error:Q", title="standard error", format=".2~g"))
    if any(record["n"] is not None for record in data):
        lines.append(alt.Tooltip("n:Q", title="n"))
    return lines
