"""Over the steps of training: a line a head, and how the order of heads settles."""

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
    name_measure,
    read_cells,
    read_numbers,
    sort_labels,
    title_below_heading,
    title_tooltip,
)
from attnprobe.reports.pictures.channels import colour_by_layer, draw_panels, make_records, make_tooltip
from attnprobe.reports.theme import Theme
from attnprobe.table.cells import format_cell
from attnprobe.table.head_table import HeadTable
from attnprobe.table.kinds import STEP
from attnprobe.table.table import Cell, Column

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
    """Draw four lines a measure: Spearman solid, Kendall dashed; with the last step, and the one before."""
    columns = request.columns(table) if request.measures else []
    wanted = [column.name for column in columns if column.name in _LINES] or list(_LINES)
    panels = label_rows(table, ["attention", "measure", "dataset"])
    steps = read_cells(table, STEP)
    data: list[Record] = [
        {"panel": panels[row], "line": _LINES[name], "step": steps[row], "value": value}
        for name in wanted
        for row, value in enumerate(read_numbers(table, name))
    ]
    labels = list(dict.fromkeys(panels))
    beside = request.width >= _BESIDE  # in a narrow picture, the legend stands below and leaves its room
    room = request.width - (_LEGEND if beside else 0)
    least = max(180.0, 0.58 * request.theme.size * max(map(len, labels)) + 30)
    across = int(max(1, min(len(labels), 3, room // least)))
    width = int(min(440, room / across - (30 if beside else 66)))
    known = [record["value"] for record in data if record["value"] is not None]
    domain = [min(0.0, *known), 1.0] if known else [0.0, 1.0]
    names = [_LINES[name] for name in wanted]
    last, before, *_ = request.theme.categories
    hues = [last if name.endswith("_last") else before for name in wanted]
    dashes = [[1, 0] if name.startswith("spearman") else [4, 3] for name in wanted]
    more: dict[str, Any] = {} if beside else {"orient": "bottom", "direction": "vertical", "columns": 1}
    legend = alt.Legend(title=None, symbolType="stroke", symbolSize=200, **more)
    lines = alt.Chart().mark_line(strokeWidth=1.8, point=alt.OverlayMarkDef(size=26, filled=True))
    chart = lines.encode(
        x=make_step_axis(sort_labels(steps), width, request.theme),
        y=alt.Y("value:Q", title="rank correlation", scale=alt.Scale(domain=domain)),
        color=alt.Color("line:N", scale=alt.Scale(domain=names, range=hues), legend=legend),
        strokeDash=alt.StrokeDash("line:N", scale=alt.Scale(domain=names, range=dashes), legend=legend),
        tooltip=make_tooltip({"line:N": "correlation", "step:Q": "step", "value:Q": "value"}),
    ).properties(width=width, height=int(np.clip(width * 0.6, 110, 220)))
    return draw_panels(chart, data, labels, across, width)
