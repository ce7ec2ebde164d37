"""Heat maps of heads: layers down, heads across, a colour a number."""

from textwrap import wrap
from typing import Any

import altair as alt
import numpy as np

from attnprobe.findings.standing_out import standing_out
from attnprobe.reports.pictures.asked import Asked, has_measures
from attnprobe.reports.pictures.grid import MANY, SIGNED, Fit, Grid, axes, fit, grid_of, records, several
from attnprobe.reports.pictures.rows import Record, axis_of, cells, heading, keys, name_of, numbers, tip
from attnprobe.reports.pictures.theme import FRAME, SEQUENTIAL, Theme
from attnprobe.sums.significance import SIGNIFICANT
from attnprobe.table.cells import written
from attnprobe.table.cleaning import clean
from attnprobe.table.head_table import HeadTable
from attnprobe.table.table import Column

#: Half of a 95 % interval of a normal distribution, in standard errors.
BEYOND = 1.96
#: Numbers that a legend writes out; smaller and larger ones have a power of ten.
_PLAIN = (1e-3, 1e6)
#: How many characters of a unit stand in a line above a legend.
_UNIT = 16
#: Measures of which 0 says that there is no effect.
_EFFECTS = ("delta", "gain", "disagreement", "delta_random")


def fits(table: HeadTable) -> bool:
    """Tell whether rows are heads, each there once, with a number."""
    return has_measures(table) and grid_of(table) is not None


def draw(table: HeadTable, asked: Asked) -> Any:
    """Draw a map for each measure.

    A measure whose 0 says "no effect" (a difference, a gain; anything with negative values) has two colours
    that part at 0, and a sign, + or -, in each head whose value is beyond its error: with an adjusted p below
    0.05 where the table has one, or else with |value| > 1.96 standard errors. Of any other measure, 0 is no
    hypothesis; there, a frame marks heads that stand out from all others, as
    ``findings.standing_out`` says. What is undefined is an empty cell; a removed head has none.
    """
    return maps(table, asked, asked.columns(table))


def maps(table: HeadTable, asked: Asked, columns: list[Column]) -> Any:
    """Draw a map for each of some measures."""
    grid = grid_of(table)
    assert grid is not None  # or the table would not fit
    if len(grid.maps) > MANY and (parts := _parts(table)):
        blocks = [
            _map(
                part,
                column,
                _known(part),
                fit(_known(part), 1, asked),
                asked,
                numbers(table, column.name),
                name,
            )
            for column in columns
            for name, part in parts.items()
        ]
        return alt.vconcat(*blocks).resolve_scale(color="independent")
    sizes = fit(grid, len(columns), asked)
    charts = [_map(table, column, grid, sizes, asked, numbers(table, column.name)) for column in columns]
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


def is_effect(table: HeadTable, column: Column) -> bool:
    """Tell whether 0 is the middle of a measure: it says "no effect", or values lie on both sides of it."""
    return _spans_zero(column, numbers(table, column.name))


def _spans_zero(column: Column, values: list[float | int | None]) -> bool:
    if column.name in _EFFECTS or column.name.endswith(tuple(f"_{name}" for name in _EFFECTS)):
        return True
    return any(value is not None and value < 0 for value in values)


def beyond(table: HeadTable, column: Column) -> tuple[list[str], str]:
    """Say for each row whether its value is surely above 0 (+), below (-) or neither; and by what rule."""
    values = numbers(table, column.name)
    p_name = p_column(table, column.name)
    if p_name is not None:
        sure = [p is not None and p < SIGNIFICANT for p in numbers(table, p_name)]
        rule = f"adjusted p < {SIGNIFICANT}"
    else:
        errors = numbers(table, f"{column.name}_se")
        sure = [
            value is not None and error is not None and abs(value) > BEYOND * error
            for value, error in zip(values, errors, strict=True)
        ]
        rule = f"beyond {BEYOND} standard errors"
    signs = [
        "" if not certain or value is None or value == 0 else "+" if value > 0 else "\u2212"
        for value, certain in zip(values, sure, strict=True)
    ]
    return signs, rule


def p_column(table: HeadTable, name: str) -> str | None:
    """Find the adjusted p values of a difference."""
    base = name.removesuffix("_delta")
    guesses = [f"{name}_p_adjusted", f"{base}_p_adjusted", *(["p_adjusted"] if name in _EFFECTS[:2] else [])]
    return next(
        (
            guess
            for guess in guesses
            if guess in table.data and any(p is not None for p in numbers(table, guess))
        ),
        None,
    )


