"""Numbers that go on: over steps of training, over shares of removed heads, over layers."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import altair as alt
import numpy as np

from attnprobe.reports.charts.figure import Drawing, Figure
from attnprobe.reports.charts.marks import (
    AXIS,
    BESIDE,
    amend,
    arrange_panels,
    draw_panels,
    make_records,
    make_tooltip,
    stack_charts,
    wrap_words,
)
from attnprobe.reports.columns import (
    DrawingRequest,
    Record,
    name_measure,
    read_cells,
    read_numbers,
    title_tooltip,
)
from attnprobe.reports.scales import read_intervals
from attnprobe.reports.theme import SEQUENTIAL, Theme, interpolate_colours
from attnprobe.table.cells import clean
from attnprobe.table.table import Cell, Column, HeadTable

#: The hue of lines that are there for comparison.
OTHERS = "others"
#: Pixels of the name at the end of a line.
_NAME = 26


@dataclass(frozen=True, kw_only=True)
class Lines(Figure):
    """A line for each of what is followed, with 95 % intervals; a panel for each value of other keys.

    Lines of ``others`` are thin, in the background.
    """

    x: str
    axis: Literal["step", "share", "layer"]
    panel: Callable[[HeadTable], Sequence[str]]
    series: Callable[[HeadTable], Sequence[str]]  # names of what is followed: a line has one
    hue: Callable[[HeadTable], Sequence[Cell]]  # what has a colour
    legend: str | None = None
    back: Callable[[HeadTable], Sequence[bool]] = lambda table: [False] * len(table)
    leading: bool = False  # whether only those stand out that end farthest from 0, with their names
    envelope: bool = False  # whether a band holds the lines in the background
    dots: bool = False  # whether a line is the mean of what has a dot each
    zero: bool = False  # whether the scale has 0
    choose: Callable[[HeadTable, DrawingRequest], list[Column]]
    name: Callable[[HeadTable, Column], str] | None = None  # the title of the axis, in place of a heading
    prepare: Callable[[HeadTable], HeadTable] = lambda table: table

    def columns(self, table: HeadTable, request: DrawingRequest) -> list[Column]:
        return self.choose(table, request)

    def draw(self, table: HeadTable, request: DrawingRequest) -> Drawing:
        table = self.prepare(table)
        columns = self.choose(table, request)
        panels = list(dict.fromkeys(self.panel(table)))
        beside = len(panels) == 1 and len(columns) > 1
        number = len(columns) if beside else len(panels)
        high = request.high if beside else request.high / len(columns)
        beyond = _NAME if self.leading else 0
        across, width, height = arrange_panels(number, request.room, high, beyond)
        width = min(width, 440)
        most = len(panels) if beside else across * max(1, int(high // 76))
        more = f"{len(panels) - most} more panels" if len(panels) > most else ""
        panels = panels[:most]
        charts = [self._draw_measure(table, one, panels, across, (width, height), request) for one in columns]
        room = across * (width + AXIS + beyond)
        return Drawing(stack_charts(charts, across if beside else 1), [*self.caption, more], room)

    def _draw_measure(
        self,
        table: HeadTable,
        column: Column,
        panels: Sequence[str],
        across: int,
        size: tuple[float, float],
        request: DrawingRequest,
    ) -> Any:
        data = [record for record in self._read(table, column) if record["panel"] in panels]
        theme, unit = request.theme, clean(column.unit) or None
        title = unit if self.name is None else self.name(table, column)
        limit = alt.Axis(tickCount=4, titleLimit=int(size[1] + 40))
        y = alt.Y("value:Q", title=title, axis=limit, scale=alt.Scale(zero=self.zero))
        ends = {"y": alt.Y("low:Q", title=title), "y2": alt.Y2("high:Q")}
        colour = self._colour(data, theme, request)
        tooltip = make_tooltip(
            {
                "panel:N": "of",
                "series:N": "line",
                "x:O" if self.axis != "share" else "x:Q": self.x.replace("_", " "),
                "value:Q": title_tooltip(name_measure(column)),
                "error:Q": "standard error",
            }
        )
        base = alt.Chart().encode(x=self._make_axis([record["x"] for record in data]), color=colour)
        back, front = (base.transform_filter(f"{sign}datum.back") for sign in ("", "!"))
        parts = []
        if any(record["back"] for record in data):
            if self.envelope and len({record["hue"] for record in data if record["back"]}) == 1:
                band = back.mark_area(opacity=0.16, color=theme.muted, line=False, aria=False)
                parts.append(band.encode(y="min(value):Q", y2="max(value):Q", color=alt.value(theme.muted)))
            parts.append(back.mark_line(strokeWidth=0.8, opacity=0.5).encode(y=y, detail="line:N"))
        if any(record["low"] is not None for record in data):
            known = front.transform_filter("isValid(datum.low)")
            band = known.mark_area(opacity=0.16, line=False, aria=False)
            bar = known.mark_rule(strokeWidth=1, opacity=0.45 if self.dots else 1)
            parts.append((band if self.leading else bar).encode(**ends, detail="line:N"))
        line = front.mark_line(strokeWidth=1.7)
        if self.dots:
            parts.append(line.encode(y=alt.Y("mean(value):Q", title=title, scale=alt.Scale(zero=self.zero))))
        else:
            parts.append(line.encode(y=y, detail="line:N"))
        points = (base if self.leading else front).mark_point(filled=True, size=20, opacity=0.8)
        parts.append(points.encode(y=y, tooltip=tooltip, detail="line:N"))
        if self.leading:
            names = front.transform_filter("datum.last").mark_text(
                align="left", dx=5, fontSize=theme.small(2)
            )
            parts.append(names.encode(y=y, text="series:N"))
        chart = amend(alt.layer(*parts), width=size[0], height=size[1])
        drawn = draw_panels(chart, data, panels, across)
        if len(panels) > 1:
            amend(drawn, spacing={"column": 10 + _NAME * self.leading, "row": 12})
        if self.name is not None:
            return drawn
        heading = wrap_words(name_measure(column), max(90, size[0]), theme.size)
        return amend(drawn, title=alt.TitleParams(heading))

    def _read(self, table: HeadTable, column: Column) -> list[Record]:
        low, high = read_intervals(table, column)
        cells = read_cells(table, self.x)
        columns: dict[str, Sequence[Any]] = {
            "panel": self.panel(table),
            "series": self.series(table),
            "hue": self.hue(table),
            "back": list(self.back(table)),
            "x": cells,
            "value": read_numbers(table, column.name),
            "error": read_numbers(table, f"{column.name}_se"),
            "low": low,
            "high": high,
        }
        data = make_records(columns)
        last = max((cell for cell in cells if isinstance(cell, int | float)), default=None)
        for record in data:
            record["line"] = f"{record['series']} {record['hue']}"
            record["last"] = record["x"] == last and record["value"] is not None
        if self.leading:
            _find_leading(data)
        return data

    def _colour(self, data: Sequence[Record], theme: Theme, request: DrawingRequest) -> Any:
        hues = sorted({record["hue"] for record in data if record["hue"] != OTHERS}, key=_by_number)
        title = self.legend
        if all(isinstance(hue, int) for hue in hues) and not self.leading:
            colours = SEQUENTIAL[1:] if theme.name == "dark" else SEQUENTIAL[:-1]
            ranged, title = interpolate_colours(colours, len(hues)), "training step"
        elif len(hues) == 1 and not self.leading:
            ranged = [theme.ink]
        else:
            ranged = [theme.categories[place % len(theme.categories)] for place in range(len(hues))]
        behind = {record["hue"] for record in data if record["back"]}
        front = {record["hue"] for record in data if not record["back"]}
        ranged = [
            theme.muted if hue in behind - front else one for hue, one in zip(hues, ranged, strict=True)
        ]
        below: dict[str, Any] = {} if request.width >= BESIDE else {"orient": "bottom", "columns": 1}
        legend = alt.Legend(title=title, symbolType="stroke", symbolOpacity=1, **below)
        shown = None if self.leading or len(hues) < 2 else legend
        scale = alt.Scale(domain=[*hues, OTHERS], range=[*ranged, theme.muted])
        if shown is not None:
            shown["values"] = hues
        return alt.Color("hue:N", scale=scale, legend=shown)

    def _make_axis(self, cells: Sequence[Cell]) -> Any:
        if self.axis == "layer":
            axis = alt.Axis(labelAngle=0, labelOverlap="greedy")
            return alt.X("x:O", title=self.x.replace("_", " "), axis=axis)
        if self.axis == "share":
            return alt.X("x:Q", title="heads removed", axis=alt.Axis(format=".1~%", tickCount=5))
        return _make_step_axis(cells)


def _by_number(hue: Cell) -> tuple[bool, Any]:
    """Sort numbers by their size, and keep words as they are."""
    return isinstance(hue, str), hue


def _find_leading(data: Sequence[Record]) -> None:
    """Give a colour to lines that end farthest from 0 in their panel, and put the others behind."""
    lines = sorted({record["series"] for record in data})
    if len(lines) <= 4:
        ranks = {(record["panel"], record["series"]): lines.index(record["series"]) for record in data}
    else:
        ends: dict[str, list[Record]] = {}
        for record in data:
            if record["last"]:
                ends.setdefault(record["panel"], []).append(record)
        ranks = {
            (panel, record["series"]): rank
            for panel, records in ends.items()
            for rank, record in enumerate(sorted(records, key=lambda one: -abs(one["value"]))[:3])
        }
    for record in data:
        rank = ranks.get((record["panel"], record["series"]))
        record |= {"hue": OTHERS if rank is None else rank, "back": rank is None}
        if rank is None:
            record |= {"low": None, "high": None}


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
    return bool(span > 200 or (span >= 4 and np.median(gaps[1:] / gaps[:-1]) >= 1.5))


def _make_step_axis(steps: Sequence[Cell]) -> Any:
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
    # 500, 2k, 143k; d3 itself would write all in the unit of the largest, and 500 as 1k.
    short = "format(datum.value, '.3~s')"
    axis = alt.Axis(labelExpr=short, grid=False, values=numeric, labelOverlap="greedy")
    return alt.X("x:Q", title=title, scale=scale, axis=axis)
