"""Heads as cells of a map: a colour and a number each."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import altair as alt

from attnprobe.reports.columns import (
    DrawingRequest,
    Record,
    has_measures,
    make_title,
    name_measure,
    read_cells,
    read_numbers,
    read_with_errors,
    title_axis,
    title_tooltip,
)
from attnprobe.reports.pictures.cells import (
    MOST_NUMBERED,
    Numbers,
    draw_numbers,
    number_cells,
    write_numbers,
)
from attnprobe.reports.pictures.channels import (
    level_titles,
    make_band,
    make_colour_scale,
    make_legend,
    make_tooltip,
    thin_labels,
)
from attnprobe.reports.scales import Scale, fit_scales, mark_column
from attnprobe.reports.shapes import Grid, lay_out_grid
from attnprobe.reports.theme import SMALLEST, Theme
from attnprobe.table.head_table import HeadTable
from attnprobe.table.table import Column

LAYER, HEAD = "layer", "head"
#: Pixels of a cell; below ``_SIGNED`` there is no room for a sign in it.
_LARGEST, _COMFORTABLE, _BESIDE_OTHERS, _SMALLEST = 30, 14, 6, 3
SIGNED = 8
#: A map is given so many pixels at least, or its title would be a column of words.
_LEAST = 200
#: Room for the names of layers beside a map, and for its legend.
_BESIDE, _LEGEND = 46, 78
#: Without a legend beside, maps may even take some of the room between measures; more maps keep theirs.
NO_LEGEND, _COMPARED = -14, 4
#: Room between maps that share a legend.
_BETWEEN = 26
#: More maps than this of one measure go without the names of layers and heads.
MANY = 12


def place_heads(table: HeadTable, grid: Grid) -> list[Record]:
    """Begin the data of a chart: the place of each row."""
    rows = zip(grid.places, read_cells(table, LAYER), read_cells(table, HEAD), strict=True)
    return [{"place": place, "layer": layer, "head": head} for place, layer, head in rows]


@dataclass(frozen=True)
class Sizes:
    """Sizes that fit the width of a picture."""

    cell: int
    across: int  # maps of one measure side by side
    measures: int  # measures side by side


def choose_sizes(grid: Grid, measures: int, request: DrawingRequest, legend: float = _LEGEND) -> Sizes:
    """Choose how many maps stand side by side: as many as leave comfortable cells, or else fewer."""
    maps, heads = len(grid.maps), len(grid.heads)

    def cell(across: int, columns: int) -> int:
        room = request.width / columns - legend - (_BESIDE if maps <= MANY else 0) - _BETWEEN
        return int((room / across - _BETWEEN * (across > 1)) / heads)

    if maps == 1:
        most = min(measures, 3, max(1, request.width // _LEAST))
        columns = next((c for c in range(most, 1, -1) if cell(1, c) >= _COMFORTABLE), min(most, 2))
        if cell(1, columns) < SIGNED:
            columns = 1
        return Sizes(_clip_cell(cell(1, columns)), 1, columns)
    wanted = _BESIDE_OTHERS if maps <= MANY else 5  # to compare, maps belong side by side
    across = next((a for a in range(min(maps, 10), 1, -1) if cell(a, 1) >= wanted), 1)
    return Sizes(_clip_cell(cell(across, 1)), across, 1)


def _clip_cell(cell: int) -> int:
    return max(_SMALLEST, min(cell, _LARGEST))


def make_axes(grid: Grid, cell: int) -> dict[str, Any]:
    """Make the channels of a map: heads across, layers down; gaps where a head is missing."""
    named = len(grid.maps) <= MANY
    x = alt.Axis(labelAngle=0, values=thin_labels(grid.heads, cell)) if named else None
    y = alt.Axis(labelAngle=0, values=thin_labels(grid.layers, cell, 0)) if named else None
    return {
        "x": alt.X("head:O", title="head" if named else None, axis=x, scale=make_band(grid.heads)),
        "y": alt.Y("layer:O", title="layer" if named else None, axis=y, scale=make_band(grid.layers)),
    }


def draw_several(chart: Any, grid: Grid, sizes: Sizes, data: list[Record], title: Any) -> Any:
    """Draw the maps of one measure beside each other where there are several."""
    width, height = sizes.cell * len(grid.heads), sizes.cell * len(grid.layers)
    chart, titled = chart.properties(width=width, height=height), {} if title is None else {"title": title}
    if len(grid.maps) == 1:
        return chart.properties(data=alt.InlineData(values=data), **titled)
    header = alt.Header(
        title=None, labelOrient="top", labelAnchor="start", labelPadding=4, labelLimit=max(width + 12, 76)
    )
    facet = alt.Facet("place:N", sort=grid.maps, header=header, title=None)
    faceted = chart.facet(facet=facet, columns=sizes.across, data=alt.InlineData(values=data))
    return faceted.properties(**titled)


#: How much of its colour an effect keeps that does not differ significantly from 0.
PALE = 0.3


def can_draw_heatmap(table: HeadTable) -> bool:
    """Tell whether each head is there once, with a number."""
    return has_measures(table) and lay_out_grid(table) is not None


def draw_heatmap(table: HeadTable, request: DrawingRequest) -> Any:
    """Draw a map for each measure.

    A measure whose 0 says "no effect" (a difference, a gain; anything with negative values) has two colours
    that part at 0, and a sign, + or -, in each head whose value differs significantly from 0; the others are
    pale. ``reports.scales`` says where colours begin and end, and what is significant. What is undefined is
    an empty cell; a removed head has none.
    """
    return draw_maps(table, request, request.columns(table))


def draw_maps(
    table: HeadTable, request: DrawingRequest, columns: list[Column], remarks: Mapping[str, str] | None = None
) -> Any:
    """Draw maps of some columns, with remarks on some."""
    grid = lay_out_grid(table)
    assert grid is not None  # or the table would not fit
    scales = fit_scales(table, columns)
    contents = [
        replace(_read_map(table, column, scales[column.name]), remark=(remarks or {}).get(column.name, ""))
        for column in columns
    ]
    layout = _lay_out_maps(grid, contents, request)
    titles = [_title_map(one, layout, request) for one in contents]
    across = layout.sizes.measures
    for first in range(0, len(titles), across):
        level_titles(titles[first : first + across], request.theme)
    charts = [_draw_map(one, layout, request, title) for one, title in zip(contents, titles, strict=True)]
    if len(charts) == 1:
        return charts[0]
    return alt.concat(*charts, columns=layout.sizes.measures).resolve_scale(color="independent")


@dataclass(frozen=True)
class _Content:
    """What a map shows: its rows, with marks, and how numbers are written in cells."""

    column: Column
    scale: Scale
    grid: Grid
    data: list[Record]
    rule: str  # by which effects are significant; empty where nothing says it
    numbers: list[Numbers]
    remark: str = ""  # what is said of the column


@dataclass(frozen=True)
class _Layout:
    """The sizes of maps, and where their legends stand."""

    sizes: Sizes
    below: bool  # whether legends do


def _read_map(table: HeadTable, column: Column, scale: Scale) -> _Content:
    grid = lay_out_grid(table)
    assert grid is not None  # or the table would not fit
    values, errors = read_with_errors(table, column.name)
    counts = read_numbers(table, f"{column.name}_n" if f"{column.name}_n" in table.data else "n")
    data = place_heads(table, grid)
    for record, value, error, count in zip(data, values, errors, counts, strict=True):
        record |= {"value": value, "error": error, "n": count}
    effect = scale.is_of_effects
    rule = _mark_effects(table, column, data) if effect else ""
    # Where effects are pale, cells have no number.
    shown = [None if record.get("pale") else record["value"] for record in data]
    numbers = write_numbers(shown, signed=effect)
    return _Content(column, scale, grid, data, rule, numbers)


def _lay_out_maps(grid: Grid, contents: list[_Content], request: DrawingRequest) -> _Layout:
    """Choose sizes; legends stand below where that gives more maps room for their numbers."""
    measures = len(contents)
    beside = _Layout(choose_sizes(grid, measures, request), below=False)
    if len(grid.maps) > _COMPARED or len(grid.heads) > MOST_NUMBERED:
        return beside

    def count_numbered(layout: _Layout) -> int:
        return sum(any(one.fit(layout.sizes.cell, SMALLEST) for one in each.numbers) for each in contents)

    under = _Layout(choose_sizes(grid, measures, request, NO_LEGEND), below=True)
    return under if count_numbered(under) > count_numbered(beside) else beside


def _title_map(content: _Content, layout: _Layout, request: DrawingRequest) -> Any:
    marked = ""
    if content.rule:
        numbered = _fit_numbers(content, layout.sizes.cell, request.theme) is not None
        marks = "numbers" if numbered else "+ \u2212" if _is_signed(content, layout) else "full colour"
        marked = f"{marks}: {content.rule}, else pale"
    width, size = request.width / layout.sizes.measures - _BESIDE, request.theme.size
    return make_title(name_measure(content.column), content.remark, marked, width=width, size=size)


def _is_signed(content: _Content, layout: _Layout) -> bool:
    return layout.sizes.cell >= SIGNED and any(record.get("sign") for record in content.data)


def _draw_map(content: _Content, layout: _Layout, request: DrawingRequest, title: Any) -> Any:
    """Draw one of so many measures on a scale of colours."""
    grid, data, sizes, scale, theme = content.grid, content.data, layout.sizes, content.scale, request.theme
    wide, high = sizes.cell * len(grid.heads), sizes.cell * len(grid.layers)
    length = min(max(wide, 60), 160) if layout.below else max(40, min(high, 140))
    values = [record["value"] for record in data]
    legend = make_legend(content.column, scale, values, length, below=layout.below)
    colour = alt.Color("value:Q", scale=make_colour_scale(scale, theme), legend=legend)
    tooltip = _make_tooltip(grid, content.column, data)
    base = alt.Chart().encode(**make_axes(grid, sizes.cell))
    known = base.transform_filter("isValid(datum.value)")
    shown = known.mark_rect().encode(color=colour, tooltip=tooltip)
    if any(record.get("pale") for record in data):
        shown = shown.encode(fillOpacity=alt.condition("datum.pale", alt.value(PALE), alt.value(1)))
    layers = [shown]
    if any(record["value"] is None for record in data):
        empty = base.transform_filter("!isValid(datum.value)").mark_rect(
            fill=None, stroke=theme.muted, strokeWidth=0.6, strokeDash=[2, 2]
        )
        layers.append(empty.encode(tooltip=tooltip))
    if fitting := _fit_numbers(content, sizes.cell, theme):
        numbers, size = fitting
        number_cells(data, numbers.texts, scale, theme, some=scale.is_of_effects and bool(content.rule))
        layers.append(draw_numbers(base, size))
    elif _is_signed(content, layout):
        layers.append(draw_signs(base, scale, sizes.cell, theme))
    return draw_several(alt.layer(*layers), grid, sizes, data, title)


def _fit_numbers(content: _Content, cell: int, theme: Theme) -> tuple[Numbers, int] | None:
    if len(content.grid.heads) > MOST_NUMBERED:
        return None
    sizes = ((numbers, numbers.fit(cell, theme.small(1))) for numbers in content.numbers)
    return next(((numbers, size) for numbers, size in sizes if size is not None), None)


def _mark_effects(table: HeadTable, column: Column, data: list[Record]) -> str:
    """Give effects their signs, and make those pale that are not significant; returns by what rule."""
    marks = mark_column(table, column)
    for record, sign, pale in zip(data, marks.signs, marks.pale, strict=True):
        record |= {"sign": sign, "pale": pale}
    return marks.rule


def draw_signs(base: Any, scale: Scale, cell: int, theme: Theme) -> Any:
    """Write the signs, in ink that is seen on the colour below it."""
    strong = f"abs(datum.value) > {0.45 * scale.high}"
    on_strong, on_weak = ("#000000", theme.ink) if theme.name == "dark" else ("#ffffff", theme.ink)
    return (
        base.transform_filter("datum.sign")
        .mark_text(baseline="middle", fontSize=max(8, min(cell - 3, 15)))
        .encode(text="sign:N", color=alt.condition(strong, alt.value(on_strong), alt.value(on_weak)))
    )


def _make_tooltip(grid: Grid, column: Column, data: list[Record]) -> list[alt.Tooltip]:
    return make_tooltip({
        **({"place:N": "of"} if len(grid.maps) > 1 else {}), "layer:O": "layer", "head:O": "head",
        "value:Q": title_tooltip(title_axis(column)),
        **({"error:Q": "standard error"} if any(record["error"] is not None for record in data) else {}),
        **({"n:Q": "n"} if any(record["n"] is not None for record in data) else {}),
    })  # fmt: skip
