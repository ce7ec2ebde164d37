"""A line a row: numbers with intervals beside what they are compared with, and words beside them."""

from collections.abc import Callable, Mapping, Sequence
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
from attnprobe.table.head_table import HeadTable

#: The label of all rows together, which stands first.
ALL = "all"
#: Pixels of a row, of what stands above and below the rows of a panel, and of an axis at least.
_ROW, _AROUND, _LEAST = 17, 52, 40
#: About how many pixels a panel takes at least where several are side by side.
_PANEL = 150
#: Most characters of a label.
_LONGEST = 36
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
        panels = list(dict.fromkeys(panel := self.panel(table)))
        across = 1
        if self.side_by_side > 1:
            across = max(1, min(self.side_by_side, len(panels), int(request.room // _PANEL)))
        every, panels = panels, panels[: across * max(1, int(request.high // (_AROUND + 3 * _ROW)))]
        lines = -(-len(panels) // across)
        room = max(3, int((request.high / lines - _AROUND) // _ROW))
        rows = {name: [row for row, own in enumerate(panel) if own == name] for name in panels}
        kept = {name: self._choose_rows(table, own, room) for name, own in rows.items()}
        columns = self._read(table)
        words = [one for one in self.words if request.width >= BESIDE or not one.wide]
        width = max(_LEAST, request.room / (len(self.axes) * across))
        charts = []
        for number, (name, own) in enumerate(kept.items()):
            labelled = number % across == 0
            charts += self._draw_panel(columns, own, name, width, words, request, labelled=labelled)
        each = len(self.axes) + len(words) if across == 1 else across
        whole = alt.concat(*charts, columns=each, align="each", spacing={"row": 12, "column": 10})
        amend(whole, resolve={"scale": {"shape": "shared", "fill": "shared", "stroke": "shared"}})
        left = len(table) - sum(map(len, kept.values()))
        named = f"rows of {len(every) - len(panels)} more panels" if len(every) > len(panels) else "more rows"
        more = f"{left} {named} matter less" if left else ""
        return Drawing(whole, [*self.caption, more])

    def _choose_rows(self, table: HeadTable, rows: list[int], most: int) -> list[int]:
        """Choose the rows that matter most, and sort them; that of all rows together stands first."""
        labels, (p, values) = self.label(table), (read_numbers(table, name) for name in (self.p, self.order))

        def rank(row: int) -> tuple[bool, bool, float]:
            value = p[row] if p[row] is not None else None
            return labels[row] != ALL, value is None, value or -abs(values[row] or 0.0)

        kept = sorted(rows, key=rank)[:most] if len(rows) > most else rows
        if not self.order:
            return sorted(kept)
        return sorted(kept, key=lambda row: (labels[row] != ALL, values[row] is None, -(values[row] or 0.0)))

    def _read(self, table: HeadTable) -> dict[str, Sequence[Any]]:
        """Read what is drawn: of each point its numbers, ends and marks, by the name of its column."""
        signs = self._find_signs(table)
        columns: dict[str, Sequence[Any]] = {"label": [label[:_LONGEST] for label in self.label(table)]}
        for point in (point for axis in self.axes for point in axis.points):
            if point.column not in table.data:
                continue
            values = read_numbers(table, point.column)
            if point.ends:
                low, high = (read_numbers(table, f"{point.column}{end}") for end in point.ends)
            elif point.interval:
                low, high = read_intervals(table, table.column(point.column))
            else:
                low = high = [None] * len(table)
            marks = [_name_mark(point, sure=bool(sign)) for sign in signs]
            columns |= {
                f"{point.column} {part}": cells
                for part, cells in (("value", values), ("low", low), ("high", high), ("mark", marks))
            }
        for column in self.tooltip:
            columns[f"more {column}"] = read_numbers(table, column)
        for words in self.words:
            columns[f"words {words.heading}"] = words.write(table)
        for axis in self.axes:
            columns[f"title {axis.points[0].column}"] = [
                axis.title if isinstance(axis.title, str) else axis.title(table)
            ]
        return columns

    def _find_signs(self, table: HeadTable) -> Sequence[str]:
        """Find which rows are significant: by the p of this kind of table, or else by intervals."""
        if not self.tested:
            return [""] * len(table)
        p = read_numbers(table, self.p)
        if not any(one is not None for one in p):
            return mark_column(table, table.column(self.tested)).signs
        return mark_effects(read_numbers(table, self.tested), [None] * len(table), [], p).signs

    def _draw_panel(
        self,
        columns: Mapping[str, Sequence[Any]],
        rows: list[int],
        name: str,
        width: float,
        words: Sequence[Words],
        request: DrawingRequest,
        *,
        labelled: bool,
    ) -> list[Any]:
        """Draw a chart for each axis, and one for each column of words, which is labels alone."""
        theme = request.theme
        labels = number_words([columns["label"][row] for row in rows])
        height = alt.Step(_ROW)
        charts = []
        for place, axis in enumerate(self.axes):
            data = _make_records(self, axis, columns, rows, labels)
            y = sort_rows(grid=True, labelLimit=max(60, request.width // 3))
            if place or not labelled:
                y = y.axis(labels=False, ticks=False, domain=False, grid=True)
            layers = self._draw_axis(axis, columns, data, y, width, request)
            heading = alt.TitleParams(name.replace("_", " "), frame="bounds")
            named = {"title": heading} if name and not place else {}
            charts.append(amend(alt.layer(*layers), width=width, height=height, **named))
        look: dict[str, Any] = {
            "anchor": "start",
            "fontWeight": "normal",
            "color": theme.muted,
            "fontSize": theme.small(1),
        }
        for one in words:
            written = number_words([columns[f"words {one.heading}"][row] for row in rows])
            beside = make_chart([{"label": word} for word in written]).mark_point(opacity=0)
            y = sort_rows(orient="right", offset=0, labelLimit=request.width // 3)
            title = alt.TitleParams(one.heading, **look)
            charts.append(amend(beside.encode(y=y), width=1, height=height, title=title))
        return charts

    def _draw_axis(
        self,
        axis: Axis,
        columns: Mapping[str, Sequence[Any]],
        data: list[Record],
        y: Any,
        width: float,
        request: DrawingRequest,
    ) -> list[Any]:
        theme = request.theme
        ends = list(axis.domain) or _find_ends(axis, columns)
        ticks = max(2, min(5, int(width // 40)))
        x: dict[str, Any] = {
            "title": columns[f"title {axis.points[0].column}"][0],
            "scale": alt.Scale(domain=ends, nice=False, zero=False),
            "axis": alt.Axis(tickCount=ticks, format=".2~f", labelOverlap=True),
        }
        channels = self._make_looks(columns, theme, request)
        base = make_chart(data).encode(y=y)
        bars = base.transform_filter("isValid(datum.low)").mark_rule(strokeWidth=1.5, clip=True)
        points = base.transform_filter("isValid(datum.value)").mark_point(size=44, strokeWidth=1.6, opacity=1)
        titles = {
            "name:N": "row",
            "mark:N": "mark",
            "value:Q": "value",
            "low:Q": "low",
            "high:Q": "high",
            **{f"more{number}:Q": title for number, title in enumerate(self.tooltip.values())},
        }
        layers = []
        if axis.reference is not None:
            zero = make_chart([{"zero": axis.reference}]).mark_rule(strokeDash=[3, 3], color=theme.muted)
            layers.append(zero.encode(x=alt.X("zero:Q", **x)))
        layers.append(bars.encode(x=alt.X("low:Q", **x), x2="high:Q", stroke=channels["stroke"]))
        layers.append(points.encode(x=alt.X("value:Q", **x), tooltip=make_tooltip(titles), **channels))
        return layers

    def _make_looks(
        self, columns: Mapping[str, Sequence[Any]], theme: Theme, request: DrawingRequest
    ) -> dict[str, Any]:
        """Make the channels by which marks differ; the legend has those that occur."""
        looks: dict[str, tuple[str, str, str]] = {}
        hues = [*theme.categories, theme.muted]
        for point in (point for axis in self.axes for point in axis.points):
            hue = hues[point.colour]
            if f"{point.column} mark" not in columns:
                continue
            marks = zip(columns[f"{point.column} mark"], columns[f"{point.column} value"], strict=True)
            there = {mark for mark, value in marks if value is not None}
            for sure in (True, False):
                filled = (
                    (sure and point.tested)
                    or point.shape == TICK
                    or not (point.tested or point.shape != "circle")
                )
                if (mark := _name_mark(point, sure=sure)) in there:
                    looks.setdefault(mark, (point.shape, hue if filled else theme.background, hue))
        single = len(looks) == 1
        columns_of_legend = 2 if request.width >= BESIDE else 1
        legend = alt.Legend(title=None, orient="bottom", columns=columns_of_legend, labelLimit=request.width)
        return tell_marks_apart(looks, None if single else legend)


def _name_mark(point: Point, *, sure: bool) -> str:
    if not point.tested:
        return point.name
    return f"{point.name}: adjusted p < {SIGNIFICANT}" if sure else f"{point.name}: not significant"


def _make_records(
    figure: Forest, axis: Axis, columns: Mapping[str, Sequence[Any]], rows: list[int], labels: Sequence[str]
) -> list[Record]:
    more = {f"more{number}": columns[f"more {name}"] for number, name in enumerate(figure.tooltip)}
    return [
        {
            "label": label,
            "name": columns["label"][row],
            **{part: columns[f"{point.column} {part}"][row] for part in ("value", "low", "high", "mark")},
            **{name: cells[row] for name, cells in more.items()},
        }
        for point in axis.points
        if f"{point.column} value" in columns
        for row, label in zip(rows, labels, strict=True)
    ]


def _find_ends(axis: Axis, columns: Mapping[str, Sequence[Any]]) -> list[float]:
    """Find ends that hold all numbers and intervals, and what they are compared with."""
    names = [f"{point.column} {part}" for point in axis.points for part in ("value", "low", "high")]
    known = [value for name in names for value in columns.get(name, ()) if value is not None]
    known += [] if axis.reference is None else [axis.reference]
    return round_ends(min(known, default=0.0), max(known, default=1.0))


def write_column(name: str) -> Callable[[HeadTable], Sequence[str]]:
    """Make what writes a column of words or whole numbers."""
    return lambda table: [format_cell(cell) for cell in read_cells(table, name)]
