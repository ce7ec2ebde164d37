"""Cells in rows and columns, such as heads by layers: a colour and a number each."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import altair as alt

from attnprobe.reports.charts.figure import Drawing, Figure
from attnprobe.reports.charts.marks import (
    BESIDE,
    amend,
    balance_panels,
    colour_by_value,
    draw_panels,
    make_tooltip,
    stack_charts,
    wrap_words,
)
from attnprobe.reports.charts.places import Places
from attnprobe.reports.columns import (
    DrawingRequest,
    Record,
    name_measure,
    read_numbers,
    title_axis,
    title_tooltip,
)
from attnprobe.reports.scales import Scale, fit_scales, mark_column
from attnprobe.reports.theme import SEQUENTIAL, SMALLEST, Theme, choose_ink, mix_colours
from attnprobe.table.numbers import NumberFormat, choose_format
from attnprobe.table.table import Cell, Column, HeadTable

#: Pixels of the smallest cell, of one that is easy to compare, of one with a sign, and of one with a number.
_SMALLEST, _COMFORTABLE, SIGNED, _NUMBERED = 3, 12, 8, 20
#: About how many pixels stand beside and above a map; a picture that is too large is drawn again with less.
_LABELS, _LEGEND, _ABOVE, _LEGEND_BELOW = 50, 80, 46, 48


@dataclass(frozen=True)
class Sizes:
    """How maps are arranged: so many side by side, of cells so wide and high."""

    side_by_side: int
    wide: int
    high: int


@dataclass(frozen=True, kw_only=True)
class Grid(Figure):
    """A map for each measure, and for each value of what else tells rows apart.

    A measure whose 0 says "no effect" (a difference, a gain; anything with negative values) has two colours
    that part at 0, and a number, or + or -, in each cell whose value differs significantly from 0; the others
    are pale. ``reports.scales`` says where colours begin and end, and what is significant. What is undefined
    is an empty cell; a removed head has none.
    """

    places: Callable[[HeadTable], Places | None]
    x_title: str = "head"
    y_title: str = "layer"
    widest: int = 30
    highest: int = 30
    square: bool = True
    choose: Callable[[HeadTable, DrawingRequest], list[Column]] | None = None

    def columns(self, table: HeadTable, request: DrawingRequest) -> list[Column]:
        return request.columns(table) if self.choose is None else self.choose(table, request)

    def draw(self, table: HeadTable, request: DrawingRequest) -> Drawing:
        """Draw the maps; beside one another, of several measures or else of several values."""
        places = self.places(table)
        assert places is not None  # or the table would not fit
        columns, below = self.columns(table, request), request.width < BESIDE
        single, every = len(places.maps) == 1, len(columns)
        sizes = self.arrange(places, every, request)
        while len(columns) > 1 and min(sizes.wide, sizes.high) < SIGNED:
            columns = columns[:-1]
            sizes = self.arrange(places, len(columns), request)
        scales = fit_scales(table, columns)
        across = sizes.side_by_side if single else 1
        lines = _title_maps(columns, across, request)
        charts, rules = [], []
        for column, title in zip(columns, lines, strict=True):
            content = _read_map(table, column, scales[column.name], places)
            rules += [] if content.rule is None else [_explain_marks(content, sizes)]
            shown = self._draw_map(content, places, sizes, request, below=below)
            charts.append(amend(shown, title=alt.TitleParams(title)))
        chart = stack_charts(charts, across)
        left = every - len(columns)
        more = f"{left} more: name measures with --only" if left else ""
        used = self.measure(places, len(columns), sizes, request)
        return Drawing(chart, [*dict.fromkeys(rules), *self.caption, more], *used)

    def measure(
        self, places: Places, measures: int, sizes: Sizes, request: DrawingRequest
    ) -> tuple[float, float]:
        """Measure about how much room maps of some sizes take, with their labels and legends."""
        below, single = request.width < BESIDE, len(places.maps) == 1
        legends = sizes.side_by_side if single else 1
        wide = sizes.side_by_side * (sizes.wide * len(places.across) + _LABELS)
        rows = math.ceil((measures if single else len(places.maps)) / sizes.side_by_side)
        high = rows * (sizes.high * len(places.down) + _ABOVE)
        if below:
            return wide, high * (1 if single else measures) + _LEGEND_BELOW * (rows if single else measures)
        return wide + _LEGEND * legends, high * (1 if single else measures)

    def arrange(self, places: Places, measures: int, request: DrawingRequest) -> Sizes:
        """Arrange maps: as many side by side as leave comfortable cells, or else with the largest cells."""
        single = len(places.maps) == 1
        number = measures if single else len(places.maps)

        def fit(across: int) -> Sizes:
            across = balance_panels(number, across)
            bare = self.measure(places, measures, Sizes(across, 0, 0), request)
            rows = math.ceil(number / across) * (1 if single else measures)
            wide = min((request.room - bare[0]) / across / len(places.across), self.widest)
            tall = min((request.high - bare[1]) / rows / len(places.down), self.highest)
            if self.square:
                wide = tall = min(wide, tall)
            return Sizes(across, max(_SMALLEST, int(wide)), max(_SMALLEST, int(tall)))

        choices = [fit(across) for across in range(min(number, 3 if single else 10), 0, -1)]
        comfortable = (one for one in choices if one.wide >= min(_COMFORTABLE, self.widest / 2))
        return next(comfortable, max(choices, key=lambda one: one.wide))

    def encode_places(self, places: Places) -> dict[str, Any]:
        """Make the channels of places: columns across, rows down; gaps where a cell is missing."""
        long = any(isinstance(label, str) and len(label) > 3 for label in places.across)
        axis = alt.Axis(labelAngle=-60 if long else 0, labelLimit=80, labelOverlap="greedy")
        down = alt.Axis(labelOverlap="greedy")
        return {
            "x": alt.X("x:O", title=self.x_title, axis=axis, scale=_make_band(places.across)),
            "y": alt.Y("y:O", title=self.y_title, axis=down, scale=_make_band(places.down)),
        }

    def lay_out(self, layers: Sequence[Any], data: list[Record], places: Places, sizes: Sizes) -> Any:
        size = {"width": sizes.wide * len(places.across), "height": sizes.high * len(places.down)}
        chart = amend(alt.layer(*layers), **size)
        return draw_panels(chart, data, places.maps, sizes.side_by_side)

    def _draw_map(
        self, content: "_Content", places: Places, sizes: Sizes, request: DrawingRequest, *, below: bool
    ) -> Any:
        length = min(
            max(sizes.wide * len(places.across) if below else sizes.high * len(places.down), 60), 140
        )
        values = [record["value"] for record in content.data]
        colour = colour_by_value(content.column, content.scale, values, length, request.theme, below=below)
        several = {"panel:N": "of"} if len(places.maps) > 1 else {}
        tooltip = make_tooltip(
            {
                **several,
                "y:O": self.y_title,
                "x:O": self.x_title,
                "value:Q": title_tooltip(title_axis(content.column)),
                **{
                    f"{name}:Q": title
                    for name, title in (("error", "standard error"), ("n", "n"))
                    if any(record[name] is not None for record in content.data)
                },
            }
        )
        base = alt.Chart().encode(**self.encode_places(places))
        known = base.transform_filter("isValid(datum.value)")
        opacity = alt.condition("datum.pale", alt.value(0.3), alt.value(1))
        layers = [known.mark_rect().encode(color=colour, fillOpacity=opacity, tooltip=tooltip)]
        if None in values:
            empty = base.transform_filter("!isValid(datum.value)").mark_rect(
                fill=None, stroke=request.theme.muted, strokeWidth=0.6, strokeDash=[2, 2]
            )
            layers.append(empty.encode(tooltip=tooltip))
        if size := _choose_text_size(sizes, request.theme):
            _write_cells(content, request.theme, numbers=min(sizes.wide, sizes.high) >= _NUMBERED)
            text = base.transform_filter("datum.text").mark_text(baseline="middle", fontSize=size)
            layers.append(text.encode(text="text:N", fill=alt.Fill("ink:N", scale=None)))
        return self.lay_out(layers, content.data, places, sizes)


def _title_maps(columns: Sequence[Column], across: int, request: DrawingRequest) -> list[list[str]]:
    """Title each measure; in as many lines as the longest title of those that stand side by side."""
    width = max(request.room / across - _LABELS, 90)
    titles = [wrap_words(name_measure(column), width, request.theme.size) for column in columns]
    levelled = []
    for first in range(0, len(titles), across):
        row = titles[first : first + across]
        lines = max(map(len, row))
        levelled += [[""] * (lines - len(title)) + title for title in row]
    return levelled


@dataclass(frozen=True)
class _Content:
    """What a map shows, and by what rule its effects are significant; None of a measure that is no effect."""

    column: Column
    scale: Scale
    data: list[Record]
    rule: str | None


def _read_map(table: HeadTable, column: Column, scale: Scale, places: Places) -> _Content:
    marks, data = mark_column(table, column), places.records()
    effect = scale.is_of_effects and bool(marks.rule)
    counts = f"{column.name}_n" if f"{column.name}_n" in table.data else "n"
    names = {"value": column.name, "error": f"{column.name}_se", "n": counts}
    columns: dict[str, Sequence[Any]] = {name: read_numbers(table, one) for name, one in names.items()}
    columns |= {"sign": marks.signs if effect else [""] * len(data)}
    columns |= {"pale": marks.pale if effect else [False] * len(data)}
    for name, cells in columns.items():
        for record, cell in zip(data, cells, strict=True):
            record[name] = cell
    return _Content(column, scale, data, marks.rule if effect else None)


def _explain_marks(content: _Content, sizes: Sizes) -> str:
    side = min(sizes.wide, sizes.high)
    marks = "numbers" if side >= _NUMBERED else "+ \u2212" if side >= SIGNED else "full colour"
    return f"{marks}: {content.rule}, else pale"


def _choose_text_size(sizes: Sizes, theme: Theme) -> int | None:
    """Choose the size of numbers or signs; None where cells have no room for either."""
    side = min(sizes.wide, sizes.high)
    if side >= _NUMBERED:
        return max(SMALLEST, min(int(0.4 * side), theme.small(1)))
    return max(SMALLEST, side - 3) if side >= SIGNED else None


def _write_cells(content: _Content, theme: Theme, *, numbers: bool) -> None:
    """Put numbers or signs into the data, in black or white; of effects, only where they are significant."""
    effect = content.scale.is_of_effects
    shown = [None if record["pale"] else record["value"] for record in content.data]
    texts = write_numbers(shown, signed=effect) if numbers else [""] * len(shown)
    ramp = theme.diverging if effect else SEQUENTIAL
    for record, text in zip(content.data, texts, strict=True):
        if record["value"] is not None:
            ink = choose_ink(mix_colours(ramp, content.scale.place(record["value"])))
            record |= {"text": text or record["sign"], "ink": ink}


def write_numbers(values: Sequence[float | int | None], *, signed: bool) -> list[str]:
    r"""Write numbers in about four characters: with two digits of the largest, without the 0 of a share.

    One that would be 0 has its sign alone. Where no number would have a digit, none is written.

    >>> write_numbers([0.914, 0.05, None, 0.0], signed=False)
    ['.91', '.05', '', '0']
    >>> write_numbers([-0.321, 0.0004, 0.12], signed=True)
    ['\u2212.32', '+', '+.12']
    """
    known = [value for value in values if value is not None]
    chosen = choose_format(known, digits=2, most_decimals=4)
    if chosen.exponent or not any(known):
        return [""] * len(values)
    return ["" if value is None else _write_number(value, chosen, signed=signed) for value in values]


def _write_number(value: float, chosen: NumberFormat, *, signed: bool) -> str:
    sign = "\u2212" if value < 0 else "+" if signed and value else ""
    digits = chosen.write(abs(value))
    if not float(digits):
        return sign or "0"
    return f"{sign}{digits.removeprefix('0') if '.' in digits else digits}"


def _make_band(labels: Sequence[Cell]) -> alt.Scale:
    """Make the scale of rows or columns: a cell each, with a little air between."""
    return alt.Scale(domain=list(labels), paddingInner=0.06, paddingOuter=0.03)
