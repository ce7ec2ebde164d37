"""What stands above and below a grid: its name and unit, its extremes, and how far to trust it."""

import numpy as np
from rich.console import Console
from rich.text import Text

from attnprobe.findings.outliers import FEWEST, Outliers, find_outliers
from attnprobe.reports.columns import read_floats
from attnprobe.reports.scales import Scale
from attnprobe.reports.shapes import Panel
from attnprobe.reports.terminal.console import choose_signs
from attnprobe.reports.terminal.figures import USUAL_DIGITS, Figures, format_significant
from attnprobe.reports.terminal.grid import Layout, draw_scale
from attnprobe.table.cells import format_cell
from attnprobe.table.cleaning import clean
from attnprobe.table.head_table import HeadTable
from attnprobe.table.naming import listed
from attnprobe.table.table import Column

_BAR_WIDTH = 12
#: No sentence says more of a smaller p.
_LEAST_P = 0.001
#: How many heads a sentence names.
_NAMED = 3


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
        return Text(f"the same in all {whose}: {_write_number(low, column, precision)}", "dim")
    return Text(
        f"lowest {_write_number(low, column, precision)} at {_locate(grid == low, layout)} "
        f"to highest {_write_number(high, column, precision)} at {_locate(grid == high, layout)}"
    )


def _write_number(value: float, column: Column, precision: int | None) -> str:
    """Write a number in a sentence; of a p below 0.001, no more than that."""
    small = column.unit == "probability" and 0 <= value < _LEAST_P and precision is None
    return f"< {_LEAST_P}" if small else format_significant(value, precision)


def write_colours(scale: Scale, rule: str, console: Console) -> Text:
    """Explain the colours: both ends of their scale, and by what rule a head has none."""
    said = Text(f"colours from {scale.low:g} ")
    said.append_text(draw_scale(scale, _BAR_WIDTH, choose_signs(console).bar))
    said.append(f" to {scale.high:g}" + (f"; none: not {rule}" if scale.is_of_effects and rule else ""))
    return said


def name_outliers(table: HeadTable, column: Column, panel: Panel, precision: int | None) -> Text | None:
    """Name the outliers, as ``findings.outliers`` defines them; None where that says nothing."""
    values = read_floats(table, column.name)
    if values is None or column.unit == "probability":
        return None
    grid = panel.grid(values)
    if np.isfinite(grid).sum() < FEWEST:
        return None
    errors = read_floats(table, f"{column.name}_se")
    found = find_outliers(grid.ravel(), None if errors is None else panel.grid(errors).ravel())
    said = [_describe_outliers(one, grid, panel, column, precision) for one in found]
    return Text(" ".join(said) or "No head is an outlier.")


def _describe_outliers(
    found: Outliers, grid: np.ndarray, panel: Panel, column: Column, precision: int | None
) -> str:
    heads = listed([_name_head(grid, place, panel, precision) for place in found.heads], _NAMED)
    what = "is an outlier" if len(found.heads) == 1 else "are outliers"
    side = "above" if found.above else "below"
    title = clean(column.title or column.name)
    said = f"{heads[0].upper()}{heads[1:]} {what} in {title} (beyond Tukey's outer fence)"
    limit = found.limit(precision or USUAL_DIGITS)
    last_out = float(grid.ravel()[found.heads[-1]])
    if (found.nearest > last_out) is found.above and found.nearest != last_out:
        return f"{said}."  # a head beyond them has too wide an interval to be one
    return f"{said}; no other head is {side} {format_significant(limit, precision)}."


def _name_head(grid: np.ndarray, place: int, panel: Panel, precision: int | None) -> str:
    layer, head = divmod(place, grid.shape[1])
    return (
        f"head {format_cell(panel.heads[head])} of layer {format_cell(panel.layers[layer])} "
        f"({format_significant(float(grid[layer, head]), precision)})"
    )


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
