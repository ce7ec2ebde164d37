"""A line a row: numbers with intervals beside what they are compared with, and words beside them."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import altair as alt

from attnprobe.reports.charts.figure import Drawing, Figure
from attnprobe.reports.charts.marks import (
    BESIDE,
    amend,
    make_chart,
    make_tooltip,
    number_words,
    round_ends,
    sort_rows,
    tell_marks_apart,
)
from attnprobe.reports.columns import DrawingRequest, Record, read_cells, read_numbers
from attnprobe.reports.scales import mark_column, mark_effects, read_intervals
from attnprobe.reports.theme import Theme
from attnprobe.sums.inference import SIGNIFICANT
from attnprobe.table.cells import format_cell
from attnprobe.table.table import HeadTable

#: The label of all rows together, which stands first.
ALL = "all"
#: Pixels of a row, and of what stands above and below the rows of a panel.
_ROW, _AROUND = 17, 52
#: The mark of what is only compared with: a tick across the line.
TICK = "M0,-1L0,1"


@dataclass(frozen=True)
class Point:
    """A number of each row."""

    column: str
    name: str  # in the legend
    shape: str = "circle"
    colour: int = 0  # which of the theme's
    tested: bool = False  # whether it is filled where it differs significantly, and hollow otherwise
    interval: bool = False
    ends: Sequence[str] = ()  # how the columns of the ends of its interval end; else from its error

    def describe(self, *, sure: bool) -> str:
        if not self.tested:
            return self.name
        return f"{self.name}: adjusted p < {SIGNIFICANT}" if sure else f"{self.name}: not significant"

    def is_hollow(self, *, sure: bool) -> bool:
        return not sure if self.tested else self.shape not in {"circle", TICK}


@dataclass(frozen=True)
class Axis:
    """Numbers on one scale."""

    title: str | Callable[[HeadTable], str]
    points: Sequence[Point]
    domain: Sequence[float] = ()  # by default, all numbers and their intervals
    reference: float | None = None  # where there is no effect


@dataclass(frozen=True)
class Words:
    """What is written beside each row."""

    heading: str
    write: Callable[[HeadTable], Sequence[str]]
    wide: bool = False  # whether a narrow picture has no room for it


@dataclass(frozen=True, kw_only=True)
class Forest(Figure):
    """Rows with points and intervals on one axis or two, with a panel for each value of other keys.

    Of more rows than a page has room for, those with the smallest p are drawn, or with the largest numbers.
    """

    axes: Sequence[Axis]
    label: Callable[[HeadTable], Sequence[str]]
    panel: Callable[[HeadTable], Sequence[str]]
    words: Sequence[Words] = ()
    tested: str = ""  # the column whose effect is significant or not
    order: str = ""  # the column by which rows are sorted, the largest first; as they come by default
    p: str = "p_adjusted"
    side_by_side: int = 1  # so many panels at most
    tooltip: Mapping[str, str] = field(default_factory=dict)  # columns of numbers with their titles
    #: What makes the tables whose rows are drawn, one below the other; by default it is the table.
    prepare: Callable[[HeadTable, DrawingRequest], Sequence[HeadTable]] = lambda table, _: [table]

    def draw(self, table: HeadTable, request: DrawingRequest) -> Drawing:
        tables = self.prepare(table, request)
        part = replace(request, high=request.high / len(tables))
        drawings = [self._draw_table(one, part) for one in tables]
        chart = drawings[0].chart if len(tables) == 1 else alt.vconcat(*(one.chart for one in drawings))
        return replace(drawings[0], chart=chart)

    def _draw_table(self, table: HeadTable, request: DrawingRequest) -> Drawing:
        panel, labels = self.panel(table), [label[:36] for label in self.label(table)]
        panels = list(dict.fromkeys(panel))
        across = max(1, min(self.side_by_side, len(panels), int(request.room // 150)))
        panels = panels[: across * max(1, int(request.high // (_AROUND + 3 * _ROW)))]
        room = max(3, int((request.high / -(-len(panels) // across) - _AROUND) // _ROW))
        words = [one for one in self.words if request.width >= BESIDE or not one.wide]
        written = [one.write(table) for one in words]
        records = [self._read_axis(table, axis, labels) for axis in self.axes]
        channels = self._tell_apart(records, request)
        width = max(40, request.room / (len(self.axes) * across))
        charts, left = [], len(table)
        for number, name in enumerate(panels):
            rows = self._choose_rows(table, [row for row, own in enumerate(panel) if own == name], room)
            left -= len(rows)
            height = alt.Step(_ROW)
            for place, (axis, every) in enumerate(zip(self.axes, records, strict=True)):
                numbered = number_words([labels[row] for row in rows])
                data = [
                    {**record, "label": label}
                    for row, label in zip(rows, numbered, strict=True)
                    for record in every
                    if record["row"] == row
                ]
                y = sort_rows(grid=True, labelLimit=max(60, request.width // 3))
                if place or number % across:
                    y = y.axis(labels=False, ticks=False, domain=False, grid=True)
                x = _make_scale(axis, every, width, table)
                layers = self._draw_axis(axis, data, x, y, channels, request.theme)
                chart = amend(alt.layer(*layers), width=width, height=height)
                if name and not place:
                    amend(chart, title=alt.TitleParams(name.replace("_", " "), frame="bounds"))
                charts.append(chart)
            for one, cells in zip(words, written, strict=True):
                column = _draw_words(one.heading, [cells[row] for row in rows], request)
                charts.append(amend(column, width=1, height=height))
        each = len(self.axes) + len(words) if across == 1 else across
        whole = alt.concat(*charts, columns=each, align="each", spacing={"row": 12, "column": 10})
        amend(whole, resolve={"scale": {"shape": "shared", "fill": "shared", "stroke": "shared"}})
        return Drawing(whole, [*self.caption, f"{left} more rows matter less" if left else ""])

    def _choose_rows(self, table: HeadTable, rows: list[int], most: int) -> list[int]:
        """Choose the rows that matter most, and sort them; that of all rows together stands first."""
        labels, (p, values) = self.label(table), (read_numbers(table, name) for name in (self.p, self.order))

        def rank(row: int) -> tuple[bool, bool, float]:
            """Rank by p, and where there is none by size; rows of the same p stay as they come."""
            chance = p[row]
            return labels[row] != ALL, chance is None, -abs(values[row] or 0.0) if chance is None else chance

        kept = sorted(rows, key=rank)[:most]
        if not self.order:
            return sorted(kept)
        return sorted(kept, key=lambda row: (labels[row] != ALL, values[row] is None, -(values[row] or 0.0)))

    def _read_axis(self, table: HeadTable, axis: Axis, labels: Sequence[str]) -> list[Record]:
        """Read a record for each point of each row."""
        signs, records = self._find_signs(table), list[Record]()
        more = {f"more{number}": read_numbers(table, name) for number, name in enumerate(self.tooltip)}
        for point in axis.points:
            if point.column not in table.data:
                continue
            low: Sequence[float | None] = [None] * len(table)
            high = low
            if point.ends:
                low, high = (read_numbers(table, f"{point.column}{end}") for end in point.ends)
            elif point.interval:
                low, high = read_intervals(table, table.column(point.column))
            values = read_numbers(table, point.column)
            for row, numbers in enumerate(zip(values, low, high, strict=True)):
                records.append(
                    {
                        "row": row,
                        "name": labels[row],
                        "mark": point.describe(sure=bool(signs[row])),
                        **dict(zip(("value", "low", "high"), numbers, strict=True)),
                        **{name: cells[row] for name, cells in more.items()},
                    }
                )
        return records

    def _find_signs(self, table: HeadTable) -> Sequence[str]:
        """Find which rows are significant: by the p of this kind of table, or else by intervals."""
        if not self.tested:
            return [""] * len(table)
        p = read_numbers(table, self.p)
        if not any(one is not None for one in p):
            return mark_column(table, table.column(self.tested)).signs
        return mark_effects(read_numbers(table, self.tested), [None] * len(table), [], p).signs

    def _draw_axis(
        self,
        axis: Axis,
        data: list[Record],
        x: dict[str, Any],
        y: Any,
        channels: dict[str, Any],
        theme: Theme,
    ) -> Iterator[Any]:
        base = make_chart(data).encode(y=y)
        bars = base.transform_filter("isValid(datum.low)").mark_rule(strokeWidth=1.5, clip=True)
        points = base.transform_filter("isValid(datum.value)").mark_point(size=44, strokeWidth=1.6, opacity=1)
        told = {"name:N": "row", "mark:N": "mark", "value:Q": "value", "low:Q": "low", "high:Q": "high"}
        told |= {f"more{number}:Q": title for number, title in enumerate(self.tooltip.values())}
        if axis.reference is not None:
            zero = make_chart([{"zero": axis.reference}]).mark_rule(strokeDash=[3, 3], color=theme.muted)
            yield zero.encode(x=alt.X("zero:Q", **x))
        yield bars.encode(x=alt.X("low:Q", **x), x2="high:Q", stroke=channels["stroke"])
        yield points.encode(x=alt.X("value:Q", **x), tooltip=make_tooltip(told), **channels)

    def _tell_apart(self, records: Sequence[Sequence[Record]], request: DrawingRequest) -> dict[str, Any]:
        """Make the channels by which marks differ; the legend has those that occur."""
        hues = [*request.theme.categories, request.theme.muted]
        there = {record["mark"] for every in records for record in every if record["value"] is not None}
        looks: dict[str, tuple[str, str, str]] = {}
        for point in (point for axis in self.axes for point in axis.points):
            for sure in (True, False):
                hue, hollow = hues[point.colour], point.is_hollow(sure=sure)
                if (mark := point.describe(sure=sure)) in there:
                    looks.setdefault(mark, (point.shape, request.theme.background if hollow else hue, hue))
        columns = 2 if request.width >= BESIDE else 1
        legend = alt.Legend(title=None, orient="bottom", columns=columns, labelLimit=request.width)
        return tell_marks_apart(looks, legend if len(looks) > 1 else None)


def _make_scale(axis: Axis, records: Sequence[Record], width: float, table: HeadTable) -> dict[str, Any]:
    """Make an axis that holds all numbers and intervals, and what they are compared with."""
    known = [
        record[part] for record in records for part in ("value", "low", "high") if record[part] is not None
    ]
    known += [] if axis.reference is None else [axis.reference]
    ends = list(axis.domain) or round_ends(min(known, default=0.0), max(known, default=1.0))
    ticks = max(2, min(5, int(width // 40)))
    return {
        "title": axis.title if isinstance(axis.title, str) else axis.title(table),
        "scale": alt.Scale(domain=ends, nice=False, zero=False),
        "axis": alt.Axis(tickCount=ticks, format=".2~f", labelOverlap=True),
    }


def _draw_words(heading: str, words: Sequence[str], request: DrawingRequest) -> Any:
    """Draw words beside rows: the labels of an axis, whose width is theirs."""
    size = request.theme.small(1)
    look: dict[str, Any] = {"fontWeight": "normal", "color": request.theme.muted, "fontSize": size}
    chart = make_chart([{"label": word} for word in number_words(words)]).mark_point(opacity=0)
    y = sort_rows(orient="right", offset=0, labelLimit=request.width // 3)
    return amend(chart.encode(y=y), title=alt.TitleParams(heading, anchor="start", **look))


def write_column(name: str) -> Callable[[HeadTable], Sequence[str]]:
    """Make what writes a column of words or whole numbers."""
    return lambda table: [format_cell(cell) for cell in read_cells(table, name)]
