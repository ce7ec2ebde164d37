"""Lines over the steps of training: a measure of heads or layers."""

from collections.abc import Sequence
from typing import Any

import altair as alt
import numpy as np

from attnprobe.reports.columns import (
    DrawingRequest,
    Record,
    has_measures,
    label_by_others,
    list_keys,
    make_title,
    name_measure,
    read_cells,
    read_with_errors,
    title_below_heading,
    title_tooltip,
)
from attnprobe.reports.pictures.channels import (
    choose_across,
    draw_panels,
    make_tooltip,
)
from attnprobe.reports.scales import read_spreads
from attnprobe.table.cells import Cell, format_cell
from attnprobe.table.head_table import HeadTable
from attnprobe.table.kinds import STEP
from attnprobe.table.table import Column

#: Keys that a line and its points say.
_KNOWN = {"model", STEP, "layer", "head"}
#: Steps are drawn on a scale of logarithms where they span more than this factor; and where they span the
#: smaller one and the gap from one to the next grows by the last one, at the median.
_WIDE, _SPAN, _GROWTH = 200, 4, 1.5
#: 500, 2k, 143k; d3 itself would write all in the unit of the largest, and 500 as 1k.
_SHORT = "format(datum.value, '.3~s')"


def can_draw_lines(table: HeadTable) -> bool:
    """Tell whether each head or layer is there once at each step, with a number."""
    steps = read_cells(table, STEP)
    label = [name for name in list_keys(table) if name not in {"model", STEP}]
    rows = set(zip(steps, *(read_cells(table, name) for name in label), strict=True))
    return has_measures(table) and all(isinstance(step, int) for step in steps) and len(rows) == len(table)


def draw_lines(table: HeadTable, request: DrawingRequest) -> Any:
    """Draw a measure over the steps: in small charts, one a layer, whose axes are the same.

    Of at most four lines, each has a colour, a 95 % interval and its name at the end. Of more, those three
    have them that are farthest from 0 at the last step, and the others are grey.
    """
    charts = [_draw_lines(table, column, request) for column in request.columns(table, 3)]
    return charts[0] if len(charts) == 1 else alt.vconcat(*charts)


def grow_steps(steps: Sequence[int]) -> bool:
    """Tell whether steps grow as a power does, rather than evenly.

    >>> grow_steps([0, 500, 1000, 1500]), grow_steps([0, 500, 1000, 2000, 4000])
    (False, True)
    """
    numbers = np.unique(np.array(steps, float))
    above = numbers[numbers > 0]
    if len(above) < 2 or len(numbers) < 3:
        return False
    span = above[-1] / above[0]
    gaps = np.diff(numbers)
    return bool(span > _WIDE or (span >= _SPAN and np.median(gaps[1:] / gaps[:-1]) >= _GROWTH))


def make_step_axis(steps: Sequence[Cell]) -> Any:
    """Make the channel of the step; of logarithms where steps grow, which its title says."""
    numeric = sorted({step for step in steps if isinstance(step, int)})
    above = [step for step in numeric if step > 0]
    title, scale = "training step", alt.Scale(nice=False, zero=False)
    if grow_steps(numeric):
        title = "training step (log scale)"
        if len(above) == len(numeric):
            scale = alt.Scale(type="log", nice=False)
        else:
            scale = alt.Scale(type="symlog", constant=min(above), nice=False)
    axis = alt.Axis(labelExpr=_SHORT, grid=False, values=numeric, labelOverlap="greedy")
    return alt.X("step:Q", title=title, scale=scale, axis=axis)


#: Of more lines than the first of these, so many lead.
_FEW, _LEADING = 4, 3
#: Pixels of a small chart, in a narrow picture and in others; of the numbers before them; and what a narrow
#: picture is.
_SMALLEST, _SMALL, _BEFORE, _NARROW = 62, 110, 50, 400


