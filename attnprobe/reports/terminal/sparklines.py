"""Heads over the steps of training, a line each."""

from collections.abc import Mapping, Sequence

import numpy as np
from rich.text import Text

from attnprobe.reports.charts.places import AXES
from attnprobe.reports.columns import label_by_others, read_cells, read_floats
from attnprobe.reports.scales import Scale
from attnprobe.reports.terminal.console import Screen, find_colour
from attnprobe.table.cells import clean
from attnprobe.table.kinds import STEP
from attnprobe.table.numbers import DIGITS, choose_format, name_head
from attnprobe.table.table import Column, HeadTable


def draw_sparkline(values: np.ndarray, scale: Scale, screen: Screen) -> Text:
    """Draw a sign for each number; infinities lie at the ends, and what is undefined has its own sign."""
    line = Text()
    for value in values.tolist():
        if np.isnan(value):
            line.append(screen.signs.undefined)
            continue
        share, levels = scale.place(value), screen.signs.levels
        line.append(
            levels[round(share * (len(levels) - 1))], find_colour(share) if screen.has_palette else ""
        )
    return line


def find_runs(table: HeadTable) -> dict[str, dict[int, int]]:
    """Find the row of each head at each step of training; none for other tables, or of two rows at a step."""
    if table.kind != "heads of checkpoints":
        return {}
    kinds, steps = label_by_others(table, {STEP, *AXES}), read_cells(table, STEP)
    runs: dict[str, dict[int, int]] = {}
    axes = (read_cells(table, axis) for axis in AXES)
    for row, (kind, step, *head) in enumerate(zip(kinds, steps, *axes, strict=True)):
        run = runs.setdefault(name_head(*filter(None, [kind]), *head), {})
        if not isinstance(step, int) or run.setdefault(step, row) != row:
            return {}
    return runs


def print_runs(
    table: HeadTable, runs: Mapping[str, Mapping[int, int]], measures: Sequence[Column], screen: Screen
) -> None:
    """Print heads over at most 24 steps of training, measure by measure."""
    steps = sorted({step for run in runs.values() for step in run})
    places = np.linspace(0, len(steps) - 1, min(len(steps), 24)).round().astype(int)
    drawn = [steps[place] for place in places]
    counted = "steps" if len(drawn) == len(steps) else f"{len(drawn)} of {len(steps)} steps"
    screen.print(f"{counted} {', '.join(map(str, drawn))}; heads that change most come first", "dim")
    for column in measures:
        values = np.append(read_floats(table, column.name), np.nan)  # the last is of no row
        lines = np.array([[values[run.get(step, -1)] for step in drawn] for run in runs.values()])
        _print_changes(column, list(runs), lines, screen)


def _print_changes(column: Column, names: Sequence[str], lines: np.ndarray, screen: Screen) -> None:
    """Print the 12 heads that change most, with the number at both ends."""
    change = [np.ptp(line[np.isfinite(line)]) if np.isfinite(line).any() else -1 for line in lines]
    order: list[int] = np.argsort(-np.array(change), kind="stable").tolist()[: None if screen.full else 12]
    finite = lines[np.isfinite(lines)]
    scale = Scale(float(finite.min()), float(finite.max())) if finite.size else Scale(0.0, 0.0)
    numbers, signs = choose_format(lines.flat, digits=screen.precision or DIGITS), screen.signs

    def write(value: float) -> str:
        return signs.undefined if np.isnan(value) else numbers.write_whole(float(value))

    unit = f", {clean(column.unit)}" if column.unit else ""
    ends = f"{signs.levels[0]} {write(scale.low)} to {signs.levels[-1]} {write(scale.high)}"
    screen.print_heading(clean(column.name), unit, f": {ends}")
    wide = max(len(names[place]) for place in order)
    for place in order:
        line = Text.assemble((names[place].ljust(wide), "bold"), "  ")
        line.append_text(draw_sparkline(lines[place], scale, screen))
        line.append(f"  {write(lines[place][0])} to {write(lines[place][-1])}")
        screen.console.print(line, no_wrap=True, overflow="crop")
    if left := len(names) - len(order):
        screen.print(f"{signs.more} {left} more heads change less; --full shows them", "dim")
