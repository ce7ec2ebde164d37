"""Heads as a heat map: layers down, heads across; numbers, or where these have no room, half blocks."""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from rich.style import Style
from rich.text import Text

from attnprobe.reports.charts.places import Places, place_positions
from attnprobe.reports.columns import read_cells, read_floats, sort_labels
from attnprobe.reports.scales import Scale, Significance, find_significant
from attnprobe.reports.terminal.console import Screen, colour_value, find_colour, shorten, style_cell
from attnprobe.table.cells import Cell, clean, format_cell
from attnprobe.table.numbers import DIGITS, NumberFormat, choose_format, format_number
from attnprobe.table.table import Column, HeadTable


@dataclass(frozen=True)
class HeadMap:
    """Which row of a table each cell of a map is."""

    label: str  # such as "decoder"; empty for the only map
    down: list[Cell]
    across: list[Cell]
    rows: np.ndarray  # (down, across): the row of the table at each place, -1 where there is none

    def lay_out(self, values: Sequence[float] | np.ndarray) -> np.ndarray:
        """Lay out a column; NaN where there is no row."""
        return np.where(self.rows < 0, np.nan, np.asarray(values, float)[self.rows])


def lay_out_panels(places: Places | None, order: Sequence[int] = ()) -> list[HeadMap]:
    """Lay out the maps of a table; of two rows at one place, the later in ``order`` is taken.

    There are none for more than four maps: a list is easier to read.
    """
    if places is None or len(places.maps) > 4:
        return []
    panels = []
    for label in places.maps:
        rows = [row for row in order or range(len(places.x)) if places.panel[row] == label]
        x, y = ({cells[row] for row in rows} for cells in (places.x, places.y))
        down = [cell for cell in places.down if cell in y]
        across = [cell for cell in places.across if cell in x]
        panel = HeadMap(label, down, across, np.full((len(down), len(across)), -1))
        for row in rows:
            panel.rows[down.index(places.y[row]), across.index(places.x[row])] = row
        panels.append(panel)
    return panels


def lay_out_positions(table: HeadTable, name: str) -> list[HeadMap]:
    """Lay out layers by up to 40 positions; a cell is the layer's head whose number is largest in size."""
    places = place_positions(table)
    if places is None or len(places.across) > 40:  # of more positions, a list is easier to read
        return []
    labels = [label.rpartition("layer ")[0].rstrip(", ") for label in places.panel]
    layers, sizes = read_cells(table, "layer"), np.abs(read_floats(table, name))
    by_layer = Places(labels, places.x, layers, places.across, sort_labels(layers))
    return lay_out_panels(by_layer, np.argsort(np.nan_to_num(sizes, nan=-1), kind="stable").tolist())


class MapLayout(NamedTuple):
    """How a map of numbers is written."""

    numbers: NumberFormat
    wide: int  # the width of a cell, with the space before it
    mean: int  # the width of the column of means; 0 without one
    pieces: list[range]  # of the columns, one piece below the other


