"""Heads as cells: layers down, heads across, as on the terminal; one small map for each further label."""

from dataclasses import dataclass
from typing import Any

import altair as alt

from attnprobe.reports.columns import DrawingRequest, Record, read_cells
from attnprobe.reports.pictures.channels import make_band, thin_labels
from attnprobe.reports.shapes import Grid
from attnprobe.table.head_table import HeadTable

LAYER, HEAD = "layer", "head"
#: Pixels of a cell; below ``_SIGNED`` there is no room for a sign in it.
_LARGEST, _COMFORTABLE, _BESIDE_OTHERS, _SMALLEST = 30, 14, 6, 3
SIGNED = 8
#: Room for the names of layers beside a map, and for its legend.
_BESIDE, _LEGEND = 46, 78
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


def choose_sizes(grid: Grid, measures: int, request: DrawingRequest) -> Sizes:
    """Choose how many maps stand side by side: as many as leave comfortable cells, or else fewer."""
    maps, heads = len(grid.maps), len(grid.heads)

    def cell(across: int, columns: int) -> int:
        room = request.width / columns - _LEGEND - (_BESIDE if maps <= MANY else 0) - _BETWEEN
        return int((room / across - _BETWEEN * (across > 1)) / heads)

    if maps == 1:
        most = min(measures, 3)
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