def _draw_lines(table: HeadTable, column: Column, request: DrawingRequest) -> Any:
    theme = request.theme
    data = _read_lines(table, column)
    panels = list(dict.fromkeys(record["panel"] for record in data))
    room = int(theme.small(2) * 0.62 * max((len(one["name"]) for one in data), default=2)) + 12
    least = _SMALLEST if request.width < _NARROW else _SMALL
    across = choose_across(len(panels), (request.width - _BEFORE) // (least + room))
    width = int(min(420, (request.width - _BEFORE) / across - room))
    height = int(np.clip(width * 0.8, 72, 240 if len(panels) == 1 else 150))
    ends = _find_ends(data)
    _name_ends(data)
    x = make_step_axis([record["step"] for record in data])
    unit, said = title_below_heading(column), ""
    if unit and len(unit) * 0.55 * theme.size > height:  # it would run into that of the row below
        unit, said = None, unit
    look: dict[str, Any] = {"title": unit, "scale": alt.Scale(domain=ends, nice=False, zero=False)}
    base = alt.Chart().encode(x=x)
    tooltip = make_tooltip({
        "panel:N": "of", "name:N": "head" if "head" in table.data else "layer", "step:Q": "step",
        "value:Q": title_tooltip(name_measure(column)), "error:Q": "standard error",
    })  # fmt: skip
    y = alt.Y("value:Q", axis=alt.Axis(tickCount=4), **look)
    ranks = sorted({record["rank"] for record in data if record["rank"] is not None})
    hues = alt.Scale(domain=ranks, range=list(theme.categories[: len(ranks)]))
    colour = alt.Color("rank:O", scale=hues, legend=None)
    others = base.transform_filter("!isValid(datum.rank)")
    # Filters that follow one another in several layers take Vega-Lite too long to sort out, and it says so.
    leading = base.transform_filter("isValid(datum.rank)")
    # A point that nobody sees is what a pointer finds.
    hidden = alt.OverlayMarkDef(size=20, opacity=0)
    grey = others.mark_line(strokeWidth=0.9, opacity=0.45, color=theme.muted, point=hidden)
    # A layer without a line would warn of a scale without ends.
    parts = [] if _are_few(data) else [grey.encode(y=y, detail="name:N", tooltip=tooltip)]
    banded = any(record["low"] is not None for record in data)
    if banded:
        band = base.transform_filter("isValid(datum.rank) && isValid(datum.low)").mark_area(
            opacity=0.16, line=False, aria=False
        )
        parts.append(band.encode(y=alt.Y("low:Q", **look), y2="high:Q", color=colour, detail="name:N"))
    line = leading.mark_line(strokeWidth=1.7, point=alt.OverlayMarkDef(size=14, filled=True))
    names = base.transform_filter("isValid(datum.rank) && isValid(datum.at)").mark_text(
        align="left", dx=5, fontSize=theme.small(2)
    )
    parts += [
        line.encode(y=y, color=colour, detail="name:N", tooltip=tooltip),
        names.encode(x=alt.value(width), y=alt.Y("at:Q", **look), text="name:N", color=colour),
    ]
    chart = alt.layer(*parts).properties(width=width, height=height)
    drawn = draw_panels(chart, data, panels, across, width, name_measure(column))
    spaced: dict[str, Any] = {"spacing": {"column": room, "row": 14}} if len(panels) > 1 else {}
    lines = [said, "bands: 95 % intervals" if banded else ""]
    title = make_title(name_measure(column), *lines, width=request.width - _BEFORE, size=theme.small(1))
    return drawn.properties(title=title, **spaced)


def _are_few(data: Sequence[Record]) -> bool:
    return len({record["name"] for record in data}) <= _FEW


def _read_lines(table: HeadTable, column: Column) -> list[Record]:
    of_heads = "head" in list_keys(table)
    labels = label_by_others(table, _KNOWN)
    layers = [format_cell(cell) for cell in read_cells(table, "layer")]
    panels = labels
    lines = [f"L{layer}" for layer in layers]
    if of_heads:
        named = [f"layer {layer}" for layer in layers]
        panels = [", ".join(filter(None, pair)) for pair in zip(labels, named, strict=True)]
        lines = [f"H{format_cell(cell)}" for cell in read_cells(table, "head")]
    values, errors = read_with_errors(table, column.name)
    steps = read_cells(table, STEP)
    order = _rank_lines(panels, lines, steps, values)
    ranks = [order.get(pair) for pair in zip(panels, lines, strict=True)]
    lower, upper = (-np.inf, np.inf)
    known = [value for value in values if value is not None]
    if column.unit.startswith("share") and known and min(known) >= 0 and max(known) <= 1:
        lower, upper = 0.0, 1.0  # as other pictures end the intervals of shares
    data = []
    spreads = read_spreads(table, column.name)
    for row, (value, spread, rank) in enumerate(zip(values, spreads, ranks, strict=True)):
        low = high = None
        if rank is not None and value is not None and spread is not None:
            low, high = max(lower, value - spread), min(upper, value + spread)
        data.append({
            "panel": panels[row], "name": lines[row], "step": steps[row], "value": value,
            "error": errors[row], "rank": rank, "low": low, "high": high, "at": None,
        })  # fmt: skip
    return data


def _rank_lines(
    panels: list[str], lines: list[str], steps: list[Cell], values: list[float | int | None]
) -> dict[tuple[str, str], int]:
    every = sorted(set(lines))
    if len(every) <= _FEW:
        return {pair: every.index(pair[1]) for pair in zip(panels, lines, strict=True)}
    last = max((step for step in steps if isinstance(step, int)), default=None)
    found: dict[str, list[tuple[float, str]]] = {}
    for panel, line, step, value in zip(panels, lines, steps, values, strict=True):
        if step == last and value is not None:
            found.setdefault(panel, []).append((abs(value), line))
    return {
        (panel, line): rank
        for panel, some in found.items()
        for rank, (_, line) in enumerate(sorted(some, key=lambda one: -one[0])[:_LEADING])
    }


def _find_ends(data: list[Record]) -> list[float]:
    known = [one[name] for one in data for name in ("value", "low", "high") if one[name] is not None]
    low, high = (min(known), max(known)) if known else (0.0, 1.0)
    air = 0.04 * (high - low) or 0.04 * abs(high) or 1.0
    return [low - air if low else 0.0, high + air if high else 0.0] if high > low else [low - air, high + air]


def _name_ends(data: list[Record]) -> None:
    last = max((one["step"] for one in data if isinstance(one["step"], int)), default=None)
    for one in data:
        if one["rank"] is not None and one["step"] == last:
            one["at"] = one["value"]
