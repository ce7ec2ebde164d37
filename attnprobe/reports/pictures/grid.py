"""Heads as cells: layers down, heads across, as on the terminal; one small map for each further label."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import altair as alt

from attnprobe.reports.columns import DrawingRequest, Record, cells
from attnprobe.reports.shapes import Grid
from attnprobe.reports.theme import SEQUENTIAL, Theme
from attnprobe.table.cells import written
from attnprobe.table.head_table import HeadTable
from attnprobe.table.table import Cell

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


def records(table: HeadTable, grid: Grid) -> list[Record]:
    """Begin the data: a record a row, that says where it lies."""
    rows = zip(grid.places, cells(table, LAYER), cells(table, HEAD), strict=True)
    return [{"place": place, "layer": layer, "head": head} for place, layer, head in rows]


@dataclass(frozen=True)
class Fit:
    """Sizes that fit the width of a picture.

    Attributes:
        cell: Pixels of a cell.
        across: Maps of one measure side by side.
        measures: Measures side by side.
    """

    cell: int
    across: int
    measures: int


def fit(grid: Grid, measures: int, asked: DrawingRequest, *, legend: bool = True) -> Fit:
    """Choose how many maps stand side by side: as many as leave comfortable cells, or else fewer."""
    maps, heads = len(grid.maps), len(grid.heads)
    beside = _LEGEND if legend else 0

    def cell(across: int, columns: int) -> int:
        room = asked.width / columns - beside - (_BESIDE if maps <= MANY else 0) - _BETWEEN
        return int((room / across - _BETWEEN * (across > 1)) / heads)

    if maps == 1:
        most = min(measures, 3)
        columns = next((c for c in range(most, 1, -1) if cell(1, c) >= _COMFORTABLE), min(most, 2))
        if cell(1, columns) < SIGNED:
            columns = 1
        return Fit(_bounded(cell(1, columns)), 1, columns)
    wanted = _BESIDE_OTHERS if maps <= MANY else 5  # to compare, maps belong side by side
    across = next((a for a in range(min(maps, 10), 1, -1) if cell(a, 1) >= wanted), 1)
    return Fit(_bounded(cell(across, 1)), across, 1)


def _bounded(cell: int) -> int:
    return max(_SMALLEST, min(cell, _LARGEST))


def axes(grid: Grid, cell: int) -> dict[str, Any]:
    """Give the channels of a map: heads across, layers down; gaps where a head is missing."""
    named = len(grid.maps) <= MANY
    x = alt.Axis(labelAngle=0, values=thinned(grid.heads, cell)) if named else None
    y = alt.Axis(labelAngle=0, values=thinned(grid.layers, cell, 0)) if named else None
    return {
        "x": alt.X("head:O", title="head" if named else None, axis=x, scale=_band(grid.heads)),
        "y": alt.Y("layer:O", title="layer" if named else None, axis=y, scale=_band(grid.layers)),
    }


def thinned(labels: Sequence[Cell], cell: float, letter: float = 7.5) -> list[Any]:
    """Choose which labels are written: every one, or every second, fifth, ... where they would touch."""
    longest = max((len(written(label)) for label in labels), default=1)
    room = max(12.0, letter * longest + 4 * (letter > 0))
    every = next(
        step
        for step in (1, 2, 4, 5, 8, 10, 20, 50, len(labels))
        if step * cell >= room or step >= len(labels)
    )
    return list(labels)[::every]


def _band(labels: Sequence[Cell]) -> alt.Scale:
    return alt.Scale(domain=list(labels), paddingInner=0.06, paddingOuter=0.03)


def several(chart: Any, grid: Grid, sizes: Fit, data: list[Record], title: Any) -> Any:
    """Draw the maps of one measure beside each other where there are several."""
    width, height = sizes.cell * len(grid.heads), sizes.cell * len(grid.layers)
    chart = chart.properties(width=width, height=height)
    if len(grid.maps) == 1:
        only = {"title": title} if title is not None else {}
        return chart.properties(data=alt.InlineData(values=data), **only)
    header = alt.Header(
        title=None, labelOrient="top", labelAnchor="start", labelPadding=4, labelLimit=max(width + 12, 76)
    )
    facet = alt.Facet("place:N", sort=grid.maps, header=header, title=None)
    faceted = chart.facet(facet=facet, columns=sizes.across, data=alt.InlineData(values=data))
    return faceted.properties(title=title) if title is not None else faceted


#: More labels than this are a bar of colours instead of a list.
_MOST = 16


def layer_colour(labels: Sequence[Cell], theme: Theme, *, legend: bool = True, field: str = "layer") -> Any:
    """Give the channel that colours by layer, or by another number that counts up.

    The ends of viridis that come too near the background are left out: its yellow on white, its purple on
    black.
    """
    numeric = all(isinstance(label, int) for label in labels)
    colours = list(SEQUENTIAL[1:] if theme.name == "dark" else SEQUENTIAL[:-1])
    entry: Any = alt.Legend(title=field.replace("_", " "), symbolOpacity=1) if legend else None
    if numeric and len(labels) > _MOST:
        if legend:
            entry = alt.Legend(title=field.replace("_", " "), format="~s", gradientLength=140)
        ends = [min(labels), max(labels)]  # type: ignore[type-var]
        return alt.Color(
            f"{field}:Q", scale=alt.Scale(domain=ends, range=colours, interpolate="rgb"), legend=entry
        )
    return alt.Color(
        f"{field}:O", scale=alt.Scale(domain=list(labels), range=spread(colours, len(labels))), legend=entry
    )


def spread(colours: Sequence[str], number: int) -> list[str]:
    """Take so many colours, evenly from a list, between its own where there are more.

    >>> spread(["#000000", "#ffffff"], 3)
    ['#000000', '#808080', '#ffffff']
    """
    found = []
    for place in range(number):
        at = place / max(number - 1, 1) * (len(colours) - 1)
        low = min(int(at), len(colours) - 2)
        one, other = (bytes.fromhex(colour[1:]) for colour in colours[low : low + 2])
        mixed = (round(a + (b - a) * (at - low)) for a, b in zip(one, other, strict=True))
        found.append("#" + "".join(f"{part:02x}" for part in mixed))
    return found
