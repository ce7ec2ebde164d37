"""A measure against depth: a point a layer, or a point a head at its layer."""

from typing import Any

import altair as alt

from attnprobe.reports.pictures.asked import Asked, has_measures
from attnprobe.reports.pictures.grid import thinned
from attnprobe.reports.pictures.rows import (
    Record,
    below_heading,
    cells,
    ends_of,
    heading,
    keys,
    labelled,
    name_of,
    numbers,
    ordered,
    tip,
)
from attnprobe.table.head_table import HeadTable
from attnprobe.table.table import Column

_LAYER = "layer"


def is_natural(table: HeadTable) -> bool:
    """Tell whether rows are layers."""
    return fits(table) and "head" not in keys(table)


def fits(table: HeadTable) -> bool:
    """Tell whether rows are layers, or heads, each there once."""
    names = keys(table)
    rows = list(zip(*(cells(table, name) for name in names), strict=True))
    known = {
        _LAYER,
        "head",
        "model",
        "model_b",
        "dataset",
        "attention",
        "objective",
        "method",
        "metric",
        "table",
    }
    return (
        _LAYER in names
        and set(names) <= known
        and has_measures(table)
        and len(set(rows)) == len(rows)
        and len(table) > 0
    )


def draw(table: HeadTable, asked: Asked) -> Any:
    """Draw a measure layer by layer, with 95 % intervals; of heads, the line is the mean of the layer."""
    columns = asked.columns(table, 4)
    across = min(len(columns), max(1, asked.width // 330))
    charts = [_one(table, column, asked, across) for column in columns]
    return charts[0] if len(charts) == 1 else alt.concat(*charts, columns=across)


def _one(table: HeadTable, column: Column, asked: Asked, across: int) -> Any:
    of_heads = "head" in keys(table)
    places = labelled(table, [name for name in keys(table) if name not in {_LAYER, "head"}])
    columns = {
        "place": places,
        "layer": cells(table, _LAYER),
        "head": cells(table, "head"),
        "value": numbers(table, column.name),
        "error": numbers(table, f"{column.name}_se"),
    }
    data: list[Record] = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    labels, layers = list(dict.fromkeys(places)), ordered(columns["layer"])
    legend = 120 if len(labels) > 1 else 0
    width = int(min(420, (asked.width - legend) / across - 70))
    palette = (
        [asked.theme.categories[i % len(asked.theme.categories)] for i in range(len(labels))]
        if len(labels) > 1
        else [asked.theme.ink]
    )
    colour = alt.Color(
        "place:N", scale=alt.Scale(domain=labels, range=palette),
        legend=alt.Legend(title=None, symbolType="circle") if len(labels) > 1 else None,
    )  # fmt: skip
    zero = alt.Scale(zero=min((v for v in columns["value"] if v is not None), default=0) >= 0)
    y = alt.Y("value:Q", title=below_heading(column), scale=zero, axis=alt.Axis(tickCount=5))
    base = alt.Chart(alt.InlineData(values=data)).encode(
        x=alt.X(
            "layer:O", title="layer", axis=alt.Axis(labelAngle=0, values=thinned(layers, width / len(layers)))
        ),
        color=colour,
    )
    bars = base.transform_filter("isValid(datum.error) && isValid(datum.value)").transform_calculate(
        **ends_of(columns["value"], column.unit)
    )
    tooltip = [
        *([alt.Tooltip("place:N", title="of")] if len(labels) > 1 else []),
        alt.Tooltip("layer:O", title="layer"),
        *([alt.Tooltip("head:O", title="head")] if of_heads else []),
        alt.Tooltip("value:Q", title=tip(name_of(column)), format=".4~g"),
        alt.Tooltip("error:Q", title="standard error", format=".2~g"),
    ]
    line = alt.Y("mean(value):Q", title=below_heading(column), scale=zero) if of_heads else y
    parts = [
        bars.mark_rule(strokeWidth=1, opacity=0.4 if of_heads else 1).encode(
            y=alt.Y("low:Q", title=below_heading(column), scale=zero), y2="high:Q"
        ),
        base.mark_line(strokeWidth=1.4).encode(y=line),
        base.mark_point(filled=True, size=24 if of_heads else 44, opacity=0.6 if of_heads else 1).encode(
            y=y, tooltip=tooltip
        ),
    ]
    said = "dots: heads; line: their mean" if of_heads else ""
    return alt.layer(*parts).properties(
        width=width, height=int(width * 0.62), title=heading(name_of(column), said)
    )
