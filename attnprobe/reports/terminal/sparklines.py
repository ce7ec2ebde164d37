"""Heads over the steps of training, a line each."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from rich.console import Console
from rich.text import Text

from attnprobe.reports.columns import read_floats
from attnprobe.reports.scales import find_share
from attnprobe.reports.shapes import Runs
from attnprobe.reports.terminal.console import choose_signs, find_colour, has_palette
from attnprobe.table.cells import clean
from attnprobe.table.head_table import HeadTable
from attnprobe.table.numbers import choose_format, name_head
from attnprobe.table.table import Column

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


def print_runs(
    table: HeadTable,
    runs: Sequence[Runs],
    measures: Sequence[Column],
    console: Console,
    precision: int | None = None,
    *,
    full: bool = False,
) -> None:
    """Print heads over the steps of training, measure by measure."""
    steps = runs[0].steps
    places = np.linspace(0, len(steps) - 1, min(len(steps), _MOST_IN_LINE)).round().astype(int)
    drawn = [steps[place] for place in places]
    counted = "steps" if len(drawn) == len(steps) else f"{len(drawn)} of {len(steps)} steps"
    console.print(Text(f"{counted} {', '.join(map(str, drawn))}; heads that change most come first", "dim"))
    for column in measures:
        for run in runs:
            _print_changes(table, column, run, drawn, console, precision, None if full else _CHANGING)


def _print_changes(
    table: HeadTable,
    column: Column,
    run: Runs,
    steps: Sequence[int],
    console: Console,
    precision: int | None,
    most: int | None,
) -> None:
    """Print the heads that change most, with the number at both ends."""
    values = np.append(np.asarray(read_floats(table, column.name)), np.nan)  # the last is of no row
    heads = sorted({place for place, _ in run.places}, key=lambda place: tuple(map(str, place)))
    lines = np.array([[values[run.places.get((head, step), -1)] for step in steps] for head in heads])
    change = [np.ptp(line[np.isfinite(line)]) if np.isfinite(line).any() else -1 for line in lines]
    order = np.argsort(-np.array(change), kind="stable").tolist()[:most]
    scale, signs = SparkScale.of(lines), choose_signs(console)
    numbers = choose_format(lines.flat, digits=precision or 3)

    def write(value: float) -> str:
        return signs.undefined if np.isnan(value) else numbers.write_whole(float(value))

    unit = f", {clean(column.unit)}" if column.unit else ""
    ends = f"{signs.levels[0]} {write(scale.low)} to {signs.levels[-1]} {write(scale.high)}"
    console.print()
    console.print(Text.assemble((clean(column.name), "bold"), f"{unit} {run.label}".rstrip(), f": {ends}"))
    names = [name_head(*heads[place]) for place in order]
    for name, place in zip(names, order, strict=True):
        line = Text.assemble((name.ljust(max(map(len, names))), "bold"), "  ")
        line.append_text(scale.draw(lines[place], console))
        line.append(f"  {write(lines[place][0])} to {write(lines[place][-1])}")
        console.print(line, no_wrap=True, overflow="crop")
    if left := len(heads) - len(order):
        console.print(Text(f"{signs.more} {left} more heads change less; --full shows them", "dim"))
