"""Heads as a heat map: layers down, heads across; numbers, or where these have no room, half blocks."""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from rich.console import Console
from rich.style import Style
from rich.text import Text

from attnprobe.reports.charts.places import OrderedPlaces, Places, place_positions
from attnprobe.reports.columns import read_cells, read_floats
from attnprobe.reports.scales import Marks, Scale, mark_column
from attnprobe.reports.terminal.console import (
    choose_signs,
    colour_value,
    draw_scale,
    has_palette,
    shorten,
    style_cell,
)
from attnprobe.table.cells import Cell, clean, format_cell
from attnprobe.table.numbers import DIGITS, NumberFormat, choose_format, format_number
from attnprobe.table.table import Column, HeadTable

_MEAN, _GAP = "mean", 2  # spaces before the column of means, which is no head
#: Numbers with more decimals, or this large, are shown divided by a power of ten.
_MOST_DECIMALS, _LARGE = 4, 1e5
_SCALE_WIDTH = 12
#: Of more maps of one measure, or of more positions, a list is easier to read.
_MOST_PANELS, _MOST_POSITIONS = 4, 40
_LONGEST_LABEL = 9


@dataclass(frozen=True)
class Panel:
    """One map of cells."""

    label: str  # what sets it apart, such as "decoder"; empty for the only one
    down: list[Cell]
    across: list[Cell]
    rows: np.ndarray  # (down, across): the row of the table at each place, -1 where there is none

    def grid(self, values: Sequence[Any] | np.ndarray) -> np.ndarray:
        """Lay out a column; NaN where there is no row."""
        return np.where(self.rows < 0, np.nan, np.asarray(values, float)[self.rows])


def lay_out_panels(places: Places | None, order: Sequence[int] = ()) -> list[Panel]:
    """Lay out a table map by map; of two rows at one place, the later in ``order`` is taken."""
    if places is None or len(places.maps) > _MOST_PANELS:
        return []
    panels = []
    for label in places.maps:
        rows = [row for row in order or range(len(places.x)) if places.panel[row] == label]
        down, across = (
            [name for name in names if name in {cells[row] for row in rows}]
            for names, cells in ((places.down, places.y), (places.across, places.x))
        )
        there = np.full((len(down), len(across)), -1)
        for row in rows:
            there[down.index(places.y[row]), across.index(places.x[row])] = row
        panels.append(Panel(label, down, across, there))
    return panels


def lay_out_positions(table: HeadTable, name: str) -> list[Panel]:
    """Lay out layers by positions of tokens; a cell is the head whose number is largest in size."""
    places, values = place_positions(table), read_floats(table, name)
    if places is None or values is None or len(places.across) > _MOST_POSITIONS:
        return []
    others = [label.rpartition("layer ")[0].rstrip(", ") for label in places.panel]
    by_layer = OrderedPlaces(others, places.x, read_cells(table, "layer"), places.across)
    return lay_out_panels(by_layer, np.argsort(np.nan_to_num(np.abs(values), nan=-1), kind="stable").tolist())


class Layout(NamedTuple):
    """How a map of numbers is written."""

    numbers: NumberFormat
    wide: int  # the width of a cell, with the space before it
    pieces: list[range]  # the columns that stand side by side; the others follow below


