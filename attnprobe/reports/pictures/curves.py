"""Lines: scores while heads are removed, a measure against depth, and both over the steps of training."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import altair as alt
import numpy as np

from attnprobe.reports.columns import (
    DrawingRequest,
    Record,
    bound_interval,
    has_measures,
    label_rows,
    list_keys,
    make_title,
    name_measure,
    read_cells,
    read_numbers,
    sort_labels,
    title_below_heading,
    title_tooltip,
)
from attnprobe.reports.pictures.channels import (
    colour_by_layer,
    draw_panels,
    make_records,
    make_tooltip,
    thin_labels,
)
from attnprobe.reports.shapes import ORDER_KEYS, RANDOM, SCORE
from attnprobe.reports.theme import Theme
from attnprobe.table.cells import clean, format_cell
from attnprobe.table.head_table import HeadTable
from attnprobe.table.kinds import PRUNING_STEP, STEP
from attnprobe.table.table import Cell, Column

_LARGEST = 460
#: Narrower pictures have the legend below.
_BESIDE = 400


def can_draw_curves(table: HeadTable) -> bool:
    return "share_removed" in list_keys(table) and any(
        value is not None for value in read_numbers(table, SCORE)
    )


def draw_curves(table: HeadTable, request: DrawingRequest) -> Any:
    """Draw a line for each criterion with its 95 % interval, and random orders as thin lines in a band.

    The band goes from the lowest to the highest of the random orders. Models or datasets stand beside each
    other. Of a training run, a line is a checkpoint, coloured by its step.
    """
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
    axis = alt.Axis(format="%", tickCount=5)
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
    if not remarks:
        return whole
    look: dict[str, Any] = {"fontWeight": "normal", "fontSize": request.theme.small(1)}
    return whole.properties(title=alt.TitleParams(remarks, color=request.theme.muted, **look))


def _explain_marks(data: list[Record]) -> list[str]:
    """Say what the band and the bars are; nothing where there are none."""
    orders = {(record["panel"], record["seed"]) for record in data if record["criterion"] == RANDOM}
    counts = set(Counter(panel for panel, _ in orders).values())
    said = []
    if orders:
        number = f"{counts.pop()} " if len(counts) == 1 else ""
        said.append(f"band: from the lowest to the highest of {number}random orders")
    if any(record["error"] is not None for record in data):
        said.append("bars: 95 % intervals")
    return said


def _read_curves(table: HeadTable, name: str) -> list[Record]:
    hidden = {*ORDER_KEYS, PRUNING_STEP, "model" if PRUNING_STEP in table.data else ""}
    return make_records({
        "panel": label_rows(table, [key for key in list_keys(table) if key not in hidden]),
        "criterion": [format_cell(cell) for cell in read_cells(table, "criterion")],
        "seed": [format_cell(cell) for cell in read_cells(table, "seed")],
        "removed": read_numbers(table, "share_removed"), "heads": read_numbers(table, "heads_removed"),
        "value": read_numbers(table, name), "error": read_numbers(table, f"{name}_se"),
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
        band = random.mark_area(opacity=0.16, color=theme.muted, line=False)
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
    return charts[0] if len(charts) == 1 else alt.concat(*charts, columns=across)


def _draw_depth_chart(table: HeadTable, column: Column, request: DrawingRequest, across: int) -> Any:
    of_heads = "head" in list_keys(table)
    places = label_rows(table, [name for name in list_keys(table) if name not in {_LAYER, "head"}])
    values, every = read_numbers(table, column.name), read_cells(table, _LAYER)
    data = make_records({
        "place": places, "layer": every, "head": read_cells(table, "head"), "value": values,
        "error": read_numbers(table, f"{column.name}_se"),
    })  # fmt: skip
    labels, layers, palette = list(dict.fromkeys(places)), sort_labels(every), request.theme.categories
    several = len(labels) > 1
    width = int(min(420, (request.width - 120 * several) / across - 70))  # beside a legend where there is one
    hues = [palette[i % len(palette)] for i in range(len(labels))] if several else [request.theme.ink]
    legend = alt.Legend(title=None, symbolType="circle") if several else None
    colour = alt.Color("place:N", scale=alt.Scale(domain=labels, range=hues), legend=legend)
    axis = alt.Axis(labelAngle=0, values=thin_labels(layers, width / len(layers)))
    x = alt.X("layer:O", title="layer", axis=axis)
    zero = alt.Scale(zero=min((v for v in values if v is not None), default=0) >= 0)
    look: dict[str, Any] = {"title": title_below_heading(column), "scale": zero}
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
    title = make_title(name_measure(column), "dots: heads; line: their mean" if of_heads else "")
    return alt.layer(*parts).properties(width=width, height=int(width * 0.62), title=title)


#: Steps that span more than this factor are drawn on a scale of logarithms.
_WIDE = 200
#: 500, 2k, 143k; d3 itself would write all in the unit of the largest, and 500 as 1k.
_SHORT = "format(datum.value, '~s')"


def can_draw_lines(table: HeadTable) -> bool:
    """Tell whether each head or layer is there once at each step, with a number."""
    steps = read_cells(table, STEP)
    label = [name for name in list_keys(table) if name not in {"model", STEP}]
    rows = set(zip(steps, *(read_cells(table, name) for name in label), strict=True))
    return has_measures(table) and all(isinstance(step, int) for step in steps) and len(rows) == len(table)


def draw_lines(table: HeadTable, request: DrawingRequest) -> Any:
    """Draw a measure over the steps, with 95 % intervals as faint bands where there are errors."""
    charts = [_draw_lines(table, column, request) for column in request.columns(table, 3)]
    return charts[0] if len(charts) == 1 else alt.vconcat(*charts).resolve_scale(color="independent")


def make_step_axis(steps: list[Cell], width: int, theme: Theme) -> Any:
    """Make the channel of the step; of logarithms where the steps span several powers of ten.

    Ticks stand at steps that there are, as many as find room for their labels.
    """
    numeric = sorted({step for step in steps if isinstance(step, int)})
    above = [step for step in numeric if step > 0]
    wide = len(above) > 1 and max(above) / min(above) > _WIDE
    scale = alt.Scale(nice=False, zero=False)
    places = np.array(numeric, float)
    if wide:
        scale = alt.Scale(type="symlog", constant=min(above), nice=False)
        places = np.sign(places) * np.log1p(np.abs(places) / min(above))
    places = (places - places.min()) / (np.ptp(places) or 1.0) * width if len(places) else places
    values = _choose_ticks(numeric, places.tolist(), 0.62 * theme.size)
    axis = alt.Axis(labelExpr=_SHORT, grid=False, values=values, labelOverlap=False)
    return alt.X("step:Q", title="training step", scale=scale, axis=axis)


def _choose_ticks(steps: list[int], places: list[float], letter: float) -> list[int]:
    """Choose steps whose labels don't touch: both ends, and what fits between them."""
    if len(steps) < 3:
        return steps
    half = [letter * (len(f"{step:.3g}" if step < 1000 else f"{step / 1000:.3g}k") + 1) / 2 for step in steps]
    last = len(steps) - 1
    chosen = [0]
    for one in range(1, last):
        if all(abs(places[one] - places[other]) >= half[one] + half[other] for other in (chosen[-1], last)):
            chosen.append(one)
    return [steps[one] for one in (*chosen, last)]


