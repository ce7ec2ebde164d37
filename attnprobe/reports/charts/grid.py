"""Cells in rows and columns, such as heads by layers: a colour and a number each."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import altair as alt

from attnprobe.reports.charts.channels import (
    BESIDE,
    amend,
    balance_panels,
    colour_by_value,
    draw_panels,
    make_records,
    make_tooltip,
    stack_charts,
    wrap_words,
    write_numbers,
)
from attnprobe.reports.charts.figure import Drawing, Figure
from attnprobe.reports.charts.places import Places, place_heads
from attnprobe.reports.columns import (
    DrawingRequest,
    Record,
    name_measure,
    read_cells,
    read_fields,
    read_numbers,
    title_axis,
    title_tooltip,
)
from attnprobe.reports.scales import Scale, find_significant, fit_scales
from attnprobe.reports.theme import SEQUENTIAL, SMALLEST, choose_ink, mix_colours
from attnprobe.table.cells import format_cell
from attnprobe.table.naming import ROLE_MARKS, find_role_kind, title_roles
from attnprobe.table.table import Column, HeadTable

#: Pixels of the smallest cell, of one that is easy to compare, of one with a sign, and of one with a number.
_SMALLEST, _COMFORTABLE, _SIGNED, _NUMBERED = 3, 12, 8, 20
#: Columns of the tooltip of a role, with their types.
_ROLE_DETAILS = ("role:N", "measure:N", "value:Q", "value_se:Q", "threshold:Q", "also:N", "pattern:N")


class Cells(NamedTuple):
    """How maps are arranged: so many side by side, of cells so wide and high, in pixels."""

    places: Places
    request: DrawingRequest
    across: int
    wide: int
    high: int

    @property
    def side(self) -> int:
        return min(self.wide, self.high)


@dataclass(frozen=True, kw_only=True)
class Grid(Figure):
    """A map for each measure, and for each kind of attention or whatever else tells maps apart.

    An effect (a difference, a gain, anything with negative values) has two colours that part at 0. Each cell
    whose effect is significant has a number, or + or -; the others are pale. ``reports.scales`` says where
    colours begin and end, and what is significant. An undefined number is an empty cell; a removed head has
    no cell.
    """

    places: Callable[[HeadTable], Places | None] = place_heads
    x_title: str = "head"
    y_title: str = "layer"
    widest: int = 30
    highest: int = 30
    square: bool = True
    choose: Callable[[HeadTable, DrawingRequest], list[Column]] = lambda table, ask: ask.columns(table)

    def draw(self, table: HeadTable, request: DrawingRequest) -> Drawing:
        """Draw the maps of each measure; while cells are too small, the last measures are left out."""
        places = self.places(table)
        assert places is not None  # or the table would not fit
        every = columns = self.choose(table, request)
        while (cells := self.arrange(places, len(columns), request)).side < _SIGNED and len(columns) > 1:
            columns = columns[:-1]
        across = cells.across if len(places.maps) == 1 else 1
        scales, charts, rules = fit_scales(table, columns), [], []
        for column, title in zip(columns, _title_maps(columns, across, request), strict=True):
            data, rule = _read_map(table, column, scales[column.name], cells)
            chart = self._draw_map(column, scales[column.name], data, cells)
            charts.append(amend(chart, title=alt.TitleParams(title)))
            rules.append(rule)
        left = len(every) - len(columns)
        more = f"{left} more: name measures with --only" if left else ""
        return Drawing(stack_charts(charts, across), [*dict.fromkeys(rules), *self.caption, more])

    def arrange(self, places: Places, measures: int, request: DrawingRequest) -> Cells:
        """Arrange maps: as many side by side as leave comfortable cells, or else with the largest cells."""
        single, below = len(places.maps) == 1, request.width < BESIDE
        number, blocks = (measures, 1) if single else (len(places.maps), measures)

        def fit_cells(most: int) -> Cells:
            across = balance_panels(number, most)
            rows = blocks * math.ceil(number / across)
            # What stands beside and above maps: labels, titles, legends.
            beside = 50 * across + (0 if below else 80 * (across if single else 1))
            above = 46 * rows + (48 * (rows if single else blocks) if below else 0)
            wide = min((request.room - beside) / across / len(places.across), self.widest)
            high = min((request.high - above) / rows / len(places.down), self.highest)
            if self.square:
                wide = high = min(wide, high)
            return Cells(places, request, across, max(_SMALLEST, int(wide)), max(_SMALLEST, int(high)))

        choices = [fit_cells(across) for across in range(min(number, 3 if single else 10), 0, -1)]
        comfortable = (cells for cells in choices if cells.wide >= min(_COMFORTABLE, self.widest / 2))
        return next(comfortable, max(choices, key=lambda cells: cells.wide))

    def encode_places(self, places: Places) -> dict[str, Any]:
        """Make the channels of places: columns across, rows down; gaps where a cell is missing."""
        long = any(isinstance(label, str) and len(label) > 3 for label in places.across)
        axis = alt.Axis(labelAngle=-60 if long else 0, labelLimit=80, labelOverlap="greedy")
        x, y = (
            alt.Scale(domain=list(labels), paddingInner=0.06, paddingOuter=0.03)
            for labels in (places.across, places.down)
        )
        return {
            "x": alt.X("x:O", title=self.x_title, axis=axis, scale=x),
            "y": alt.Y("y:O", title=self.y_title, axis=alt.Axis(labelOverlap="greedy"), scale=y),
        }

    def name_places(self, places: Places) -> dict[str, str]:
        """Title the lines of a tooltip that say where a cell is."""
        several = {"panel:N": "of"} if len(places.maps) > 1 else {}
        return {**several, "y:O": self.y_title, "x:O": self.x_title}

    def lay_out(self, layers: Sequence[Any], data: list[Record], cells: Cells) -> Any:
        places = cells.places
        size = {"width": cells.wide * len(places.across), "height": cells.high * len(places.down)}
        return draw_panels(amend(alt.layer(*layers), **size), data, places.maps, cells.across)

    def _draw_map(self, column: Column, scale: Scale, data: list[Record], cells: Cells) -> Any:
        places, request, theme = cells.places, cells.request, cells.request.theme
        told = {"value:Q": title_tooltip(title_axis(column)), "error:Q": "standard error", "n:Q": "n"}
        known = [name for name in told if any(record[name[:-2]] is not None for record in data)]
        titles = {name: title for name, title in told.items() if name in known or name == "value:Q"}
        tooltip = make_tooltip({**self.name_places(places), **titles})
        below = request.width < BESIDE
        length = cells.wide * len(places.across) if below else cells.high * len(places.down)
        colour = colour_by_value(column, scale, [record["value"] for record in data], length, request)
        base = alt.Chart().encode(**self.encode_places(places))
        opacity = alt.condition("datum.pale", alt.value(0.3), alt.value(1))
        shaded = base.transform_filter("isValid(datum.value)").mark_rect()
        layers = [shaded.encode(color=colour, fillOpacity=opacity, tooltip=tooltip)]
        if any(record["value"] is None for record in data):
            look: dict[str, Any] = {"fill": None, "strokeWidth": 0.6, "strokeDash": [2, 2]}
            empty = base.transform_filter("!isValid(datum.value)").mark_rect(stroke=theme.muted, **look)
            layers.append(empty.encode(tooltip=tooltip))
        if any(record.get("text") for record in data):
            numbered = cells.side >= _NUMBERED
            size = min(int(0.4 * cells.side), theme.small(1)) if numbered else cells.side - 3
            text = base.transform_filter("datum.text")
            text = text.mark_text(baseline="middle", fontSize=max(SMALLEST, size))
            layers.append(text.encode(text="text:N", fill=alt.Fill("ink:N", scale=None)))
        return self.lay_out(layers, data, cells)


def _title_maps(columns: Sequence[Column], across: int, request: DrawingRequest) -> list[list[str]]:
    """Title each measure, as lines: empty ones above make titles that stand side by side equally high."""
    width = max(request.room / across - 50, 90)
    titles = [wrap_words(name_measure(column), width, request.theme.size) for column in columns]
    lines = [max(map(len, titles[at - at % across :][:across])) for at in range(len(titles))]
    return [[""] * (number - len(title)) + title for number, title in zip(lines, titles, strict=True)]


def _read_map(table: HeadTable, column: Column, scale: Scale, cells: Cells) -> tuple[list[Record], str]:
    """Read a record for each cell, with a number or sign if there is room, and a caption of what these mark.

    Of effects, only those that are significant have numbers.
    """
    marks, values, side = find_significant(table, column), read_numbers(table, column.name), cells.side
    effect = scale.is_of_effects and bool(marks.rule)
    counts = f"{column.name}_n" if f"{column.name}_n" in table.data else "n"
    signs, pale = (marks.signs, marks.pale) if effect else ([""] * len(table), [False] * len(table))
    places, errors = cells.places, read_numbers(table, f"{column.name}_se")
    columns: dict[str, Sequence[Any]] = {"panel": places.panel, "x": places.x, "y": places.y, "value": values}
    columns |= {"error": errors, "n": read_numbers(table, counts), "sign": signs, "pale": pale}
    if side >= _SIGNED:
        shown = [None if faint else value for value, faint in zip(values, pale, strict=True)]
        texts = write_numbers(shown, signed=scale.is_of_effects) if side >= _NUMBERED else signs
        columns["text"] = [text or sign for text, sign in zip(texts, signs, strict=True)]
        ramp = cells.request.theme.diverging if scale.is_of_effects else SEQUENTIAL
        columns["ink"] = [choose_ink(mix_colours(ramp, scale.place(value or 0.0))) for value in values]
    looks = "numbers" if side >= _NUMBERED else "+ \u2212" if side >= _SIGNED else "full colour"
    return make_records(columns), f"{looks}: {marks.rule}, else pale" if effect else ""


@dataclass(frozen=True, kw_only=True)
class Roles(Grid):
    """A map of roles: a letter and a colour each; the legend says how many heads have it."""

    def draw(self, table: HeadTable, request: DrawingRequest) -> Drawing:
        places = self.places(table)
        assert places is not None  # or the table would not fit
        theme, cells = request.theme, self.arrange(places, 1, request)
        kinds = [find_role_kind(format_cell(cell)) for cell in read_cells(table, "role")]
        details = [field for field in _ROLE_DETAILS if field[:-2] in table.data]
        titles = title_roles(kinds)
        columns: dict[str, Sequence[Any]] = {
            **read_fields(table, details),
            **{"panel": places.panel, "x": places.x, "y": places.y, "kind": [titles[kind] for kind in kinds]},
            "letter": [ROLE_MARKS[kind].letter for kind in kinds],
            "ink": ["#000000" if ROLE_MARKS[kind].colour else theme.muted for kind in kinds],
        }
        data = make_records(columns)
        hues = [ROLE_MARKS[kind].colour or theme.grid for kind in titles]
        look: dict[str, Any] = {"orient": "bottom", "columns": 2} if request.width < BESIDE else {}
        legend = alt.Legend(title="role (heads)", symbolType="square", **look)
        colour = alt.Color("kind:N", scale=alt.Scale(domain=[*titles.values()], range=hues), legend=legend)
        told = {field: field[:-2].replace("_se", " error") for field in details}
        tooltip = make_tooltip({**self.name_places(places), **told})
        base = alt.Chart().encode(**self.encode_places(places))
        layers = [base.mark_rect().encode(color=colour, tooltip=tooltip)]
        if cells.wide >= _SIGNED:
            size = max(SMALLEST, min(cells.wide - 6, theme.size + 1))
            letter = base.mark_text(baseline="middle", fontSize=size)
            layers.append(letter.encode(text="letter:N", fill=alt.Fill("ink:N", scale=None)))
        return Drawing(self.lay_out(layers, data, cells), self.caption)
