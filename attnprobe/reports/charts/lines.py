"""Curves: over steps of training, over shares of removed heads, over layers."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import altair as alt
import numpy as np

from attnprobe.reports.charts.channels import (
    BESIDE,
    amend,
    arrange_panels,
    draw_panels,
    make_records,
    make_tooltip,
    measure_words,
    stack_charts,
    wrap_words,
)
from attnprobe.reports.charts.figure import Drawing, Figure
from attnprobe.reports.columns import (
    DrawingRequest,
    Record,
    name_measure,
    read_cells,
    read_numbers,
    title_tooltip,
)
from attnprobe.reports.scales import read_intervals
from attnprobe.reports.theme import SEQUENTIAL, interpolate_colours
from attnprobe.table.cells import clean
from attnprobe.table.table import Cell, Column, HeadTable

#: Panels, how many stand side by side, how wide and how high each is.
PanelLayout = tuple[list[str], int, float, float]
#: The hue of lines that are there for comparison.
OTHERS = "others"
#: Pixels of the name at the end of a line.
_NAME = 26


@dataclass(frozen=True, kw_only=True)
class Lines(Figure):
    """Lines with 95 % intervals; a panel for each combination of the other keys."""

    x: str
    panel: Callable[[HeadTable], Sequence[str]]
    series: Callable[[HeadTable], Sequence[str]]  # the name of the line that each row is of
    hue: Callable[[HeadTable], Sequence[Cell]]  # what gives each row its colour
    legend: str | None = None
    #: Tells which rows are of thin lines in the background.
    back: Callable[[HeadTable], Sequence[bool]] = lambda table: [False] * len(table)
    leading: bool = False  # whether only the lines that end farthest from 0 have a colour and a name
    dots: bool = False  # whether rows are dots, and a line is their mean
    zero: bool = False  # whether the scale includes 0
    name: Callable[[HeadTable, Column], str] | None = None  # the title of the axis, in place of a heading
    prepare: Callable[[HeadTable], HeadTable] = lambda table: table

    def draw(self, table: HeadTable, request: DrawingRequest) -> Drawing:
        table = self.prepare(table)
        columns, panels = self.choose(table, request), list(dict.fromkeys(self.panel(table)))
        beside = len(panels) == 1 and len(columns) > 1
        number, high = (len(columns), request.high) if beside else (len(panels), request.high / len(columns))
        hues = set() if self.leading else set(map(str, self.hue(table)))
        legends = len(hues) > 1 and request.width >= BESIDE
        legend = measure_words([*hues, self.legend or ""], request.theme.small(1)) + 60 if legends else 0
        name = _NAME if self.leading else 0
        room = request.room if beside else request.room - legend
        across, width, height = arrange_panels(number, room, high, name + legend * beside)
        most = len(panels) if beside else across * max(1, int(high // 76))
        more = f"{len(panels) - most} more panels" if len(panels) > most else ""
        layout = (panels[:most], across, min(width, 440), height)
        charts = [self._draw_measure(table, column, layout, request) for column in columns]
        return Drawing(stack_charts(charts, across if beside else 1), [*self.caption, more])

    def _draw_measure(
        self, table: HeadTable, column: Column, layout: PanelLayout, request: DrawingRequest
    ) -> Any:
        """Draw the panels of one measure: bands or bars, lines, dots, and names at the ends."""
        panels, across, width, height = layout
        data = [record for record in self._read_records(table, column) if record["panel"] in panels]
        if self.leading:
            _spread_names(data, (request.theme.small(2) + 1) / height)
        theme, title = request.theme, clean(column.unit) or None
        title = title if self.name is None else self.name(table, column)
        scale = alt.Scale(zero=self.zero)
        axis = alt.Axis(tickCount=4, titleLimit=int(height + 40))
        y = alt.Y("value:Q", title=title, axis=axis, scale=scale)
        x = "x:Q" if self.x == "share_removed" else "x:O"
        told = {"panel:N": "of", "series:N": "line", x: self.x.replace("_", " ")}
        told |= {"value:Q": title_tooltip(name_measure(column)), "error:Q": "standard error"}
        base = alt.Chart().encode(x=self._make_axis(table), color=self._colour(data, request))
        back, front = (base.transform_filter(f"{sign}datum.back") for sign in ("", "!"))
        parts = []
        if any(record["back"] for record in data):
            if not self.leading and len({record["hue"] for record in data if record["back"]}) == 1:
                band = back.mark_area(opacity=0.16, color=theme.muted, line=False, aria=False)
                parts.append(band.encode(y="min(value):Q", y2="max(value):Q", color=alt.value(theme.muted)))
            parts.append(back.mark_line(strokeWidth=0.8, opacity=0.5).encode(y=y, detail="line:N"))
        if any(record["low"] is not None for record in data):
            known = front.transform_filter("isValid(datum.low)")
            band = known.mark_area(opacity=0.16, line=False, aria=False)
            bar = known.mark_rule(strokeWidth=1, opacity=0.45 if self.dots else 1)
            ends = {"y": alt.Y("low:Q", title=title), "y2": alt.Y2("high:Q")}
            parts.append((band if self.leading else bar).encode(**ends, detail="line:N"))
        line = front.mark_line(strokeWidth=1.7)
        mean = alt.Y("mean(value):Q", title=title, scale=scale)
        parts.append(line.encode(y=mean) if self.dots else line.encode(y=y, detail="line:N"))
        points = (base if self.leading else front).mark_point(filled=True, size=20, opacity=0.8)
        parts.append(points.encode(y=y, tooltip=make_tooltip(told), detail="line:N"))
        if self.leading:
            names = front.transform_filter("datum.last")
            names = names.mark_text(align="left", dx=5, fontSize=theme.small(2))
            parts.append(names.encode(y=alt.Y("name_at:Q", title=title, scale=scale), text="series:N"))
        chart = draw_panels(amend(alt.layer(*parts), width=width, height=height), data, panels, across)
        if len(panels) > 1:
            amend(chart, spacing={"column": 10 + _NAME * self.leading, "row": 12})
        if self.name is not None:
            return chart
        heading = wrap_words(name_measure(column), max(90, width), theme.size)
        return amend(chart, title=alt.TitleParams(heading))

    def _read_records(self, table: HeadTable, column: Column) -> list[Record]:
        low, high = read_intervals(table, column.name)
        series, hue, x = self.series(table), self.hue(table), read_cells(table, self.x)
        values = read_numbers(table, column.name)
        last = max((step for step in x if isinstance(step, int)), default=None)
        columns: dict[str, Sequence[Any]] = {
            **{"panel": self.panel(table), "series": series, "hue": hue, "back": self.back(table), "x": x},
            **{"value": values, "error": read_numbers(table, f"{column.name}_se"), "low": low, "high": high},
            "line": [f"{name} {colour}" for name, colour in zip(series, hue, strict=True)],
            "last": [step == last and value is not None for step, value in zip(x, values, strict=True)],
        }
        data = make_records(columns)
        if self.leading:
            _mark_leading(data)
        return data

    def _colour(self, data: Sequence[Record], request: DrawingRequest) -> Any:
        """Make the channel of colours: a ramp for numbers, categories for words, muted for lines behind."""
        theme, title = request.theme, self.legend
        hues = dict.fromkeys(record["hue"] for record in data if record["hue"] != OTHERS)
        hues = sorted(hues, key=lambda hue: (isinstance(hue, str), hue))
        ramp = [theme.categories[place % len(theme.categories)] for place in range(len(hues))]
        if not self.leading and all(isinstance(hue, int) for hue in hues):
            colours = SEQUENTIAL[1:] if theme.name == "dark" else SEQUENTIAL[:-1]
            ramp, title = interpolate_colours(colours, len(hues)), "training step"
        elif not self.leading and len(hues) == 1:
            ramp = [theme.ink]
        front = {record["hue"] for record in data if not record["back"]}
        ramp = [colour if hue in front else theme.muted for hue, colour in zip(hues, ramp, strict=True)]
        scale = alt.Scale(domain=[*hues, OTHERS], range=[*ramp, theme.muted])
        if self.leading or len(hues) < 2:
            return alt.Color("hue:N", scale=scale, legend=None)
        below: dict[str, Any] = {} if request.width >= BESIDE else {"orient": "bottom", "columns": 1}
        legend = alt.Legend(title=title, values=hues, symbolType="stroke", symbolOpacity=1, **below)
        return alt.Color("hue:N", scale=scale, legend=legend)

    def _make_axis(self, table: HeadTable) -> Any:
        if self.x == "layer":
            return alt.X("x:O", title="layer", axis=alt.Axis(labelAngle=0, labelOverlap="greedy"))
        if self.x == "share_removed":
            return alt.X("x:Q", title="heads removed", axis=alt.Axis(format=".1~%", tickCount=5))
        return _make_step_axis(sorted({cell for cell in read_cells(table, self.x) if isinstance(cell, int)}))


def _mark_leading(data: Sequence[Record]) -> None:
    """Set in the records the hue of the 3 lines of each panel that end farthest from 0; others go behind."""
    lines = sorted({record["series"] for record in data})
    ends = sorted((record for record in data if record["last"]), key=lambda record: -abs(record["value"]))
    leading: dict[str, list[str]] = {}
    for record in ends:
        leading.setdefault(record["panel"], []).append(record["series"])
    for record in data:
        leaders = lines if len(lines) <= 4 else leading.get(record["panel"], [])[:3]
        if record["series"] in leaders:
            record |= {"hue": leaders.index(record["series"])}
        else:
            record |= {"hue": OTHERS, "back": True, "low": None, "high": None}


def _spread_names(data: Sequence[Record], share: float) -> None:
    """Set ``name_at``, where names at the ends of lines stand, a ``share`` of the height or more apart."""
    shown = [record[key] for record in data for key in ("low", "value", "high") if record[key] is not None]
    gap = share * (max(shown) - min(shown)) if shown else 0
    named = [record for record in data if record["last"] and not record["back"]]
    named.sort(key=lambda record: record["value"])
    for panel in {record["panel"] for record in named}:
        ends = [record for record in named if record["panel"] == panel]
        places: list[float] = []
        for record in ends:
            places.append(max(record["value"], places[-1] + gap) if places else record["value"])
        shift = sum(places) - sum(record["value"] for record in ends)
        for record, place in zip(ends, places, strict=True):
            record["name_at"] = place - shift / len(ends)


def _make_step_axis(steps: Sequence[int]) -> Any:
    """Make the channel of the training step, on a log scale where steps grow like powers."""
    above = np.array([step for step in steps if step > 0], float)
    title, scale = "training step", alt.Scale(nice=False, zero=False)
    gaps = np.diff(steps)
    growing = len(above) > 1 and len(steps) > 2 and above[-1] >= 4 * above[0]
    if growing and (above[-1] > 200 * above[0] or np.median(gaps[1:] / gaps[:-1]) >= 1.5):
        title = "training step (log scale)"
        kind: dict[str, Any] = (
            {"type": "log"} if len(above) == len(steps) else {"type": "symlog", "constant": int(above[0])}
        )
        scale = alt.Scale(nice=False, **kind)
    # 500, 2k, 143k; d3 itself would write all in the unit of the largest, and 500 as 1k.
    short = "format(datum.value, '.3~s')"
    axis = alt.Axis(labelExpr=short, grid=False, values=list(steps), labelOverlap="greedy")
    return alt.X("x:Q", title=title, scale=scale, axis=axis)
