"""Lines: scores while heads are removed, and a measure against depth."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import altair as alt

from attnprobe.reports.columns import (
    DrawingRequest,
    Record,
    bound_interval,
    has_measures,
    label_by_others,
    list_keys,
    make_title,
    name_measure,
    read_cells,
    read_numbers,
    read_with_errors,
    sort_labels,
    title_below_heading,
    title_tooltip,
)
from attnprobe.reports.pictures.channels import (
    colour_by_layer,
    draw_panels,
    level_titles,
    make_records,
    make_remark,
    make_tooltip,
    thin_labels,
)
from attnprobe.reports.scales import BEYOND
from attnprobe.reports.shapes import ORDER_KEYS, RANDOM, SCORE
from attnprobe.table.cells import clean, format_cell
from attnprobe.table.head_table import HeadTable
from attnprobe.table.kinds import PRUNING_STEP, STEP
from attnprobe.table.table import Column

_LARGEST = 460
#: Narrower pictures have the legend below.
_BESIDE = 400
#: Of so many steps, each has its tick; of more, round shares do.
_FEW = 6
#: Room above the largest number of an axis, as a share of it.
_ROOM = 0.06


def can_draw_curves(table: HeadTable) -> bool:
    return "share_removed" in list_keys(table) and any(
        value is not None for value in read_numbers(table, SCORE)
    )


def draw_curves(table: HeadTable, request: DrawingRequest) -> Any:
    """Draw a line for each criterion with its 95 % interval, and random orders as thin lines in a band."""
    column = request.columns(table, 1)[0] if request.measures else table.column(SCORE)
    data = _read_curves(table, column.name)
    trained = PRUNING_STEP in table.data
    panels = list(dict.fromkeys(record["panel"] for record in data))
    across = max(1, min(len(panels), request.width // 230))
    legend = 110 if trained or request.width >= _BESIDE else 0
    width = int(min(_LARGEST, (request.width - legend) / across - 50))
    metric = {format_cell(cell) for cell in read_cells(table, "metric")}
    name = metric.pop() if len(metric) == 1 and column.name == SCORE else clean(column.name)
    name = (name or column.name).replace("_", " ")
    # No unit repeats its own name: an accuracy in shares, a cosine in cosines.
    unit = clean(column.unit)
    y_title = f"{name} ({unit})" if unit and unit != name else name
    steps = sorted({record["removed"] for record in data if record["removed"] is not None})
    few = len(steps) <= _FEW
    axis = alt.Axis(format=".1~%", values=steps) if few else alt.Axis(format="%", tickCount=5)
    base = alt.Chart().encode(x=alt.X("removed:Q", title="heads removed", axis=axis))
    tooltip = make_tooltip({
        "criterion:N": "criterion", **({"step:O": "training step"} if trained else {}), "seed:N": "seed",
        "heads:Q": "heads removed", "removed:Q": "share removed", "value:Q": y_title,
        "error:Q": "standard error",
    })  # fmt: skip
    if trained:
        drawn = _draw_checkpoints(base, y_title, data, tooltip, request)
    else:
        drawn = _draw_criteria(base, y_title, unit, data, tooltip, request)
    chart = alt.layer(*drawn).properties(width=width, height=int(width * 0.68))
    whole = draw_panels(chart, data, panels, across, width)
    remarks = [] if trained else _explain_marks(data)
    return whole.properties(title=make_remark(remarks, request.theme)) if remarks else whole


def _explain_marks(data: list[Record]) -> list[str]:
    """Say what the band, the lines and the bars are; nothing where there are none."""
    orders = {(record["panel"], record["seed"]) for record in data if record["criterion"] == RANDOM}
    counts = set(Counter(panel for panel, _ in orders).values())
    said = []
    if orders:
        number = f"{counts.pop()} " if len(counts) == 1 else ""
        said += [f"grey lines: {number}random orders", "band: from the lowest to the highest of these"]
    if any(record["error"] is not None for record in data):
        said.append("bars: 95 % intervals")
    return said


def _read_curves(table: HeadTable, name: str) -> list[Record]:
    hidden = {*ORDER_KEYS, PRUNING_STEP, "model" if PRUNING_STEP in table.data else ""}
    values, errors = read_with_errors(table, name)
    return make_records({
        "panel": label_by_others(table, hidden),
        "criterion": [format_cell(cell) for cell in read_cells(table, "criterion")],
        "seed": [format_cell(cell) for cell in read_cells(table, "seed")],
        "removed": read_numbers(table, "share_removed"), "heads": read_numbers(table, "heads_removed"),
        "value": values, "error": errors,
        "step": read_cells(table, STEP),
    })  # fmt: skip


def _draw_criteria(
    base: Any, title: str, unit: str, data: list[Record], tooltip: list[Any], request: DrawingRequest
) -> list[Any]:
    theme, palette = request.theme, request.theme.categories
    names = sorted(dict.fromkeys(record["criterion"] for record in data), key=lambda name: name == RANDOM)
    hues = [theme.muted if name == RANDOM else palette[i % len(palette)] for i, name in enumerate(names)]
    below: dict[str, Any] = {} if request.width >= _BESIDE else {"orient": "bottom", "columns": 2}
    legend = alt.Legend(
        title="order of heads", symbolType="stroke", symbolOpacity=1, symbolStrokeWidth=2, **below
    )
    colour = alt.Color("criterion:N", scale=alt.Scale(domain=names, range=hues), legend=legend)
    y = alt.Y("value:Q", title=title, scale=alt.Scale(zero=False))
    parts = []
    if RANDOM in names:
        random = base.transform_filter(f"datum.criterion === '{RANDOM}'")
        low = alt.Y("min(value):Q", title=title, scale=alt.Scale(zero=False))
        band = random.mark_area(opacity=0.16, color=theme.muted, line=False, aria=False)
        lines = random.mark_line(strokeWidth=0.8, opacity=0.55)
        parts += [
            band.encode(y=low, y2="max(value):Q"),
            lines.encode(y=y, color=colour, detail="seed:N", tooltip=tooltip),
        ]
    own = base.transform_filter(f"datum.criterion !== '{RANDOM}'")
    # A finite interval only: what is undefined has none.
    errors = own.transform_filter("isValid(datum.error) && isValid(datum.value)").transform_calculate(
        **bound_interval([record["value"] for record in data], unit)
    )
    parts += [
        errors.mark_rule(strokeWidth=1.2).encode(y=alt.Y("low:Q", title=title), y2="high:Q", color=colour),
        own.mark_line(strokeWidth=2).encode(y=y, color=colour, detail="seed:N"),
        own.mark_point(filled=True, size=34, opacity=1).encode(y=y, color=colour, tooltip=tooltip),
    ]
    return parts


def _draw_checkpoints(
    base: Any, title: str, data: list[Record], tooltip: list[Any], request: DrawingRequest
) -> list[Any]:
    colour = colour_by_layer(sort_labels(record["step"] for record in data), request.theme, field="step")
    base = base.encode(y=alt.Y("value:Q", title=title, scale=alt.Scale(zero=False)), color=colour)
    parts = []
    if any(record["criterion"] == RANDOM for record in data):
        random = base.transform_filter(f"datum.criterion === '{RANDOM}'")
        lines = random.mark_line(strokeWidth=0.8, opacity=0.5, strokeDash=[3, 2])
        parts.append(lines.encode(detail=["step:N", "seed:N"], tooltip=tooltip))
    own = base.transform_filter(f"datum.criterion !== '{RANDOM}'")
    lines = own.mark_line(strokeWidth=2, point=alt.OverlayMarkDef(size=24, filled=True))
    return [*parts, lines.encode(detail=["step:N", "criterion:N"], tooltip=tooltip)]


_LAYER = "layer"
#: Columns that say what was measured, where and by what.
_KEYS = {
    *(_LAYER, "head", "model", "model_b", "dataset", "attention", "objective", "method", "metric", "table"),
    "replaced_by",
}


def can_draw_depth(table: HeadTable) -> bool:
    """Tell whether each layer or head is there once, told apart by nothing but what was measured."""
    rows = set(zip(*(read_cells(table, name) for name in list_keys(table)), strict=True))
    return set(list_keys(table)) <= _KEYS and has_measures(table) and len(rows) == len(table)


def draw_depth(table: HeadTable, request: DrawingRequest) -> Any:
    """Draw a measure layer by layer, with 95 % intervals; of heads, the line is the mean of the layer."""
    columns = request.columns(table, 4)
    across = min(len(columns), max(1, request.width // 330))
    charts = [_draw_depth_chart(table, column, request, across) for column in columns]
    titles = [chart.title for chart in charts]
    for first in range(0, len(titles), across):
        level_titles(titles[first : first + across], request.theme)
    charts = [chart.properties(title=title) for chart, title in zip(charts, titles, strict=True)]
    return charts[0] if len(charts) == 1 else alt.concat(*charts, columns=across)


def _draw_depth_chart(table: HeadTable, column: Column, request: DrawingRequest, across: int) -> Any:
    of_heads = "head" in list_keys(table)
    places = label_by_others(table, {_LAYER, "head"})
    (values, errors), every = read_with_errors(table, column.name), read_cells(table, _LAYER)
    data = make_records({
        "place": places, "layer": every, "head": read_cells(table, "head"), "value": values, "error": errors,
    })  # fmt: skip
    labels, layers, palette = list(dict.fromkeys(places)), sort_labels(every), request.theme.categories
    several = len(labels) > 1
    width = int(min(420, (request.width - 120 * several) / across - 70))  # beside a legend where there is one
    hues = [palette[i % len(palette)] for i in range(len(labels))] if several else [request.theme.ink]
    legend = alt.Legend(title=None, symbolType="circle") if several else None
    colour = alt.Color("place:N", scale=alt.Scale(domain=labels, range=hues), legend=legend)
    axis = alt.Axis(labelAngle=0, values=thin_labels(layers, width / len(layers)))
    x = alt.X("layer:O", title="layer", axis=axis)
    ends = _find_ends(values, errors, column.unit)
    look: dict[str, Any] = {"title": title_below_heading(column), "scale": alt.Scale(domain=ends, nice=False)}
    y = alt.Y("value:Q", axis=alt.Axis(tickCount=5), **look)
    base = alt.Chart(alt.InlineData(values=data)).encode(x=x, color=colour)
    known = base.transform_filter("isValid(datum.error) && isValid(datum.value)")
    bars = known.transform_calculate(**bound_interval(values, column.unit))
    tooltip = make_tooltip({
        **({"place:N": "of"} if several else {}), "layer:O": "layer",
        **({"head:O": "head"} if of_heads else {}), "value:Q": title_tooltip(name_measure(column)),
        "error:Q": "standard error",
    })  # fmt: skip
    size, opacity = (24, 0.6) if of_heads else (44, 1)
    parts = [
        bars.mark_rule(strokeWidth=1, opacity=0.4 if of_heads else 1).encode(
            y=alt.Y("low:Q", **look), y2="high:Q"
        ),
        base.mark_line(strokeWidth=1.4).encode(y=alt.Y("mean(value):Q", **look) if of_heads else y),
        base.mark_point(filled=True, size=size, opacity=opacity).encode(y=y, tooltip=tooltip),
    ]
    said = ["dots: heads; line: their mean"] * of_heads
    said += ["bars: 95 % intervals"] * any(error is not None for error in errors)
    title = make_title(name_measure(column), "; ".join(said), width=width, size=request.theme.small(1))
    return alt.layer(*parts).properties(width=width, height=int(width * 0.62), title=title)


def _find_ends(
    values: Sequence[float | int | None], errors: Sequence[float | int | None], unit: str
) -> list[float]:
    """Find the ends of an axis: 0 where nothing is below, and room above, so that no label is over it."""
    known = [
        (value - BEYOND * (error or 0), value + BEYOND * (error or 0))
        for value, error in zip(values, errors, strict=True)
        if value is not None
    ]
    shares = unit.startswith("share") and all(value is None or 0 <= value <= 1 for value in values)
    low = min((one for one, _ in known), default=0.0)
    high = max((one for _, one in known), default=1.0)
    if shares or min((value for value in values if value is not None), default=0) >= 0:
        low = 0.0
    high = min(high, 1.0) if shares else high
    room = _ROOM * ((high - low) or 1.0)
    return [low - room * bool(low), high + room]
