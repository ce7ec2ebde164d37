"""Steps of training: a line in each cell of a grid, curves of pruning, how the order of heads settles."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from rich.console import Console
from rich.table import Table
from rich.text import Text

from attnprobe.reports.columns import read_floats, sort_labels
from attnprobe.reports.shapes import RANDOM, SCORE, SETTLING_MEASURES, Runs, Settling
from attnprobe.reports.terminal.console import choose_signs, has_palette
from attnprobe.reports.terminal.curve import LEAST_WIDTH, MARK_STYLE, MOST_WIDTH, Strip, find_share
from attnprobe.reports.terminal.figures import format_significant
from attnprobe.reports.terminal.grid import style_share
from attnprobe.table.cells import format_cell
from attnprobe.table.cleaning import clean
from attnprobe.table.head_table import HeadTable
from attnprobe.table.kinds import PRUNING_STEP, STEP
from attnprobe.table.table import Column


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


def thin_out(number: int, most: int) -> list[int]:
    """Choose which of many places in a row are drawn: evenly, with both ends.

    >>> thin_out(9, 5)
    [0, 2, 4, 6, 8]
    """
    if number <= most:
        return list(range(number))
    return [round(place * (number - 1) / (most - 1)) for place in range(most)]


#: More steps than this are thinned out in a line.
_MOST_STEPS = 12
#: More curves than this are thinned out.
_MOST_CURVES = 40
#: Kinds of attention; more than these are easier to read in a list.
_MOST_PANELS = 4
_GAP = 2


def draw_runs(
    table: HeadTable, runs: list[Runs], measures: Sequence[Column], console: Console, precision: int | None
) -> set[str]:
    """Print the runs as grids or curves; returns the columns that are shown."""
    if PRUNING_STEP in table.data:
        _print_curves(table, runs[0], console, precision)
        return {SCORE, "share_removed", "heads_removed"}
    steps = runs[0].steps
    drawn = [steps[place] for place in thin_out(len(steps), _MOST_STEPS)]
    console.print(Text("rows: layers, columns: heads, counted from 0; in each, from left to right:", "dim"))
    said = "steps" if len(drawn) == len(steps) else f"{len(drawn)} of {len(steps)} steps"
    console.print(Text(f"{said} {', '.join(map(str, drawn))}", "dim"))
    for column in measures:
        values = read_floats(table, column.name)
        assert values is not None  # or it were no measure
        for one in runs:
            _print_grid(column, values, one, drawn, console, precision)
    return {column.name for column in measures}


def _print_grid(
    column: Column, values: np.ndarray, runs: Runs, steps: list[int], console: Console, precision: int | None
) -> None:
    scale = SparkScale.of(values[list(runs.places.values())])
    parts = [clean(part) for part in (column.unit, runs.label) if part]
    console.print()
    heading = Text.assemble((clean(column.name), "bold"), *(f", {part}" for part in parts))
    console.print(heading.append(f": {scale.legend(console, precision)}"))
    layers, heads = (sort_labels([place[at] for place, _ in runs.places]) for at in (0, 1))
    label = max(len(f"L{format_cell(layer)}") for layer in layers) + 1
    wide = max(len(steps), *(len(f"H{format_cell(head)}") for head in heads)) + 1
    across = max(1, (console.width - label) // wide)
    pieces = -(-len(heads) // across)
    each = -(-len(heads) // pieces)  # as alike as can be
    for start in range(0, len(heads), each):
        piece = heads[start : start + each]
        if start:
            console.print()
        header = " " * label + "".join(f"H{format_cell(head)}".ljust(wide) for head in piece)
        console.print(Text(header.rstrip(), "bold"), no_wrap=True, overflow="ignore", crop=False)
        for layer in layers:
            line = Text(f"L{format_cell(layer)}".ljust(label), "bold")
            for head in piece:
                rows = [runs.places.get(((layer, head), step)) for step in steps]
                found = np.array([np.nan if row is None else values[row] for row in rows])
                cell = Text() if set(rows) == {None} else scale.draw(found, console)
                line.append_text(cell).append(" " * (wide - cell.cell_len))
            line.rstrip()
            console.print(line, no_wrap=True, overflow="ignore", crop=False)


def _print_curves(table: HeadTable, runs: Runs, console: Console, precision: int | None) -> None:
    """Print a line a step of training: the score while heads are removed, beside that of random orders."""
    scores = read_floats(table, SCORE)
    assert scores is not None  # or it were no picture
    share = read_floats(table, "share_removed")
    curves: dict[int, dict[bool, dict[float, list[float]]]] = {}
    for ((criterion, _, _, _), step), row in runs.places.items():
        removed = np.nan if share is None else float(share[row])
        of = curves.setdefault(step, {}).setdefault(criterion == RANDOM, {})
        of.setdefault(removed, []).append(float(scores[row]))
    scale = SparkScale.of(scores)
    names = sorted({str(place[0]) for place, _ in runs.places if place[0] != RANDOM})
    unit = f" ({clean(table.column(SCORE).unit)})" if table.column(SCORE).unit else ""
    heading = (clean(", ".join(names) or RANDOM), "bold")
    console.print()
    console.print(Text.assemble(heading, f", {SCORE}{unit}: {scale.legend(console)}"))
    console.print(Text("in each line, from left to right: no head removed to all heads removed", "dim"))
    lines = Table(box=None, pad_edge=False, padding=(0, _GAP, 0, 0), header_style="bold")
    has_random = any(True in of for of in curves.values())
    for name in (STEP, "whole", "curve", "half removed", *(["random"] if has_random else [])):
        lines.add_column(name, justify="left" if name in {"curve", "random"} else "right", no_wrap=True)
    steps = sorted(curves)
    drawn = thin_out(len(steps), _MOST_CURVES)
    for place in drawn:
        of = {random: _average_orders(points) for random, points in curves[steps[place]].items()}
        own = of.get(False, of.get(True, {}))
        half = min(own, key=lambda removed: abs(removed - 0.5))
        whole, middle = (
            Text(_write_figure(own[removed], console, precision)) for removed in (min(own), half)
        )
        beside = [scale.draw(_thin_curve(of.get(True, {})), console)] if has_random else []
        lines.add_row(Text(str(steps[place])), whole, scale.draw(_thin_curve(own), console), middle, *beside)
    console.print(lines)
    if left := len(steps) - len(drawn):
        console.print(
            Text(f"{choose_signs(console).more} {left} more steps; -o heads.csv writes them all", "dim")
        )


def _average_orders(points: dict[float, list[float]]) -> dict[float, float]:
    """Average orders at each share removed; what is undefined is left out."""
    known = {
        removed: [score for score in points[removed] if not np.isnan(score)] for removed in sorted(points)
    }
    return {removed: float(np.mean(scores)) if scores else np.nan for removed, scores in known.items()}


def _thin_curve(points: dict[float, float]) -> np.ndarray:
    values = list(points.values())
    return np.array([values[place] for place in thin_out(len(values), 2 * _MOST_STEPS)])


def _write_figure(value: float, console: Console, precision: int | None) -> str:
    return choose_signs(console).undefined if np.isnan(value) else format_significant(value, precision)


#: The columns that are on the screen, or say the same in other numbers.
SETTLING_COLUMNS = frozenset(SETTLING_MEASURES)
_MOST_LINES = 40


def draw_settling(orders: list[Settling], console: Console) -> None:
    """Print a block a measure; the strip is left out where it has no room."""
    known = choose_signs(console)
    last = (f"{known.mark} ", MARK_STYLE), ("Spearman with the last step", "dim")
    console.print(Text.assemble(*last, f"{known.between}{known.other} ", ("with the step before", "dim")))
    for order in orders:
        console.print()
        least, most = order.heads
        heads = f"{most} heads" if least == most else f"{least} to {most} heads"
        console.print(Text.assemble((clean(order.label), "bold"), f", {heads}"))
        console.print(_make_table(order, console))
        if (left := len(order.steps) - _MOST_LINES) > 0:
            console.print(Text(f"{known.more} {left} more steps; -o heads.csv writes them all", "dim"))


def _make_table(order: Settling, console: Console) -> Table:
    known = choose_signs(console)
    lines = Table(box=None, pad_edge=False, padding=(0, _GAP, 0, 0), header_style="bold")
    for name in (STEP, "last", "previous", "Kendall"):
        lines.add_column(name, justify="right", no_wrap=True)
    both = np.concatenate([order.last, order.previous])
    low = min(0.0, float(both[np.isfinite(both)].min(initial=0.0)))
    used = max(len(STEP), *(len(str(step)) for step in order.steps)) + 4 + 8 + 7 + 4 * _GAP
    width = min(console.width - used, MOST_WIDTH)
    strip = Strip(low, 1.0, width, known) if width >= LEAST_WIDTH else None
    if strip is not None:
        lines.add_column(strip.axis(f"{low:.2g}", "1"), no_wrap=True, header_style="not bold dim")
    for place in thin_out(len(order.steps), _MOST_LINES):
        last, previous, kendall = (float(one[place]) for one in (order.last, order.previous, order.kendall))
        every = (last, previous, kendall)
        cells = [Text(known.undefined if np.isnan(one) else f"{one:z.2f}") for one in every]
        drawn = [] if strip is None else [strip.draw(last, np.array([]), previous)]
        lines.add_row(Text(str(order.steps[place])), *cells, *drawn)
    return lines
