"""Heads over the steps of training, a line each."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from rich.console import Console
from rich.text import Text

from attnprobe.reports.charts.places import AXES
from attnprobe.reports.columns import label_by_others, read_cells, read_floats
from attnprobe.reports.scales import find_share
from attnprobe.reports.terminal.console import choose_signs, find_colour, has_palette
from attnprobe.table.cells import clean
from attnprobe.table.kinds import STEP
from attnprobe.table.numbers import DIGITS, choose_format, name_head
from attnprobe.table.table import Column, HeadTable

#: So many steps are in a sparkline, and so many heads are drawn that change most.
_MOST_IN_LINE, _CHANGING = 24, 12


@dataclass(frozen=True)
class SparkScale:
    """From the lowest to the highest of all numbers that are to be compared; NaN where there is none."""

    low: float
    high: float

    @classmethod
    def of(cls, values: np.ndarray) -> "SparkScale":
        """Span the finite numbers of an array."""
        finite = values[np.isfinite(values)]
        return cls(float(finite.min()), float(finite.max())) if finite.size else cls(np.nan, np.nan)

    def draw(self, values: np.ndarray, console: Console) -> Text:
        """Draw a sign for each number; infinities lie at the ends, and what is undefined has its own sign."""
        signs, line = choose_signs(console), Text()
        for value in values:
            if np.isnan(value) or np.isnan(self.low):
                line.append(signs.undefined)
                continue
            share = find_share(float(value), self.low, self.high)
            sign = signs.levels[round(share * (len(signs.levels) - 1))]
            line.append(sign, find_colour(share) if has_palette(console) else "")
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
    table: HeadTable,
    runs: Mapping[str, Mapping[int, int]],
    measures: Sequence[Column],
    console: Console,
    precision: int | None = None,
    *,
    full: bool = False,
) -> None:
    """Print heads over the steps of training, measure by measure."""
    steps = sorted({step for run in runs.values() for step in run})
    places = np.linspace(0, len(steps) - 1, min(len(steps), _MOST_IN_LINE)).round().astype(int)
    drawn = [steps[place] for place in places]
    counted = "steps" if len(drawn) == len(steps) else f"{len(drawn)} of {len(steps)} steps"
    console.print(Text(f"{counted} {', '.join(map(str, drawn))}; heads that change most come first", "dim"))
    for column in measures:
        values = np.append(np.asarray(read_floats(table, column.name)), np.nan)  # the last is of no row
        lines = np.array([[values[run.get(step, -1)] for step in drawn] for run in runs.values()])
        _print_changes(column, list(runs), lines, console, precision, None if full else _CHANGING)


def _print_changes(
    column: Column,
    names: Sequence[str],
    lines: np.ndarray,
    console: Console,
    precision: int | None,
    most: int | None,
) -> None:
    """Print the heads that change most, with the number at both ends."""
    change = [np.ptp(line[np.isfinite(line)]) if np.isfinite(line).any() else -1 for line in lines]
    order: list[int] = np.argsort(-np.array(change), kind="stable").tolist()[:most]
    scale, signs = SparkScale.of(lines), choose_signs(console)
    numbers = choose_format(lines.flat, digits=precision or DIGITS)

    def write(value: float) -> str:
        return signs.undefined if np.isnan(value) else numbers.write_whole(float(value))

    unit = f", {clean(column.unit)}" if column.unit else ""
    ends = f"{signs.levels[0]} {write(scale.low)} to {signs.levels[-1]} {write(scale.high)}"
    console.print()
    console.print(Text.assemble((clean(column.name), "bold"), unit, f": {ends}"))
    wide = max(len(names[place]) for place in order)
    for place in order:
        line = Text.assemble((names[place].ljust(wide), "bold"), "  ")
        line.append_text(scale.draw(lines[place], console))
        line.append(f"  {write(lines[place][0])} to {write(lines[place][-1])}")
        console.print(line, no_wrap=True, overflow="crop")
    if left := len(names) - len(order):
        console.print(Text(f"{signs.more} {left} more heads change less; --full shows them", "dim"))