def colours(values: list[float | int | None], *, signed: bool, theme: Theme) -> alt.Scale:
    """Give a scale of colours: from the lowest to the highest, or as far above 0 as below."""
    known = [value for value in values if value is not None]
    if signed:
        end = max((abs(value) for value in known), default=0.0) or 1.0
        return alt.Scale(domain=[-end, end], range=list(theme.diverging), interpolate="lab")
    low, high = min(known, default=0.0), max(known, default=1.0)
    if low == high:
        low, high = low - 0.5, high + 0.5
    return alt.Scale(domain=[low, high], range=list(SEQUENTIAL), interpolate="rgb")


def legend_of(column: Column, values: list[float | int | None], length: int) -> Any:
    """Give the legend of a scale of colours: the unit in lines, and numbers that the scale has."""
    known = {value for value in values if value is not None}
    if not known:
        return None
    more: dict[str, Any] = {}
    if len(known) == 1:  # a scale around a single number would promise others
        more["values"] = list(known)
    largest = max(map(abs, known))
    if len(known) == 1 or not _PLAIN[0] <= largest <= _PLAIN[1]:
        more["format"] = ".3~g"
    unit = wrap(clean(column.unit), _UNIT, max_lines=3, placeholder=" ...") or None
    return alt.Legend(title=unit, gradientLength=length, tickCount=4, **more)


def _map(
    table: HeadTable,
    column: Column,
    grid: Grid,
    sizes: Fit,
    asked: Asked,
    scaled: list[float | int | None],
    part: str = "",
) -> Any:
    """Draw one measure; the scale of colours spans ``scaled``, and ``part`` names the rows."""
    values, signed = numbers(table, column.name), _spans_zero(column, scaled)
    data = records(table, grid)
    counts = numbers(table, f"{column.name}_n" if f"{column.name}_n" in table.data else "n")
    errors = numbers(table, f"{column.name}_se")
    for record, value, error, count in zip(data, values, errors, counts, strict=True):
        record |= {"value": value, "error": error, "n": count}
    subtitle = _mark(table, column, data, grid, signed=signed)
    channels = axes(grid, sizes.cell)
    height = sizes.cell * len(grid.layers)
    legend = legend_of(column, scaled, max(40, min(height, 140)))
    base = alt.Chart().encode(**channels)
    shown = (
        base.transform_filter("isValid(datum.value)")
        .mark_rect()
        .encode(
            color=alt.Color(
                "value:Q", scale=colours(scaled, signed=signed, theme=asked.theme), legend=legend
            ),
            tooltip=_tooltip(grid, column, data),
        )
    )
    layers = [shown]
    if any(record["value"] is None for record in data):
        empty = base.transform_filter("!isValid(datum.value)").mark_rect(
            fill=None, stroke=asked.theme.muted, strokeWidth=0.6, strokeDash=[2, 2]
        )
        layers.append(empty.encode(tooltip=_tooltip(grid, column, data)))
    if any(record.get("sign") for record in data) and sizes.cell >= SIGNED:
        layers.append(_signs(base, scaled, sizes.cell, asked.theme))
    if any(record.get("apart") for record in data):
        framed = base.transform_filter("datum.apart").mark_rect(
            fill=None, stroke=FRAME, strokeWidth=2 if sizes.cell >= 12 else 1.2
        )
        layers.append(framed)
    return several(alt.layer(*layers), grid, sizes, data, _title(column, subtitle, part))


def _title(column: Column, subtitle: str, part: str) -> Any:
    return heading(", ".join(filter(None, [name_of(column), part])), subtitle)


def _mark(table: HeadTable, column: Column, data: list[Record], grid: Grid, *, signed: bool) -> str:
    """Mark heads in the data, and say by what rule; empty where none is marked."""
    if signed:
        signs, rule = beyond(table, column)
        for record, sign in zip(data, signs, strict=True):
            record["sign"] = sign
        return f"+ \u2212: {rule}" if any(signs) else ""
    any_apart = False
    for place in grid.maps:
        rows = [row for row, record in enumerate(data) if record["place"] == place]
        found = standing_out(
            np.array([_float(data[row]["value"]) for row in rows]),
            np.array([_float(data[row]["error"]) for row in rows]),
        )
        for head in (head for one in found for head in one.heads):
            data[rows[head]]["apart"] = any_apart = True
    return "framed: heads that stand out" if any_apart else ""


def _float(value: float | int | None) -> float:
    return float("nan") if value is None else float(value)


def _signs(base: Any, values: list[float | int | None], cell: int, theme: Theme) -> Any:
    """Write the signs, in ink that is seen on the colour below it."""
    end = max(abs(value) for value in values if value is not None)
    strong = f"abs(datum.value) > {0.45 * end}"
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
