"""Heads over the steps of training, a line each."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from rich.console import Console
from rich.text import Text

from attnprobe.reports.columns import read_floats
from attnprobe.reports.scales import find_share
from attnprobe.reports.shapes import Runs
from attnprobe.reports.terminal.console import choose_signs, format_significant, has_palette
from attnprobe.reports.terminal.grid import style_share
from attnprobe.table.cells import clean, format_cell
from attnprobe.table.head_table import HeadTable
from attnprobe.table.table import Column

#: So many steps are in a sparkline, and so many heads are drawn that change most.
_MOST_IN_LINE, _CHANGING = 24, 12


def draw_runs(
    table: HeadTable,
    runs: list[Runs],
    measures: Sequence[Column],
    console: Console,
    precision: int | None,
    full: bool = False,
) -> None:
    """Print heads over the steps of training, measure by measure."""
    steps = runs[0].steps
    places = np.linspace(0, len(steps) - 1, min(len(steps), _MOST_IN_LINE)).round().astype(int)
    drawn = [steps[place] for place in places]
    counted = "steps" if len(drawn) == len(steps) else f"{len(drawn)} of {len(steps)} steps"
    console.print(Text(f"{counted} {', '.join(map(str, drawn))}; heads that change most come first", "dim"))
    for column in measures:
        values = read_floats(table, column.name)
        assert values is not None  # or it were no measure
        for one in runs:
            _draw_changes(column, values, one, drawn, console, precision, full)


@dataclass(frozen=True)
class SparkScale:
    """From the lowest to the highest of all numbers that are to be compared."""

    low: float
    high: float  # the highest; NaN, as the lowest, where there is no finite number

    @classmethod
    def of(cls, values: np.ndarray) -> "SparkScale":
        """Span the finite numbers of an array."""
        finite = values[np.isfinite(values)]
        return cls(float(finite.min()), float(finite.max())) if finite.size else cls(np.nan, np.nan)

    def draw(self, values: np.ndarray, console: Console) -> Text:
        """Draw a sign for each number; infinities lie at the ends, and what is undefined has its own sign."""
        known, line = choose_signs(console), Text()
        for value in values:
            if np.isnan(value) or np.isnan(self.low):
                line.append(known.undefined)
                continue
            share = find_share(float(value), self.low, self.high)
            sign = known.levels[round(share * (len(known.levels) - 1))]
            line.append(sign, style_share(share) if has_palette(console) else "")
        return line

    def legend(self, console: Console, precision: int | None = None) -> str:
        if np.isnan(self.low):
            return "undefined throughout"
        low, high = (format_significant(end, precision) for end in (self.low, self.high))
        if self.low == self.high:
            return f"the same throughout: {low}"
        lowest, *_, highest = choose_signs(console).levels
        return f"{lowest} {low} to {highest} {high}"


def _draw_changes(
    column: Column,
    values: np.ndarray,
    runs: Runs,
    steps: Sequence[int],
    console: Console,
    precision: int | None,
    full: bool,
) -> None:
    """Print the heads that change most, a line each, with the number at both ends."""
    heads = sorted({place for place, _ in runs.places}, key=lambda one: tuple(map(str, one)))
    rows = [[runs.places.get((head, step)) for step in steps] for head in heads]
    every = np.array([[np.nan if row is None else values[row] for row in line] for line in rows])
    change = np.array([np.ptp(line[np.isfinite(line)]) if np.isfinite(line).any() else -1 for line in every])
    order = np.argsort(-change, kind="stable").tolist()[: None if full else _CHANGING]
    scale, signs = SparkScale.of(every), choose_signs(console)
    parts = [clean(part) for part in (column.unit, runs.label) if part]
    console.print()
    heading = Text.assemble((clean(column.name), "bold"), *(f", {part}" for part in parts))
    console.print(heading.append(f": {scale.legend(console, precision)}"))
    names = [f"L{format_cell(heads[place][0])} H{format_cell(heads[place][1])}" for place in order]
    wide = max(map(len, names))
    for name, place in zip(names, order, strict=True):
        ends = [_write_figure(float(every[place][at]), console, precision) for at in (0, -1)]
        line = Text.assemble((name.ljust(wide), "bold"), "  ").append_text(scale.draw(every[place], console))
        console.print(line.append(f"  {ends[0]} to {ends[1]}"), no_wrap=True, overflow="crop")
    if (left := len(heads) - len(order)) > 0:
        console.print(Text(f"{signs.more} {left} more heads change less; --full shows them", "dim"))


def _write_figure(value: float, console: Console, precision: int | None) -> str:
    return choose_signs(console).undefined if np.isnan(value) else format_significant(value, precision)