@dataclass(frozen=True)
class HeatMap:
    """The numbers of one measure, and how they are coloured."""

    rows: list[str]
    columns: list[str]
    values: np.ndarray  # (rows, columns), NaN where undefined or without a head
    there: np.ndarray  # whether there is a head
    pale: np.ndarray  # whether a number has no colour
    scale: Scale
    means: np.ndarray  # of the defined values of each row; empty if no means are shown

    def draw(self, layout: MapLayout, screen: Screen) -> None:
        """Print the map, as half blocks of colour if its numbers do not fit side by side and blocks do."""
        fits = len(layout.pieces) == 1 or self._label + len(self.columns) > screen.console.width
        if fits or not screen.has_palette or screen.full or screen.console.options.ascii_only:
            for piece in layout.pieces:
                self._draw_piece(piece, layout, screen)
        else:
            self._draw_blocks(screen)

    @property
    def _label(self) -> int:
        return max(map(len, self.rows)) + 1

    def arrange(self, screen: Screen) -> MapLayout:
        """Choose the layout with the fewest pieces, and among those the one with the most digits."""
        digits = screen.precision or DIGITS
        formats = [
            choose_format(self.values.flat, digits=number, most_decimals=4, large=1e5)
            for number in (digits, digits - 1)
        ]
        several = screen.precision is None and formats[0].decimals >= DIGITS
        layouts = [self._arrange(numbers, screen.console.width) for numbers in formats[: 1 + several]]
        return min(layouts, key=lambda layout: len(layout.pieces))

    def _arrange(self, numbers: NumberFormat, room: int) -> MapLayout:
        """Arrange columns in the fewest pieces of about the same width."""
        written = [numbers.write(value) for value in self.values.flat if not np.isnan(value)]
        wide = 1 + max(map(len, [*self.columns, *written]))
        means = [_write_mean(numbers, value) for value in self.means if not np.isnan(value)]
        # Two more spaces stand before the column of means, which is no head.
        mean = 2 + max(map(len, ["mean", *means])) if self.means.size else 0
        pieces = math.ceil(len(self.columns) / max(1, (room - self._label - mean) // wide))
        bounds = [round(place * len(self.columns) / pieces) for place in range(pieces + 1)]
        return MapLayout(numbers, wide, mean, [range(*ends) for ends in itertools.pairwise(bounds)])

    def _draw_piece(self, piece: range, layout: MapLayout, screen: Screen) -> None:
        undefined = screen.signs.undefined
        # The mean is over all heads, so it stands after the last.
        mean = layout.mean if piece.stop == len(self.columns) else 0
        header = "".join(self.columns[column].rjust(layout.wide) for column in piece)
        lines = [Text() for _ in self.rows]
        for row, line in enumerate(lines):
            for column in piece:
                value = float(self.values[row, column])
                gap = undefined if self.there[row, column] else ""
                text = gap if np.isnan(value) else layout.numbers.write(value)
                shaded = screen.has_palette and np.isfinite(value) and not self.pale[row, column]
                line.append(text.rjust(layout.wide), style_cell(value, self.scale) if shaded else "")
            if mean:
                average = self.means[row]
                text = undefined if np.isnan(average) else _write_mean(layout.numbers, average)
                line.append(text.rjust(mean))
        if piece.start:
            screen.print()
        screen.print_map(self.rows, f"{header}{'mean'.rjust(mean) if mean else ''}", lines)

    def _draw_blocks(self, screen: Screen) -> None:
        """Print a block of half height for each number, two rows a line."""
        step = next(step for step in (2, 5, 10, 20, 50, 1000) if step > max(map(len, self.columns)))
        ruler = "".join(name.ljust(step) for name in self.columns[::step]).rstrip()[: len(self.columns)]
        shown = ~(self.pale | np.isnan(self.values))
        lines = [Text() for _ in self.rows[::2]]
        for above, line in zip(range(0, len(self.rows), 2), lines, strict=True):
            for column in range(len(self.columns)):
                upper, lower = (
                    colour_value(float(self.values[row, column]), self.scale)
                    if row < len(self.rows) and shown[row, column]
                    else None
                    for row in (above, above + 1)
                )
                if upper is None:
                    line.append("\u2584" if lower else " ", Style(color=lower))
                else:
                    line.append("\u2580", Style(color=upper, bgcolor=lower))
        screen.print_map(self.rows[::2], ruler, lines)


def _write_mean(numbers: NumberFormat, value: float) -> str:
    return NumberFormat(numbers.decimals or 1, numbers.exponent).write(value)  # it is seldom whole


def print_measure(table: HeadTable, column: Column, panel: HeadMap, scale: Scale, screen: Screen) -> None:
    """Print a measure as a heat map: its name above; the scale of colours, typical error and counts below."""
    values = panel.lay_out(read_floats(table, column.name))
    label = f" ({clean(panel.label)})" if panel.label else ""
    if np.isnan(values).all():
        screen.print_heading(clean(column.name), f"{label}: undefined for this model")
        return
    marks = find_significant(table, column) if scale.is_of_effects else Significance([""] * len(table), "")
    with np.errstate(invalid="ignore", divide="ignore"):  # infinities of both signs have no mean
        means = np.nansum(values, 1) / (~np.isnan(values)).sum(1)
    rows, columns = name_labels("L", panel.down), name_labels("H", panel.across)
    means = np.empty(0) if table.kind == "heads at positions" else means
    heat = HeatMap(rows, columns, values, panel.rows >= 0, panel.lay_out(marks.pale) == 1, scale, means)
    layout = heat.arrange(screen)
    power = f"in 1e{layout.numbers.exponent}" if layout.numbers.exponent else ""
    unit = " ".join(filter(None, [power, clean(column.unit)]))
    screen.print_heading(clean(column.name), f", {unit}" if unit else "", label)
    heat.draw(layout, screen)
    if screen.has_palette:
        line = Text(f"colours from {format_number(scale.low)} ")
        for step in range(12):
            line.append(screen.signs.bar, find_colour(step / 11, both_ways=scale.is_of_effects))
        none = f"; none: not {marks.rule}" if scale.is_of_effects and marks.rule else ""
        screen.print(line.append(f" to {format_number(scale.high)}{none}"))
    _print_trust(table, column.name, panel, screen)


def name_labels(letter: str, labels: list[Cell]) -> list[str]:
    """Name layers or heads by a letter and their number; what has no number keeps its name."""
    return [
        f"{letter}{label}" if isinstance(label, int) else shorten(format_cell(label), 9) for label in labels
    ]


def _print_trust(table: HeadTable, name: str, panel: HeadMap, screen: Screen) -> None:
    """Print the typical standard error, the number of sequences, and how many heads are undefined."""
    rows, parts = panel.rows[panel.rows >= 0], list[str]()
    values, errors, counts = (read_floats(table, part)[rows] for part in (name, f"{name}_se", "n"))
    if not np.isnan(errors).all():
        parts.append(f"typical standard error {format_number(np.nanmedian(errors), digits=2)}")
    if (counts := counts[np.isfinite(counts)]).size:
        ends = dict.fromkeys(f"{int(end):,}" for end in (counts.min(), counts.max()))
        parts.append(f"{' to '.join(ends)} {table.column('n').unit or 'sequences'}")
    if missing := int(np.isnan(values).sum()):
        parts.append(f"{missing} {'head' if missing == 1 else 'heads'} undefined ({screen.signs.undefined})")
    if parts:
        screen.print(screen.signs.between.join(parts), "dim")