@dataclass(frozen=True)
class HeatMap:
    """The numbers of one measure, and how they are coloured."""

    rows: list[str]
    columns: list[str]
    values: np.ndarray  # (rows, columns), NaN for what is undefined or not there
    there: np.ndarray  # whether there is a head
    pale: np.ndarray  # whether a number has no colour
    scale: Scale
    averaged: bool  # whether the mean of each row stands behind it

    def draw(self, layout: Layout, console: Console, *, blocks: bool) -> None:
        """Print the map; ``blocks`` may stand for numbers that have no room."""
        wide = self._label + len(self.columns)
        narrow = len(layout.pieces) > 1 and wide <= console.width and not console.options.ascii_only
        if blocks and narrow and has_palette(console):
            self._draw_blocks(console)
            return
        for piece in layout.pieces:
            self._draw_piece(piece, layout, console)

    @property
    def means(self) -> np.ndarray:
        """The mean of each row over what is defined."""
        counts = (~np.isnan(self.values)).sum(axis=1)
        with np.errstate(invalid="ignore"):  # infinities of both signs have no mean
            sums = np.nansum(self.values, axis=1)
        return np.divide(sums, counts, out=np.full(len(counts), np.nan), where=counts > 0)

    @property
    def _label(self) -> int:
        return max(map(len, self.rows)) + 1

    def arrange(self, room: int, precision: int | None) -> Layout:
        """Choose the layout with the fewest pieces; among those the most digits."""
        digits = precision or DIGITS
        full, short = (
            choose_format(self.values.flat, digits=n, most_decimals=_MOST_DECIMALS, large=_LARGE)
            for n in (digits, digits - 1)
        )
        formats = [full, short] if precision is None and full.decimals >= DIGITS else [full]
        return min((self._try(numbers, room) for numbers in formats), key=lambda layout: len(layout.pieces))

    def _try(self, numbers: NumberFormat, room: int) -> Layout:
        written = [numbers.write(value) for value in self.values.flat if not np.isnan(value)]
        wide = 1 + max(map(len, [*self.columns, *written]))
        mean = self._measure_means(numbers) if self.averaged else 0
        pieces = math.ceil(len(self.columns) / max(1, (room - self._label - mean) // wide))
        bounds = [round(place * len(self.columns) / pieces) for place in range(pieces + 1)]
        return Layout(numbers, wide, [range(*ends) for ends in itertools.pairwise(bounds)])

    def _measure_means(self, numbers: NumberFormat) -> int:
        written = map(_write_mean(numbers).write, self.means[~np.isnan(self.means)])
        return max(map(len, [_MEAN, *written])) + _GAP

    def _draw_piece(self, piece: range, layout: Layout, console: Console) -> None:
        undefined = choose_signs(console).undefined
        # The mean is over all heads, so it stands after the last.
        mean = self._measure_means(layout.numbers) if self.averaged and piece.stop == len(self.columns) else 0
        header = "".join(self.columns[column].rjust(layout.wide) for column in piece)
        header = f"{' ' * self._label}{header}{_MEAN.rjust(mean) if mean else ''}"
        lines = [*([Text()] if piece.start else []), Text(header, "bold")]
        for row, average in enumerate(self.means):
            line = Text.assemble((self.rows[row].ljust(self._label), "bold"))
            for column in piece:
                value = float(self.values[row, column])
                gap = undefined if self.there[row, column] else ""
                text = gap if np.isnan(value) else layout.numbers.write(value)
                shaded = has_palette(console) and np.isfinite(value) and not self.pale[row, column]
                style = style_cell(value, self.scale) if shaded else ""
                line.append(text.rjust(layout.wide), style)
            if mean:
                text = undefined if np.isnan(average) else _write_mean(layout.numbers).write(average)
                line.append(text.rjust(mean))
            lines.append(line)
        for line in lines:
            console.print(line, no_wrap=True, overflow="ignore", crop=False)

    def _draw_blocks(self, console: Console) -> None:
        """Print a block of half height for each number, two rows a line."""
        step = next(step for step in (2, 5, 10, 20, 50, 1000) if step > max(map(len, self.columns)))
        ruler = "".join(name.ljust(step) for name in self.columns[::step])
        console.print(Text(f"{' ' * self._label}{ruler.rstrip()}", "bold"), no_wrap=True, overflow="crop")
        shown = ~(self.pale | np.isnan(self.values))
        for above in range(0, len(self.rows), 2):
            line = Text.assemble((self.rows[above].ljust(self._label), "bold"))
            for column in range(len(self.columns)):
                upper, lower = (
                    colour_value(float(self.values[row, column]), self.scale)
                    if row < len(self.rows) and shown[row, column]
                    else None
                    for row in (above, above + 1)
                )
                line.append(*_choose_block(upper, lower))
            console.print(line, no_wrap=True, overflow="ignore", crop=False)


def _write_mean(numbers: NumberFormat) -> NumberFormat:
    return NumberFormat(numbers.decimals or 1, numbers.exponent)  # of whole numbers it is seldom whole


def _choose_block(upper: str | None, lower: str | None) -> tuple[str, Style]:
    """Choose the block of half height that shows two colours, of which one or both may be missing."""
    if upper is None:
        return (" ", Style()) if lower is None else ("\u2584", Style(color=lower))
    return "\u2580", Style(color=upper, bgcolor=lower)


def print_measure(
    table: HeadTable,
    column: Column,
    panel: Panel,
    scale: Scale,
    console: Console,
    precision: int | None = None,
    *,
    full: bool = False,
    averaged: bool = True,
) -> None:
    """Print a measure as a heat map, with its name above and what the map leaves out below."""
    values = panel.grid(np.asarray(read_floats(table, column.name)))
    label = f" ({clean(panel.label)})" if panel.label else ""
    console.print()
    if np.isnan(values).all():
        console.print(Text.assemble((clean(column.name), "bold"), f"{label}: undefined for this model"))
        return
    marks = mark_column(table, column) if scale.is_of_effects else Marks([""] * len(table), "")
    pale = panel.grid(marks.pale) == 1
    rows, columns = name_labels("L", panel.down), name_labels("H", panel.across)
    heat = HeatMap(rows, columns, values, panel.rows >= 0, pale, scale, averaged)
    layout = heat.arrange(console.width, precision)
    power = f"in 1e{layout.numbers.exponent}" if layout.numbers.exponent else ""
    unit = " ".join(filter(None, [power, clean(column.unit)]))
    console.print(Text.assemble((clean(column.name), "bold"), f", {unit}" if unit else "", label))
    heat.draw(layout, console, blocks=not full)
    if has_palette(console):
        console.print(_explain_colours(scale, marks.rule, console))
    if said := _list_trust(table, column.name, panel, console):
        console.print(Text(choose_signs(console).between.join(said), "dim"))


def name_labels(letter: str, labels: list[Cell]) -> list[str]:
    """Name layers or heads by a letter and their number; what has no number keeps its name."""
    return [
        f"{letter}{label}" if isinstance(label, int) else shorten(format_cell(label), _LONGEST_LABEL)
        for label in labels
    ]


def _explain_colours(scale: Scale, rule: str, console: Console) -> Text:
    said = Text(f"colours from {format_number(scale.low)} ")
    said.append_text(draw_scale(scale, _SCALE_WIDTH, choose_signs(console).bar))
    none = f"; none: not {rule}" if scale.is_of_effects and rule else ""
    return said.append(f" to {format_number(scale.high)}{none}")


def _list_trust(table: HeadTable, name: str, panel: Panel, console: Console) -> list[str]:
    """Give the typical standard error, the number of sequences or links, and how many heads are undefined."""
    rows, said = panel.rows[panel.rows >= 0], list[str]()
    values, errors, counts = (read_floats(table, one) for one in (name, f"{name}_se", "n"))
    if errors is not None and not np.isnan(errors[rows]).all():
        said.append(f"typical standard error {format_number(np.nanmedian(errors[rows]), digits=2)}")
    counts = np.zeros(0) if counts is None else counts[rows][np.isfinite(counts[rows])]
    if counts.size:
        unit = table.column("n").unit or "sequences"
        ends = dict.fromkeys(f"{int(end):,}" for end in (counts.min(), counts.max()))
        said.append(f"{' to '.join(ends)} {unit}")
    missing = 0 if values is None else int(np.isnan(values[rows]).sum())
    if missing:
        sign = choose_signs(console).undefined
        said.append(f"{missing} {'head' if missing == 1 else 'heads'} undefined ({sign})")
    return said
