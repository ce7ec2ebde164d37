"""Lines: scores while heads are removed, and a measure against depth."""

from collections import Counter
from typing import Any

import altair as alt

from attnprobe.reports.columns import (
    DrawingRequest,
    Record,
    below_heading,
    cells,
    chart_title,
    ends_of,
    has_measures,
    keys,
    label_rows,
    name_of,
    numbers,
    sort_labels,
    tip,
)
from attnprobe.reports.pictures.channels import in_panels, layer_colour, records, thin_labels, tips
from attnprobe.reports.shapes import RANDOM, SCORE
from attnprobe.table.cells import format_cell
from attnprobe.table.cleaning import clean
from attnprobe.table.head_table import HeadTable
from attnprobe.table.kinds import PRUNING_STEP, STEP
from attnprobe.table.table import Cell, Column

_CURVE = ("criterion", "seed", "share_removed")
_LARGEST = 460


def can_draw_curves(table: HeadTable) -> bool:
    """Tell whether there is a score where a share of the heads is removed."""
    return "share_removed" in keys(table) and any(value is not None for value in numbers(table, SCORE))


def draw_curves(table: HeadTable, request: DrawingRequest) -> Any:
    """Draw a line for each criterion with its 95 % interval, and random orders as thin lines in a band.

    The band goes from the lowest to the highest of the random orders. Models or datasets stand beside each
    other. Of a training run, a line is a checkpoint, coloured by its step.
    """
    column = request.columns(table, 1)[0] if request.measures else table.column(SCORE)
    data = _records(table, column.name)
    trained = PRUNING_STEP in table.data
    panels = list(dict.fromkeys(record["panel"] for record in data))
    across = max(1, min(len(panels), request.width // 230))
    legend = 110
    width = int(min(_LARGEST, (request.width - legend) / across - 50))
    metric = {format_cell(cell) for cell in cells(table, "metric")}
    name = metric.pop() if len(metric) == 1 and column.name == SCORE else clean(column.name)
    name = (name or column.name).replace("_", " ")
    # No unit repeats its own name: an accuracy in shares, a cosine in cosines.
    unit = clean(column.unit)
    y_title = f"{name} ({unit})" if unit and unit != name else name
    x = alt.X("removed:Q", title="heads removed", axis=alt.Axis(format="%", tickCount=5))
    y = alt.Y("value:Q", title=y_title, scale=alt.Scale(zero=False))
    base = alt.Chart().encode(x=x)
    tooltip = tips({
        "criterion:N": "criterion", **({"step:O": "training step"} if trained else {}), "seed:N": "seed",
        "heads:Q": "heads removed", "removed:Q": "share removed", "value:Q": y_title,
        "error:Q": "standard error",
    })  # fmt: skip
    drawn = (_draw_checkpoints if trained else _draw_criteria)(base, y, y_title, unit, data, tooltip, request)
    said = _remark(data, trained=trained, request=request)
    chart = alt.layer(*drawn).properties(width=width, height=int(width * 0.68))
    return in_panels(chart, data, panels, across, width).properties(**said)


def _remark(data: list[Record], *, trained: bool, request: DrawingRequest) -> dict[str, Any]:
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
    look: dict[str, Any] = {"fontWeight": "normal", "fontSize": request.theme.size - 1}
    return {"title": alt.TitleParams(said, color=request.theme.muted, **look)}


def _records(table: HeadTable, name: str) -> list[Record]:
    apart = [
        key
        for key in keys(table)
        if key not in {*_CURVE, STEP, PRUNING_STEP, "model" if PRUNING_STEP in table.data else ""}
    ]
    columns = {
        "panel": label_rows(table, apart),
        "criterion": [format_cell(cell) for cell in cells(table, "criterion")],
        "seed": [format_cell(cell) for cell in cells(table, "seed")],
        "removed": numbers(table, "share_removed"),
        "heads": numbers(table, "heads_removed"),
        "value": numbers(table, name),
        "error": numbers(table, f"{name}_se"),
        "step": cells(table, STEP),
    }
    return records(columns)


def _draw_criteria(
    base: Any, y: Any, title: str, unit: str, data: list[Record], tooltip: list[Any], request: DrawingRequest
) -> list[Any]:
    criteria = [name for name in dict.fromkeys(record["criterion"] for record in data) if name != RANDOM]
    has_random = any(record["criterion"] == RANDOM for record in data)
    names = [*criteria, *([RANDOM] if has_random else [])]
    palette = [
        request.theme.muted if name == RANDOM else request.theme.categories[i % len(request.theme.categories)]
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
            random.mark_area(opacity=0.16, color=request.theme.muted, line=False).encode(
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


def _draw_checkpoints(
    base: Any, y: Any, title: str, unit: str, data: list[Record], tooltip: list[Any], request: DrawingRequest
) -> list[Any]:
    steps: list[Cell] = sort_labels(record["step"] for record in data)
    colour = layer_colour(steps, request.theme, field="step")
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


_LAYER = "layer"
#: Columns that say what was measured, where and by what.
_KEYS = {
    *(_LAYER, "head", "model", "model_b", "dataset", "attention", "objective", "method", "metric", "table")
}


def can_draw_depth(table: HeadTable) -> bool:
    """Tell whether each layer or head is there once, told apart by nothing but what was measured."""
    rows = set(zip(*(cells(table, name) for name in keys(table)), strict=True))
    return set(keys(table)) <= _KEYS and has_measures(table) and len(rows) == len(table)


def draw_depth(table: HeadTable, request: DrawingRequest) -> Any:
    """Draw a measure layer by layer, with 95 % intervals; of heads, the line is the mean of the layer."""
    columns = request.columns(table, 4)
    across = min(len(columns), max(1, request.width // 330))
    charts = [_depth_chart(table, column, request, across) for column in columns]
    return charts[0] if len(charts) == 1 else alt.concat(*charts, columns=across)


def _depth_chart(table: HeadTable, column: Column, request: DrawingRequest, across: int) -> Any:
    of_heads = "head" in keys(table)
    places = label_rows(table, [name for name in keys(table) if name not in {_LAYER, "head"}])
    columns = {
        "place": places,
        "layer": cells(table, _LAYER),
        "head": cells(table, "head"),
        "value": numbers(table, column.name),
        "error": numbers(table, f"{column.name}_se"),
    }
    data = records(columns)
    labels, layers = list(dict.fromkeys(places)), sort_labels(columns["layer"])
    legend = 120 if len(labels) > 1 else 0
    width = int(min(420, (request.width - legend) / across - 70))
    palette = (
        [request.theme.categories[i % len(request.theme.categories)] for i in range(len(labels))]
        if len(labels) > 1
        else [request.theme.ink]
    )
    colour = alt.Color(
        "place:N", scale=alt.Scale(domain=labels, range=palette),
        legend=alt.Legend(title=None, symbolType="circle") if len(labels) > 1 else None,
    )  # fmt: skip
    zero = alt.Scale(zero=min((v for v in columns["value"] if v is not None), default=0) >= 0)
    y = alt.Y("value:Q", title=below_heading(column), scale=zero, axis=alt.Axis(tickCount=5))
    base = alt.Chart(alt.InlineData(values=data)).encode(
        x=alt.X(
            "layer:O",
            title="layer",
            axis=alt.Axis(labelAngle=0, values=thin_labels(layers, width / len(layers))),
        ),
        color=colour,
    )
    bars = base.transform_filter("isValid(datum.error) && isValid(datum.value)").transform_calculate(
        **ends_of(columns["value"], column.unit)
    )
    tooltip = tips({
        **({"place:N": "of"} if len(labels) > 1 else {}), "layer:O": "layer",
        **({"head:O": "head"} if of_heads else {}), "value:Q": tip(name_of(column)),
        "error:Q": "standard error",
    })  # fmt: skip
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
        width=width, height=int(width * 0.62), title=chart_title(name_of(column), said)
    )
