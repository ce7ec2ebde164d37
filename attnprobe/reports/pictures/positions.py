"""Heads at positions of tokens: a map for each layer, heads down, tokens across."""

import json
from typing import Any

import altair as alt

from attnprobe.reports.columns import (
    DrawingRequest,
    Record,
    has_measures,
    label_by_others,
    list_keys,
    make_title,
    name_measure,
    read_cells,
    read_numbers,
    sort_labels,
    title_axis,
    title_tooltip,
)
from attnprobe.reports.pictures.channels import (
    choose_across,
    make_band,
    make_colour_scale,
    make_legend,
    make_records,
    make_tooltip,
    thin_labels,
)
from attnprobe.reports.pictures.maps import PALE, SIGNED, draw_signs
from attnprobe.reports.scales import Scale, fit_scales, mark_column
from attnprobe.table.cells import clean, format_cell
from attnprobe.table.head_table import HeadTable
from attnprobe.table.kinds import POSITION
from attnprobe.table.table import Column

#: The column of the token that most texts have at a position.
TOKEN = "token"
#: Pixels of a cell, across and down; and how wide cells are that have room for the names of tokens.
_NARROWEST, _WIDEST, _HIGH = 3, 26, 12
#: Room for the numbers of heads, and for the legend.
_BESIDE, _LEGEND = 40, 90
#: Most maps side by side.
_ACROSS = 4
#: Most characters of a token below a map.
_LETTERS = 9


def can_draw_positions(table: HeadTable) -> bool:
    """Tell whether each head is there once at each position, with a number."""
    rows = zip(*(read_cells(table, name) for name in list_keys(table)), strict=True)
    return has_measures(table) and len(set(rows)) == len(table)


def draw_positions(table: HeadTable, request: DrawingRequest) -> Any:
    """Draw a measure as maps of heads by tokens, one for each layer."""
    columns = request.columns(table)
    scales = fit_scales(table, columns)
    labels = label_by_others(table, {"layer", "head", POSITION})
    charts = [
        _draw_maps(table, column, scales[column.name], request, label, [one == label for one in labels])
        for column in columns
        for label in dict.fromkeys(labels)
    ]
    return charts[0] if len(charts) == 1 else alt.vconcat(*charts).resolve_scale(color="independent")


def _draw_maps(
    table: HeadTable, column: Column, scale: Scale, request: DrawingRequest, label: str, chosen: list[bool]
) -> Any:
    """Draw the maps of some rows of a measure, whose keys beside layer, head and position are alike."""
    marks = mark_column(table, column)
    every = {
        "layer": read_cells(table, "layer"),
        "head": read_cells(table, "head"),
        "position": read_cells(table, POSITION),
        "token": name_tokens(table),
        "value": read_numbers(table, column.name),
        "error": read_numbers(table, f"{column.name}_se"),
        "n": read_numbers(table, "n"),
        "pale": marks.pale if scale.is_of_effects else [False] * len(table),
    }
    every["sign"] = list(marks.signs) if scale.is_of_effects else [""] * len(table)
    data: list[Record] = [
        {**record, "panel": f"layer {format_cell(record['layer'])}"}
        for record, ours in zip(make_records(every), chosen, strict=True)
        if ours
    ]
    positions, heads = (sort_labels([record[name] for record in data]) for name in ("position", "head"))
    panels = [f"layer {format_cell(layer)}" for layer in sort_labels([record["layer"] for record in data])]
    across, cell = _choose_sizes(len(positions), len(panels), request)
    x = _make_axis(data, positions, cell)
    base = alt.Chart().encode(x=x, y=_make_heads(heads))
    tooltip = make_tooltip({
        "panel:N": "of", "head:O": "head", "position:O": "position", "token:N": "token",
        "value:Q": title_tooltip(title_axis(column)), "error:Q": "standard error", "n:Q": "n",
    })  # fmt: skip
    values = [record["value"] for record in data]
    legend = make_legend(column, scale, values, min(140, max(60, _HIGH * len(heads))))
    colour = alt.Color("value:Q", scale=make_colour_scale(scale, request.theme), legend=legend)
    known = base.transform_filter("isValid(datum.value)")
    opacity = alt.condition("datum.pale", alt.value(PALE), alt.value(1))
    parts = [known.mark_rect().encode(color=colour, fillOpacity=opacity, tooltip=tooltip)]
    if cell >= SIGNED and any(record["sign"] for record in data):
        parts.append(draw_signs(base, scale, _HIGH, request.theme))
    framed = alt.ViewBackground(stroke=request.theme.grid)
    chart = alt.layer(*parts).properties(width=cell * len(positions), height=_HIGH * len(heads), view=framed)
    header = alt.Header(title=None, labelOrient="top", labelAnchor="start", labelPadding=3)
    facet = alt.Facet("panel:N", sort=panels, header=header, title=None)
    faceted = chart.facet(facet=facet, columns=across, data=alt.InlineData(values=data))
    remark = ""
    if scale.is_of_effects and marks.rule:
        signed = cell >= SIGNED and any(record["sign"] for record in data)
        remark = (
            f"cells with + or \u2212: {marks.rule}" if signed else f"full colour: {marks.rule}, else pale"
        )
    room, size = float(request.width - _LEGEND - _BESIDE), request.theme.small(1)
    named = ", ".join(filter(None, [name_measure(column), clean(label)]))
    return faceted.properties(title=make_title(named, remark, width=room, size=size))


def _choose_sizes(positions: int, panels: int, request: DrawingRequest) -> tuple[int, int]:
    """Choose how many maps stand side by side, as many as leave wide cells, and how wide a cell is."""

    def cell(across: int) -> int:
        return int(((request.width - _LEGEND) / across - _BESIDE) / positions)

    most = next((a for a in range(min(panels, _ACROSS), 1, -1) if cell(a) >= _HIGH), 1)
    across = choose_across(panels, most)
    return across, max(_NARROWEST, min(cell(across), _WIDEST))


def _make_axis(data: list[Record], positions: list[Any], cell: int) -> Any:
    tokens = {record["position"]: record["token"] for record in data}
    alike = all(tokens[record["position"]] == record["token"] for record in data)
    named = alike and any(tokens.values()) and cell >= _HIGH - 2
    scale = make_band(positions)
    if not named:
        axis = alt.Axis(labelAngle=0, values=thin_labels(positions, cell))
        return alt.X("position:O", title="position", axis=axis, scale=scale)
    words = [str(tokens[one] or one) for one in positions]
    # Words are data, and never part of an expression: strings of JSON are strings of Vega, too.
    written = ", ".join(json.dumps(word) for word in words)
    places = ", ".join(str(one) for one in positions)
    axis = alt.Axis(
        labelAngle=-60, values=positions, labelExpr=f"[{written}][indexof([{places}], datum.value)]"
    )
    return alt.X("position:O", title="token", axis=axis, scale=scale)


def _make_heads(heads: list[Any]) -> Any:
    axis = alt.Axis(labelAngle=0, values=thin_labels(heads, _HIGH, 0))
    return alt.Y("head:O", title="head", axis=axis, scale=make_band(heads))


def name_tokens(table: HeadTable) -> list[str]:
    """Name the token of each row; nothing where none is usual."""
    return [_shorten(cell) for cell in read_cells(table, TOKEN)]


def _shorten(cell: object) -> str:
    return "" if cell is None else clean(str(cell))[:_LETTERS]
