"""Heads as a heat map: layers down, heads across, its caption above and notes below."""

import itertools
import math
from dataclasses import dataclass

import numpy as np
from rich.console import Console
from rich.style import Style
from rich.text import Text

from attnprobe.reports.columns import read_floats
from attnprobe.reports.scales import Scale
from attnprobe.reports.shapes import Panel, lay_out_roles
from attnprobe.reports.terminal.console import (
    Figures,
    choose_figures,
    choose_signs,
    choose_text_colour,
    find_colour,
    format_significant,
    has_palette,
)
from attnprobe.reports.theme import ROLE_COLOURS
from attnprobe.table.cells import clean, format_cell
from attnprobe.table.head_table import HeadTable
from attnprobe.table.naming import LETTERS
from attnprobe.table.table import Cell, Column

MEAN = "mean"
_GAP = 2  # spaces before the column of means, which is no head


@dataclass(frozen=True)
class Layout:
    """A grid ready to print."""

    figures: Figures  # how the numbers are written
    mean_figures: Figures  # how their means are written; the mean of whole numbers is seldom whole
    layers: list[str]  # the names of the rows
    heads: list[str]  # the names of the columns
    label: int  # the width of the row names
    number: int  # the width of the longest number or column name
    air: int  # spaces that each cell has on top of that: one before it, and one after it if there is room
    mean: int  # the width of the column of means; 0 where there is none
    pieces: list[range]  # the columns that stand side by side, piece by piece

    def pad(self, text: str) -> str:
        """Put a number or a column name in the middle of its cell."""
        return f" {text.rjust(self.number)}{' ' * (self.air - 1)}"


def arrange(
    panel: Panel, grid: np.ndarray, room: int, precision: int | None = None, *, averaged: bool = True
) -> Layout:
    """Choose the layout with the fewest pieces; among those the most digits, then the most air."""
    found = [
        _try_layout(panel, grid, room, figures, air, averaged)
        for figures in choose_figures(grid, precision)
        for air in (2, 1)
    ]
    return min(found, key=lambda layout: len(layout.pieces))


def average_layers(grid: np.ndarray) -> np.ndarray:
    """Average over the heads of each layer that are there and defined; NaN for a layer without any."""
    counts = (~np.isnan(grid)).sum(axis=1)
    with np.errstate(invalid="ignore"):  # infinities of both signs have no mean
        sums = np.nansum(grid, axis=1)
    return np.divide(sums, counts, out=np.full(len(grid), np.nan), where=counts > 0)


