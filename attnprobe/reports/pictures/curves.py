"""Scores while heads are removed: a line a criterion, above the band of random orders."""

from collections import Counter
from typing import Any

import altair as alt

from attnprobe.findings.dynamics import OWN_STEP, STEP
from attnprobe.reports.pictures.asked import Asked
from attnprobe.reports.pictures.layers import layer_colour
from attnprobe.reports.pictures.rows import (
    Record,
    cells,
    ends_of,
    keys,
    labelled,
    numbers,
    ordered,
)
from attnprobe.table.cells import written
from attnprobe.table.cleaning import clean
from attnprobe.table.head_table import HeadTable
from attnprobe.table.table import Cell

SCORE, RANDOM = "score", "random"
_CURVE = ("criterion", "seed", "share_removed")
_LARGEST = 460


def fits(table: HeadTable) -> bool:
    """Tell whether rows are steps of orders in which heads are removed."""
    return (
        {*_CURVE, STEP} <= set(keys(table))
        and SCORE in table.data
        and any(value is not None for value in numbers(table, SCORE))
    )


def draw(table: HeadTable, asked: Asked) -> Any:
    """Draw a line for each criterion with its 95 % interval, and random orders as thin lines in a band.

    The band goes from the lowest to the highest of the random orders. Models or datasets stand beside each
    other. Of a training run, a line is a checkpoint, coloured by its step.
    """
    column = asked.columns(table, 1)[0] if asked.measures else table.column(SCORE)
    data = _records(table, column.name)
    trained = OWN_STEP in table.data
    panels = list(dict.fromkeys(record["panel"] for record in data))
    across = max(1, min(len(panels), asked.width // 230))
    legend = 110
    width = int(min(_LARGEST, (asked.width - legend) / across - 50))
    metric = {written(cell) for cell in cells(table, "metric")}
    name = metric.pop() if len(metric) == 1 and column.name == SCORE else clean(column.name)
    name = (name or column.name).replace("_", " ")
    # No unit repeats its own name: an accuracy in shares, a cosine in cosines.
    unit = clean(column.unit)
    y_title = f"{name} ({unit})" if unit and unit != name else name
    x = alt.X("removed:Q", title="heads removed", axis=alt.Axis(format="%", tickCount=5))
    y = alt.Y("value:Q", title=y_title, scale=alt.Scale(zero=False))
    base = alt.Chart().encode(x=x)
    tooltip = [
        alt.Tooltip("criterion:N", title="criterion"),
        *([alt.Tooltip("step:O", title="training step")] if trained else []),
        alt.Tooltip("seed:N", title="seed"),
        alt.Tooltip("heads:Q", title="heads removed"),
        alt.Tooltip("removed:Q", title="share removed", format=".1%"),
        alt.Tooltip("value:Q", title=y_title, format=".4~g"),
        alt.Tooltip("error:Q", title="standard error", format=".2~g"),
    ]
    drawn = (_trained if trained else _compared)(base, y, y_title, unit, data, tooltip, asked)
    said = _said(data, trained=trained, asked=asked)
    chart = alt.layer(*drawn).properties(width=width, height=int(width * 0.68))
    if len(panels) == 1:
        return chart.properties(data=alt.InlineData(values=data), **said)
    facet = alt.Facet(
        "panel:N",
        sort=panels,
        title=None,
        header=alt.Header(title=None, labelAnchor="start", labelLimit=max(width, 80)),
    )
    return chart.facet(facet=facet, columns=across, data=alt.InlineData(values=data)).properties(**said)


def _said(data: list[Record], *, trained: bool, asked: Asked) -> dict[str, Any]:
    """Say what the band and the bars are, as a title; nothing where there are none."""
    orders = {(record["panel"], record["seed"]) for record in data if record["criterion"] == RANDOM}
    counts = set(Counter(panel for panel, _ in orders).values())
    said = []
    if orders and not trained:
        number = f"{counts.pop()} " if len(counts) == 1 else ""
        said.append(f"band: from the lowest to the highest of {number}random orders")
    if not trained and any(record["error"] is not None for record in data):
        said.append("bars: 95 % intervals")
    if not said:
        return {}
    look: dict[str, Any] = {"fontWeight": "normal", "fontSize": asked.theme.size - 1}
    return {"title": alt.TitleParams(said, color=asked.theme.muted, **look)}


def _records(table: HeadTable, name: str) -> list[Record]:
    apart = [
        key
        for key in keys(table)
        if key not in {*_CURVE, STEP, OWN_STEP, "model" if OWN_STEP in table.data else ""}
    ]
    columns = {
        "panel": labelled(table, apart),
        "criterion": [written(cell) for cell in cells(table, "criterion")],
        "seed": [written(cell) for cell in cells(table, "seed")],
        "removed": numbers(table, "share_removed"),
        "heads": numbers(table, "heads_removed"),
        "value": numbers(table, name),
        "error": numbers(table, f"{name}_se"),
        "step": cells(table, STEP),
    }
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def _compared(
    base: Any, y: Any, title: str, unit: str, data: list[Record], tooltip: list[Any], asked: Asked
) -> list[Any]:
    criteria = [name for name in dict.fromkeys(record["criterion"] for record in data) if name != RANDOM]
    has_random = any(record["criterion"] == RANDOM for record in data)
    names = [*criteria, *([RANDOM] if has_random else [])]
    palette = [
        asked.theme.muted if name == RANDOM else asked.theme.categories[i % len(asked.theme.categories)]
        for i, name in enumerate(names)
    ]
    colour = alt.Color(
        "criterion:N",
        scale=alt.Scale(domain=names, range=palette),
        legend=alt.Legend(title="order of heads", symbolType="stroke", symbolOpacity=1, symbolStrokeWidth=2),
    )
    parts = []
    if has_random:
        random = base.transform_filter(f"datum.criterion === '{RANDOM}'")
        parts += [
            random.mark_area(opacity=0.16, color=asked.theme.muted, line=False).encode(
                y=alt.Y("min(value):Q", title=title, scale=alt.Scale(zero=False)), y2="max(value):Q"
            ),
            random.mark_line(strokeWidth=0.8, opacity=0.55).encode(
                y=y, color=colour, detail="seed:N", tooltip=tooltip
            ),
        ]
    own = base.transform_filter(f"datum.criterion !== '{RANDOM}'")
    # A finite interval only: what is undefined has none.
    errors = own.transform_filter("isValid(datum.error) && isValid(datum.value)").transform_calculate(
        **ends_of([record["value"] for record in data], unit)
    )
    parts += [
        errors.mark_rule(strokeWidth=1.2).encode(y=alt.Y("low:Q", title=title), y2="high:Q", color=colour),
        own.mark_line(strokeWidth=2).encode(y=y, color=colour, detail="seed:N"),
        own.mark_point(filled=True, size=34, opacity=1).encode(y=y, color=colour, tooltip=tooltip),
    ]
    return parts


def _trained(
    base: Any, y: Any, title: str, unit: str, data: list[Record], tooltip: list[Any], asked: Asked
) -> list[Any]:
    steps: list[Cell] = ordered(record["step"] for record in data)
    colour = layer_colour(steps, asked.theme, field="step")
    parts = []
    if any(record["criterion"] == RANDOM for record in data):
        random = base.transform_filter(f"datum.criterion === '{RANDOM}'")
        parts.append(
            random.mark_line(strokeWidth=0.8, opacity=0.5, strokeDash=[3, 2]).encode(
                y=y, color=colour, detail=["step:N", "seed:N"], tooltip=tooltip
            )
        )
    own = base.transform_filter(f"datum.criterion !== '{RANDOM}'")
    parts.append(
        own.mark_line(strokeWidth=2, point=alt.OverlayMarkDef(size=24, filled=True)).encode(
            y=y, color=colour, detail=["step:N", "criterion:N"], tooltip=tooltip
        )
    )
    return parts
