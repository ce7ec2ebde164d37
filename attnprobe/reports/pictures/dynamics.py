"""Heads over the steps of training: a line a head, a small picture a layer."""

from typing import Any

import altair as alt
import numpy as np

from attnprobe.findings.dynamics import STEP
from attnprobe.reports.pictures.asked import Asked, has_measures
from attnprobe.reports.pictures.layers import layer_colour
from attnprobe.reports.pictures.rows import (
    Record,
    below_heading,
    cells,
    ends_of,
    keys,
    labelled,
    name_of,
    numbers,
    ordered,
    tip,
)
from attnprobe.reports.pictures.theme import Theme
from attnprobe.table.cells import written
from attnprobe.table.head_table import HeadTable
from attnprobe.table.table import Cell, Column

#: Steps that span more than this factor are drawn on a scale of logarithms.
_WIDE = 200
#: 500, 2k, 143k; d3 itself would write all in the unit of the largest, and 500 as 1k.
_SHORT = "format(datum.value, '~s')"


def fits(table: HeadTable) -> bool:
    """Tell whether rows are heads, or layers, at several steps of training."""
    names = keys(table)
    if not {STEP, "layer"} <= set(names) or "seed" in names or not has_measures(table):
        return False
    steps = cells(table, STEP)
    label = [name for name in names if name not in {"model", STEP}]
    rows = list(zip(steps, *(cells(table, name) for name in label), strict=True))
    return all(isinstance(step, int) for step in steps) and len(set(rows)) == len(rows)


def draw(table: HeadTable, asked: Asked) -> Any:
    """Draw a measure over the steps, with 95 % intervals as faint bands where there are errors."""
    charts = [_lines(table, column, asked) for column in asked.columns(table, 3)]
    return charts[0] if len(charts) == 1 else alt.vconcat(*charts).resolve_scale(color="independent")


def step_axis(steps: list[Cell], width: int, theme: Theme) -> Any:
    """Give the channel of the step; of logarithms where the steps span several powers of ten.

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
    values = _with_room(numeric, places.tolist(), 0.62 * theme.size)
    axis = alt.Axis(labelExpr=_SHORT, grid=False, values=values, labelOverlap=False)
    return alt.X("step:Q", title="training step", scale=scale, axis=axis)


def _with_room(steps: list[int], places: list[float], letter: float) -> list[int]:
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


def _lines(table: HeadTable, column: Column, asked: Asked) -> Any:
    names = [name for name in keys(table) if name not in {"model", STEP, "layer", "head"}]
    label = labelled(table, names)
    layers = cells(table, "layer")
    values, errors = numbers(table, column.name), numbers(table, f"{column.name}_se")
    heads = cells(table, "head")
    data: list[Record] = []
    for row, step in enumerate(cells(table, STEP)):
        panel = ", ".join(filter(None, [label[row], f"layer {written(layers[row])}"]))
        place = {"panel": panel, "layer": layers[row], "head": heads[row], "step": step}
        data.append({**place, "value": values[row], "error": errors[row]})
    panels = list(dict.fromkeys(record["panel"] for record in data))
    across = max(1, min(len(panels), 4, (asked.width - 90) // 140))
    width = int((asked.width - 90) / across - 24)
    of_heads = "head" in table.data
    colour = (
        layer_colour(ordered(heads), asked.theme, field="head") if of_heads else alt.value(asked.theme.ink)
    )
    x = step_axis(ordered(cells(table, STEP)), width, asked.theme)
    y = alt.Y("value:Q", title=below_heading(column), scale=alt.Scale(zero=False), axis=alt.Axis(tickCount=4))
    base = alt.Chart().encode(x=x, detail="head:N")
    parts = []
    if any(record["error"] is not None for record in data):
        band = base.transform_filter("isValid(datum.error) && isValid(datum.value)").transform_calculate(
            **ends_of(values, column.unit)
        )
        parts.append(
            band.mark_area(opacity=0.1, line=False).encode(
                y=alt.Y("low:Q", title=below_heading(column), scale=alt.Scale(zero=False)), y2="high:Q",
                **({"color": layer_colour(ordered(heads), asked.theme, field="head")} if of_heads else {}))
        )  # fmt: skip
    parts.append(
        base.mark_line(strokeWidth=1.4, point=alt.OverlayMarkDef(size=14, filled=True)).encode(
            y=y, color=colour,
            tooltip=[
                alt.Tooltip("panel:N", title="of"),
                *([alt.Tooltip("head:O", title="head")] if of_heads else []),
                alt.Tooltip("step:Q", title="step", format=","),
                alt.Tooltip("value:Q", title=tip(name_of(column)), format=".4~g"),
                alt.Tooltip("error:Q", title="standard error", format=".2~g"),
            ],
        )
    )  # fmt: skip
    facet = alt.Facet(
        "panel:N",
        sort=panels,
        title=None,
        header=alt.Header(title=None, labelAnchor="start", labelLimit=max(width, 80)),
    )
    chart = alt.layer(*parts).properties(width=width, height=int(min(width * 0.8, 150)))
    return chart.facet(facet=facet, columns=across, data=alt.InlineData(values=data)).properties(
        title=alt.TitleParams(name_of(column))
    )