def _try_layout(
    panel: Panel, grid: np.ndarray, room: int, figures: Figures, air: int, averaged: bool
) -> Layout:
    layers, heads = name_labels("L", panel.layers), name_labels("H", panel.heads)
    label = max(len(name) for name in layers) + 1
    number = max(figures.width(grid), *(len(name) for name in heads))
    mean_figures = Figures(figures.decimals or 1, figures.exponent)
    mean = max(mean_figures.width(average_layers(grid)), len(MEAN)) + _GAP if averaged else 0
    across = max(1, (room - label - mean) // (number + air))
    return Layout(
        figures, mean_figures, layers, heads, label, number, air, mean, _split_columns(len(heads), across)
    )


def name_labels(letter: str, labels: list[Cell]) -> list[str]:
    """Name layers or heads by a letter and their number; what has no number keeps its name."""
    return [f"{letter}{label}" if isinstance(label, int) else format_cell(label) for label in labels]


def _split_columns(total: int, most: int) -> list[range]:
    count = math.ceil(total / most)
    bounds = [round(i * total / count) for i in range(count + 1)]
    return [range(start, stop) for start, stop in itertools.pairwise(bounds)]


def draw_grid(
    panel: Panel, grid: np.ndarray, layout: Layout, console: Console, scale: Scale, pale: np.ndarray
) -> None:
    """Print the grid, in several pieces where the layout says so; cells that are ``pale`` have no colour."""
    means, undefined = average_layers(grid), choose_signs(console).undefined
    for piece in layout.pieces:
        if piece.start:
            console.print()
        # The mean is over all heads, so it stands after the last.
        has_mean = layout.mean > 0 and piece.stop == grid.shape[1]
        header = "".join(layout.pad(layout.heads[j]) for j in piece)
        header = " " * layout.label + header + (MEAN.rjust(layout.mean) if has_mean else "")
        lines = [Text(header, "bold")]
        for i, mean in enumerate(means):
            line = Text.assemble((layout.layers[i].ljust(layout.label), "bold"))
            for j in piece:
                value = float(grid[i, j])
                gap = undefined if (panel.layers[i], panel.heads[j]) in panel.places else ""
                shaded = has_palette(console) and np.isfinite(value) and not pale[i, j]
                figure = layout.pad(_write_figure(value, layout.figures, gap))
                line.append(figure, style_cell(value, scale) if shaded else None)
            if has_mean:
                line.append(_write_figure(mean, layout.mean_figures, undefined).rjust(layout.mean))
            lines.append(line)
        for line in lines:
            console.print(line, no_wrap=True, overflow="ignore", crop=False)


def can_draw_blocks(panel: Panel, layout: Layout, console: Console) -> bool:
    """Tell whether blocks of half height have the room that numbers lack, and the colours."""
    return (
        len(layout.pieces) > 1
        and layout.label + len(panel.heads) <= console.width
        and has_palette(console)
        and not console.options.ascii_only
    )


def draw_blocks(
    panel: Panel, grid: np.ndarray, layout: Layout, console: Console, scale: Scale, pale: np.ndarray
) -> None:
    """Print a block of half height for each head, two layers a line; cells that are ``pale`` have none."""
    names = layout.heads
    step = next(step for step in (2, 5, 10, 20, 50, 1000) if step > max(map(len, names)))
    ruler = "".join(names[place].ljust(step) for place in range(0, len(names), step))
    console.print(Text(" " * layout.label + ruler.rstrip(), "bold"), no_wrap=True, overflow="crop")
    for above in range(0, len(grid), 2):
        line = Text.assemble((layout.layers[above].ljust(layout.label), "bold"))
        for place in range(grid.shape[1]):
            upper, lower = (
                None
                if row >= len(grid) or pale[row, place] or np.isnan(grid[row, place])
                else _find_colour(float(grid[row, place]), scale)
                for row in (above, above + 1)
            )
            line.append(*_choose_block(upper, lower))
        console.print(line, no_wrap=True, overflow="ignore", crop=False)


def _find_colour(value: float, scale: Scale) -> str:
    return format_rgb(find_colour(scale.place(value), both_ways=scale.is_of_effects))


def _choose_block(upper: str | None, lower: str | None) -> tuple[str, Style]:
    """Choose the block of half height that shows two colours, of which one or both may be missing."""
    if upper is None:
        return (" ", Style()) if lower is None else ("\u2584", Style(color=lower))
    return "\u2580", Style(color=upper, bgcolor=lower)


def style_cell(value: float, scale: Scale) -> Style:
    background = find_colour(scale.place(value), both_ways=scale.is_of_effects)
    return Style(color=format_rgb(choose_text_colour(background)), bgcolor=format_rgb(background))


def draw_scale(scale: Scale, width: int, sign: str) -> Text:
    """Draw a scale of colours from end to end."""
    bar = Text()
    for i in range(width):
        bar.append(sign, Style(color=format_rgb(find_colour(i / (width - 1), both_ways=scale.is_of_effects))))
    return bar


def style_share(share: float) -> Style:
    """Give the colour of a sign that stands so far up the scale, from 0 to 1."""
    return Style(color=format_rgb(find_colour(share)))


def format_rgb(rgb: tuple[int, int, int]) -> str:
    """Write a colour as rich reads it."""
    return f"rgb({rgb[0]},{rgb[1]},{rgb[2]})"


def _write_figure(value: float, figures: Figures, gap: str) -> str:
    return gap if np.isnan(value) else figures.write(value)


def _style_role(kind: str | None, console: Console) -> Style | str:
    colour = ROLE_COLOURS[kind] if kind else None
    return "" if colour is None or not has_palette(console) else Style(color="black", bgcolor=colour)


def draw_roles(table: HeadTable, grids: list[Panel], console: Console) -> None:
    """Print the letters, panel by panel, and a legend of those that are there."""
    roles = lay_out_roles(format_cell(cell) for cell in table.data["role"])
    for panel in grids:
        console.print()
        if panel.labels:
            console.print(Text(clean(", ".join(panel.labels)), "bold"))
        label = max(len(f"L{format_cell(layer)}") for layer in panel.layers)
        wide = max(len(f"H{format_cell(head)}") for head in panel.heads) + 1
        across = max(1, (console.width - label) // wide)
        for start in range(0, len(panel.heads), across):
            heads = panel.heads[start : start + across]
            names = "".join(f"H{format_cell(head)}".rjust(wide) for head in heads)
            console.print(Text(" " * label + names, "dim"))
            for layer in panel.layers:
                line = Text.assemble((f"L{format_cell(layer)}".ljust(label), "dim"))
                for head in heads:
                    row = panel.places.get((layer, head))
                    kind = None if row is None else roles.kinds[row]
                    cell = LETTERS[kind] if kind else " "
                    if style := _style_role(kind, console):
                        line.append(" " * (wide - 3)).append(f" {cell} ", style)
                    else:
                        line.append(cell.rjust(wide))
                console.print(line)
    console.print()
    line = Text()
    for kind, number in roles.counts.items():
        entry = Text.assemble((LETTERS[kind], _style_role(kind, console)), f" {kind} {number}")
        if line.cell_len and line.cell_len + 3 + entry.cell_len > console.width:
            console.print(line)
            line = Text()
        line.append("   " if line.cell_len else "").append_text(entry)
    console.print(line)


_BAR_WIDTH = 12
#: No sentence says more of a smaller p.
_LEAST_P = 0.001


def write_heading(column: Column, panel: Panel, figures: Figures) -> Text:
    """Name the measure, its unit, and what sets the panel apart."""
    unit = clean(column.unit)
    if figures.exponent:
        unit = f"in 1e{figures.exponent} {unit}" if unit else f"in units of 1e{figures.exponent}"
    parts = [f", {part}" for part in (unit, *panel.labels) if part]
    return Text.assemble((clean(column.name), "bold"), *parts)


def write_undefined(column: Column, panel: Panel) -> Text:
    """Name a measure that is undefined for all heads, instead of an empty grid."""
    where = f" in {', '.join(panel.labels)}" if panel.labels else ""
    return Text.assemble((clean(column.name), "bold"), f": undefined for this model{where}")


def write_extremes(column: Column, grid: np.ndarray, layout: Layout, precision: int | None) -> Text:
    """Name the heads with the lowest and the highest number."""
    low, high = float(np.nanmin(grid)), float(np.nanmax(grid))
    if low == high:
        whose = "heads that have one" if np.isnan(grid).any() else "heads"
        return Text(f"the same in all {whose}: {write_number(low, column, precision)}", "dim")
    return Text(
        f"lowest {write_number(low, column, precision)} at {_locate(grid == low, layout)} "
        f"to highest {write_number(high, column, precision)} at {_locate(grid == high, layout)}"
    )


def write_number(value: float, column: Column, precision: int | None) -> str:
    """Write a number in a sentence; of a p below 0.001, no more than that."""
    small = column.unit == "probability" and 0 <= value < _LEAST_P and precision is None
    return f"< {_LEAST_P}" if small else format_significant(value, precision)


def write_colours(scale: Scale, rule: str, console: Console) -> Text:
    """Explain the colours: both ends of their scale, and by what rule a head has none."""
    said = Text(f"colours from {scale.low:g} ")
    said.append_text(draw_scale(scale, _BAR_WIDTH, choose_signs(console).bar))
    said.append(f" to {scale.high:g}" + (f"; none: not {rule}" if scale.is_of_effects and rule else ""))
    return said


def write_trust(table: HeadTable, name: str, panel: Panel, console: Console) -> Text:
    """Give the typical standard error, the number of sequences or links, and how many heads are undefined."""
    rows = panel.rows()
    parts = []
    errors = read_floats(table, f"{name}_se")
    if errors is not None and not np.isnan(errors[rows]).all():
        parts.append(f"typical standard error {format_significant(float(np.nanmedian(errors[rows])), 2)}")
    counts = read_floats(table, "n")
    counts = np.zeros(0) if counts is None else counts[rows][np.isfinite(counts[rows])]
    if counts.size:
        least, most = int(counts.min()), int(counts.max())
        counted = next((column.unit for column in table.columns if column.name == "n"), "") or "sequences"
        parts.append(f"{least} {counted}" if least == most else f"{least} to {most} {counted} a head")
    values = read_floats(table, name)
    missing = 0 if values is None else int(np.isnan(values[rows]).sum())
    if missing:
        heads = "head" if missing == 1 else "heads"
        parts.append(f"{missing} {heads} undefined ({choose_signs(console).undefined})")
    return Text(choose_signs(console).between.join(parts), "dim")


def _locate(found: np.ndarray, layout: Layout) -> str:
    (i, j), *others = np.argwhere(found)
    place = f"{layout.layers[i]} {layout.heads[j]}"
    return f"{place} and {len(others)} more" if others else place