def _draw_lines(table: HeadTable, column: Column, request: DrawingRequest) -> Any:
    names = [name for name in list_keys(table) if name not in {"model", STEP, "layer", "head"}]
    label = label_rows(table, names)
    layers, heads = read_cells(table, "layer"), read_cells(table, "head")
    values, errors = read_numbers(table, column.name), read_numbers(table, f"{column.name}_se")
    named = [f"layer {format_cell(layer)}" for layer in layers]
    every = [", ".join(filter(None, parts)) for parts in zip(label, named, strict=True)]
    data = make_records({
        "panel": every, "layer": layers, "head": heads, "step": read_cells(table, STEP), "value": values,
        "error": errors,
    })  # fmt: skip
    panels = list(dict.fromkeys(every))
    across = max(1, min(len(panels), 4, (request.width - 90) // 140))
    width = int((request.width - 90) / across - 24)
    coloured: dict[str, Any] = {}
    if of_heads := "head" in table.data:
        coloured["color"] = colour_by_layer(sort_labels(heads), request.theme, field="head")
    x = make_step_axis(sort_labels(read_cells(table, STEP)), width, request.theme)
    look: dict[str, Any] = {"title": title_below_heading(column), "scale": alt.Scale(zero=False)}
    base = alt.Chart().encode(x=x, detail="head:N")
    parts = []
    if any(error is not None for error in errors):
        known = base.transform_filter("isValid(datum.error) && isValid(datum.value)")
        band = known.transform_calculate(**bound_interval(values, column.unit)).mark_area(
            opacity=0.1, line=False
        )
        parts.append(band.encode(y=alt.Y("low:Q", **look), y2="high:Q", **coloured))
    tooltip = make_tooltip({
        "panel:N": "of", **({"head:O": "head"} if of_heads else {}), "step:Q": "step",
        "value:Q": title_tooltip(name_measure(column)), "error:Q": "standard error",
    })  # fmt: skip
    y = alt.Y("value:Q", axis=alt.Axis(tickCount=4), **look)
    line = base.mark_line(strokeWidth=1.4, point=alt.OverlayMarkDef(size=14, filled=True))
    colour = coloured.get("color", alt.value(request.theme.ink))
    parts.append(line.encode(y=y, color=colour, tooltip=tooltip))
    chart = alt.layer(*parts).properties(width=width, height=int(min(width * 0.8, 150)))
    return draw_panels(chart, data, panels, across, width, name_measure(column))


#: What is drawn by default; Kendall's says the same in other numbers.
_LINES = {
    "spearman_last": "Spearman, with the last step",
    "spearman_previous": "Spearman, with the step before",
    "kendall_last": "Kendall, with the last step",
    "kendall_previous": "Kendall, with the step before",
}
#: Narrower pictures have the legend below; and the room that it takes beside.
_BESIDE, _LEGEND = 480, 200


def draw_settling(table: HeadTable, request: DrawingRequest) -> Any:
    """Draw four lines a measure: Spearman solid, Kendall dashed; with the last step, and the one before.

    Where the table has them, a band is the 95 % interval of Spearman with the last step without noise, and a
    grey field lies between the earliest and the latest step from which on the order may be settled.
    """
    columns = request.columns(table) if request.measures else []
    wanted = [column.name for column in columns if column.name in _LINES] or list(_LINES)
    panels = label_rows(table, ["attention", "measure", "dataset"])
    steps = read_cells(table, STEP)
    data: list[Record] = [
        {"panel": panels[row], "line": _LINES[name], "step": steps[row], "value": value}
        for name in wanted
        for row, value in enumerate(read_numbers(table, name))
    ]
    bands = _read_bands(table, panels, steps) if "spearman_last" in wanted else []
    data += bands
    labels = list(dict.fromkeys(panels))
    beside = request.width >= _BESIDE  # in a narrow picture, the legend stands below and leaves its room
    room = request.width - (_LEGEND if beside else 0)
    least = max(180.0, 0.58 * request.theme.size * max(map(len, labels)) + 30)
    across = int(max(1, min(len(labels), 3, room // least)))
    width = int(min(440, room / across - (30 if beside else 66)))
    known = [record["value"] for record in data if record.get("value") is not None]
    known += [record["low"] for record in bands if record["low"] is not None]
    domain = [min(0.0, *known), 1.0] if known else [0.0, 1.0]
    names = [_LINES[name] for name in wanted]
    last, before, *_ = request.theme.categories
    hues = [last if name.endswith("_last") else before for name in wanted]
    dashes = [[1, 0] if name.startswith("spearman") else [4, 3] for name in wanted]
    more: dict[str, Any] = {} if beside else {"orient": "bottom", "direction": "vertical", "columns": 1}
    legend = alt.Legend(title=None, symbolType="stroke", symbolSize=200, **more)
    lines = alt.Chart().mark_line(strokeWidth=1.8, point=alt.OverlayMarkDef(size=26, filled=True))
    if bands:
        lines = lines.transform_filter("isValid(datum.line)")
    scale = alt.Scale(domain=domain)
    x = make_step_axis(sort_labels(steps), width, request.theme)
    chart = lines.encode(
        x=x,
        y=alt.Y("value:Q", title="rank correlation", scale=scale),
        color=alt.Color("line:N", scale=alt.Scale(domain=names, range=hues), legend=legend),
        strokeDash=alt.StrokeDash("line:N", scale=alt.Scale(domain=names, range=dashes), legend=legend),
        tooltip=make_tooltip({"line:N": "correlation", "step:Q": "step", "value:Q": "value"}),
    )
    if bands:
        field = alt.Chart().transform_filter("isValid(datum.settled_low)").mark_rect(opacity=0.16)
        band = alt.Chart().transform_filter("isValid(datum.low)").mark_area(opacity=0.25, color=last)
        tooltip = make_tooltip({"settled_low:Q": "settled from", "settled_high:Q": "at the latest from"})
        chart = alt.layer(
            field.encode(
                x=alt.X("settled_low:Q", axis=x["axis"], scale=x["scale"], title="training step"),
                x2="settled_high:Q", color=alt.value(request.theme.muted), tooltip=tooltip,
            ),
            band.encode(x=x, y=alt.Y("low:Q", title="rank correlation", scale=scale), y2="high:Q"),
            chart,
        )  # fmt: skip
    chart = chart.properties(width=width, height=int(np.clip(width * 0.6, 110, 220)))
    return draw_panels(chart, data, labels, across, width)


def _read_bands(table: HeadTable, panels: Sequence[str], steps: Sequence[Cell]) -> list[Record]:
    """Read the ends of the intervals of every step, and those of the step of settling once a panel."""
    names = ("spearman_last_true_low", "spearman_last_true_high", "settled_low", "settled_high")
    if any(name not in table.data for name in names):
        return []
    low, high, first, latest = (read_numbers(table, name) for name in names)
    found: list[Record] = [
        {"panel": panels[row], "step": steps[row], "low": low[row], "high": high[row]}
        for row in range(len(panels))
        if low[row] is not None
    ]
    seen: set[str] = set()
    for row, panel in enumerate(panels):
        if first[row] is not None and panel not in seen:
            seen.add(panel)
            ends = {"settled_low": first[row], "settled_high": latest[row]}
            found.append({"panel": panel, "low": None, **ends})
    return found
