"""One line per row: numbers with intervals beside what they are compared with, and words beside them."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import altair as alt

from attnprobe.reports.charts.channels import (
    BESIDE,
    amend,
    make_chart,
    make_records,
    make_tooltip,
    measure_words,
    number_words,
    sort_rows,
)
from attnprobe.reports.charts.figure import TICK, Axis, Drawing, Figure, Words
from attnprobe.reports.columns import DrawingRequest, Record, read_numbers
from attnprobe.reports.scales import find_significant, judge_effects
from attnprobe.table.table import HeadTable

#: The label of all rows together, which stands first.
ALL = "all"
#: Pixels of a row, and of what stands above and below the rows of a panel.
_ROW, _AROUND = 17, 52


@dataclass(frozen=True, kw_only=True)
class Forest(Figure):
    """Rows with points and intervals on one axis or two; a panel for each combination of the other keys.

    Rows are sorted by the column of the finding, the largest first, if there is one. If there are too many
    rows for a page, those with the smallest p are drawn, or else those with the largest numbers.
    """

    fixed: bool = True
    axes: Sequence[Axis]
    label: Callable[[HeadTable], Sequence[str]]
    panel: Callable[[HeadTable], Sequence[str]]
    words: Sequence[Words] = ()
    tested: str = ""  # the column whose effects may be significant; by default the one of the finding
    side_by_side: int = 1  # how many panels at most stand side by side
    tooltip: Mapping[str, str] = field(default_factory=dict)  # columns of numbers with their titles
    #: Makes the tables that are drawn, one below the other; by default the table itself.
    prepare: Callable[[HeadTable, DrawingRequest], Sequence[HeadTable]] = lambda table, _: [table]

    def draw(self, table: HeadTable, request: DrawingRequest) -> Drawing:
        tables = self.prepare(table, request)
        part = replace(request, high=request.high / len(tables))
        drawings = [self._draw_table(table, part) for table in tables]
        return drawings[0]._replace(chart=alt.vconcat(*(drawing.chart for drawing in drawings)))

    def _draw_table(self, table: HeadTable, request: DrawingRequest) -> Drawing:
        """Draw the panels of one table: a chart for each axis, then the words of each row."""
        panel, labels = self.panel(table), [label[:36] for label in self.label(table)]
        panels = list(dict.fromkeys(panel))
        across = max(1, min(self.side_by_side, len(panels), int(request.room // 150)))
        panels = panels[: across * max(1, int(request.high // (_AROUND + 3 * _ROW)))]
        most = max(3, int((request.high / -(-len(panels) // across) - _AROUND) // _ROW))
        narrow = request.width < BESIDE
        words = {text.heading: text.write(table) for text in self.words if not (narrow and text.wide)}
        size, limit = request.theme.small(1), max(60, request.width // 3)
        beside = [min(measure_words([*cells, heading], size), limit) + 10 for heading, cells in words.items()]
        beside.append(min(measure_words(labels, size), limit) + 30)
        width = max(40, (request.room - sum(beside)) / (len(self.axes) * across) - 10)
        axes = [(axis, self._read_axis(table, axis, labels)) for axis in self.axes]
        channels, charts, left = self._encode_marks([data for _, data in axes], request), [], len(table)
        for number, name in enumerate(panels):
            rows = self._choose_rows(table, [row for row, other in enumerate(panel) if other == name], most)
            left -= len(rows)
            numbered = dict(zip(rows, number_words([labels[row] for row in rows]), strict=True))
            for place, (axis, every) in enumerate(axes):
                data = [
                    {**every[row + point], "label": label}
                    for row, label in numbered.items()
                    for point in range(0, len(every), len(table))
                ]
                y = sort_rows(grid=True, labelLimit=limit)
                if place or number % across:
                    y = y.axis(labels=False, ticks=False, domain=False, grid=True)
                x = _make_scale(axis, every, width, table)
                chart = alt.layer(*self._draw_axis(axis, data, x, y, channels, request))
                if name and not place:
                    amend(chart, title=alt.TitleParams(name.replace("_", " "), frame="bounds"))
                charts.append(amend(chart, width=width, height=alt.Step(_ROW)))
            for heading, cells in words.items():
                charts.append(_write_beside(heading, [cells[row] for row in rows], request))
        columns = len(axes) + len(words) if across == 1 else across
        whole = alt.concat(*charts, columns=columns, align="each", spacing={"row": 12, "column": 10})
        amend(whole, resolve={"scale": {"shape": "shared", "fill": "shared", "stroke": "shared"}})
        return Drawing(whole, [*self.caption, f"{left} more rows matter less" if left else ""])

    def _choose_rows(self, table: HeadTable, rows: list[int], most: int) -> list[int]:
        """Choose the ``most`` rows by p or else by size; if a column is stated, sort by it, ``all`` first."""
        labels, p, values = (
            self.label(table),
            read_numbers(table, "p_adjusted"),
            read_numbers(table, self.states or ""),
        )

        def rank(row: int) -> tuple[bool, bool, float]:
            """Rank a row by its p, or without one by its size; rows of the same p keep their order."""
            chance = p[row]
            return labels[row] != ALL, chance is None, -abs(values[row] or 0.0) if chance is None else chance

        kept = sorted(rows, key=rank)[:most]
        if not self.states:
            return sorted(kept)
        return sorted(kept, key=lambda row: (labels[row] != ALL, values[row] is None, -(values[row] or 0.0)))

    def _read_axis(self, table: HeadTable, axis: Axis, labels: Sequence[str]) -> list[Record]:
        """Read the records of an axis, point by point: of each point that the table has, one for each row."""
        p, tested, records = read_numbers(table, "p_adjusted"), self.tested or self.states, list[Record]()
        if not tested:
            signs: Sequence[str] = [""] * len(table)
        elif any(chance is not None for chance in p):
            signs = judge_effects(read_numbers(table, tested), [None] * len(table), [], p).signs
        else:
            signs = find_significant(table, table.column(tested)).signs
        more = {f"more{number}": read_numbers(table, name) for number, name in enumerate(self.tooltip)}
        for point in axis.points:
            if point.column in table.data:
                marks = [point.describe(sure=bool(sign)) for sign in signs]
                numbers = dict(zip(("value", "low", "high"), point.read(table), strict=True))
                rows = {"row": range(len(table)), "name": labels, "mark": marks}
                records += make_records({**rows, **numbers, **more})
        return records

    def _draw_axis(
        self, axis: Axis, data: list[Record], x: Any, y: Any, channels: Any, request: DrawingRequest
    ) -> Iterator[Any]:
        base = make_chart(data).encode(y=y)
        bars = base.transform_filter("isValid(datum.low)").mark_rule(strokeWidth=1.5, clip=True)
        points = base.transform_filter("isValid(datum.value)").mark_point(size=44, strokeWidth=1.6, opacity=1)
        told = {"name:N": "row", "mark:N": "mark", "value:Q": "value", "low:Q": "low", "high:Q": "high"}
        told |= {f"more{number}:Q": title for number, title in enumerate(self.tooltip.values())}
        if axis.reference is not None:
            zero = make_chart([{"zero": axis.reference}])
            zero = zero.mark_rule(strokeDash=[3, 3], color=request.theme.muted)
            yield zero.encode(x=alt.X("zero:Q", **x))
        yield bars.encode(x=alt.X("low:Q", **x), x2="high:Q", stroke=channels["stroke"])
        yield points.encode(x=alt.X("value:Q", **x), tooltip=make_tooltip(told), **channels)

    def _encode_marks(self, records: Sequence[Sequence[Record]], request: DrawingRequest) -> dict[str, Any]:
        """Make the channels of shape, fill and stroke, whose legend lists the marks that occur."""
        hues = [*request.theme.categories, request.theme.muted]
        drawn = {record["mark"] for every in records for record in every if record["value"] is not None}
        looks: dict[str, tuple[str, str, str]] = {}
        for point in (point for axis in self.axes for point in axis.points):
            for sure in (True, False):
                hue, mark = hues[point.colour], point.describe(sure=sure)
                hollow = not sure if point.tested else point.shape not in {"circle", TICK}
                if mark in drawn:
                    looks.setdefault(mark, (point.shape, request.theme.background if hollow else hue, hue))
        columns = 2 if request.width >= BESIDE else 1
        legend = alt.Legend(title=None, orient="bottom", columns=columns, labelLimit=request.width)
        channels = {}
        for place, channel in enumerate((alt.Shape, alt.Fill, alt.Stroke)):
            scale = alt.Scale(domain=list(looks), range=[look[place] for look in looks.values()])
            shown = legend if len(looks) > 1 else None
            channels[channel.__name__.lower()] = channel("mark:N", legend=shown, scale=scale)
        return channels


def _make_scale(axis: Axis, records: Sequence[Record], width: float, table: HeadTable) -> dict[str, Any]:
    """Give the title, scale and axis of a channel: over the axis's domain, or else over all numbers."""
    numbers = (record[part] for record in records for part in ("value", "low", "high"))
    known = [axis.reference, *numbers] if axis.reference is not None else [*numbers]
    known = [number for number in known if number is not None]
    ends = list(axis.domain) or [min(known, default=0.0), max(known, default=1.0)]
    return {
        "title": axis.title if isinstance(axis.title, str) else axis.title(table),
        "scale": alt.Scale(domain=ends, nice=not axis.domain, zero=False),
        "axis": alt.Axis(tickCount=max(2, min(5, int(width // 40))), format=".2~f", labelOverlap=True),
    }


def _write_beside(heading: str, words: Sequence[str], request: DrawingRequest) -> Any:
    """Make a chart of nothing but words, to stand beside rows: they are the labels of its axis."""
    size = request.theme.small(1)
    look: dict[str, Any] = {"fontWeight": "normal", "color": request.theme.muted, "fontSize": size}
    chart = make_chart([{"label": word} for word in number_words(words)]).mark_point(opacity=0)
    chart = chart.encode(y=sort_rows(orient="right", offset=0, labelLimit=request.width // 3))
    title = alt.TitleParams(heading, anchor="start", **look)
    return amend(chart, title=title, width=1, height=alt.Step(_ROW))
