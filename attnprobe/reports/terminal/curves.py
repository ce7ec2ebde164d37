"""Curves: scores while heads are removed, and measures over the steps of training."""

from collections.abc import Sequence, Set
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from attnprobe.reports.columns import read_floats, sort_labels
from attnprobe.reports.scales import find_share
from attnprobe.reports.shapes import (
    RANDOM,
    SCORE,
    Comparison,
    Runs,
    average_orders,
)
from attnprobe.reports.terminal.console import (
    DIGITS,
    Signs,
    choose_decimals,
    choose_figures,
    choose_signs,
    format_significant,
    has_palette,
    write_with_error,
)
from attnprobe.reports.terminal.grid import style_share
from attnprobe.table.cells import clean, format_cell
from attnprobe.table.head_table import HeadTable
from attnprobe.table.kinds import PRUNING_STEP, STEP
from attnprobe.table.table import Cell, Column


@dataclass(frozen=True)
class StepColumn:
    """One column ready to print, under a header of two lines of which the upper one may be empty."""

    header: tuple[str, str]
    cells: list[str]

    def width(self) -> int:
        return max(cell_len(part) for part in (*self.header, *self.cells))


class ScoreWriter:
    """Writes the scores of one comparison to the same decimals, so that they can be compared by eye.

    Its criterion's standard errors say how many decimals mean something. They hold for the random
    orders too: other heads were off, but over the same examples.
    """

    def __init__(self, each: Comparison, signs: Signs, precision: int | None) -> None:
        """Choose the decimals; an explicit precision is a number of significant digits instead."""
        self._signs, self._digits = signs, precision or DIGITS
        self._decimals = choose_decimals(each.error) if precision is None else None
        figures = choose_figures(np.concatenate([each.score, each.random.ravel()]), DIGITS)[0]
        if precision is None and self._decimals is None and not figures.exponent:
            self._decimals = figures.decimals or 1  # the mean of whole numbers is seldom whole

    def write(self, value: float, error: float = np.nan) -> str:
        """Write a score, with its standard error if it has one."""
        cell = None if np.isnan(value) else float(value)
        return write_with_error(cell, float(error), self._signs, self._decimals, self._digits)


def write_removed(each: Comparison, signs: Signs) -> list[StepColumn]:
    """Write out how far each step goes; by its number if the table does not say how much that is."""
    columns = []
    if not np.isnan(each.share).all():
        columns.append(StepColumn(("", "removed"), _write_shares(each.share, signs)))
    if not np.isnan(each.heads).all():
        heads = [signs.undefined if np.isnan(count) else f"{count:.0f}" for count in each.heads]
        columns.append(StepColumn(("", "heads"), heads))
    return columns or [StepColumn(("", "step"), [str(step) for step in each.steps])]


def write_scores(each: Comparison, writer: ScoreWriter) -> list[StepColumn]:
    """Write out the criterion's score and, where there are random orders, what they come to."""
    columns = []
    if each.criterion is not None:
        columns.append(StepColumn(("", SCORE), list(map(writer.write, each.score, each.error))))
    if (orders := each.random.shape[1]) == 1:
        return [*columns, StepColumn(("", "random"), list(map(writer.write, each.random[:, 0])))]
    ends = zip(("mean", "lowest", "highest"), each.summary, strict=True)
    random = [StepColumn(("random", name), list(map(writer.write, values))) for name, values in ends]
    return [*columns, *random] if orders else columns


def _write_shares(shares: np.ndarray, signs: Signs) -> list[str]:
    percent = 100 * shares
    known = percent[np.isfinite(percent)]
    decimals = 0 if np.allclose(known, np.round(known)) else 1
    return [signs.undefined if np.isnan(share) else f"{share:z.{decimals}f} %" for share in percent]


MARK_STYLE = "bold cyan"
LEAST_WIDTH, MOST_WIDTH = 20, 40


@dataclass(frozen=True)
class Strip:
    """A scale to draw on."""

    low: float  # the score at its left end; NaN, as at the right, if there is no finite score
    high: float
    width: int  # in characters
    signs: Signs

    def axis(self, low: str, high: str) -> Text:
        """Write the ends of the scale above it; in the middle if they are the same."""
        if self.low == self.high:
            return Text(low.center(self.width).rstrip())
        room = self.width - len(low)
        return Text(f"{low}{high.rjust(room)}" if len(high) < room else "")

    def draw(self, score: float, random: np.ndarray, mean: float) -> Text:
        """Mark the score and the mean of the random orders, with a line over all the orders."""
        cells = [" "] * self.width
        places = [place for value in random if (place := self.place(value)) is not None]
        if places:
            wide = max(places) + 1 - min(places)
            cells[min(places) : max(places) + 1] = [self.signs.line] * wide
        middle, mark = self.place(mean), self.place(score)
        if middle is not None:
            cells[middle] = self.signs.other
        if mark is None:
            return Text("".join(cells))
        # The score is drawn last: it is what the table is about.
        return Text.assemble("".join(cells[:mark]), (self.signs.mark, MARK_STYLE), "".join(cells[mark + 1 :]))

    def place(self, value: float) -> int | None:
        """Find the character for a score; infinities lie at the ends, NaN nowhere."""
        if np.isnan(value) or np.isnan(self.low):
            return None
        if np.isinf(value):
            return 0 if value < 0 else self.width - 1
        return round(find_share(value, self.low, self.high) * (self.width - 1))


#: The columns of a pruning curve that are on the screen.
CURVE_COLUMNS = frozenset({SCORE, "share_removed", "heads_removed"})
#: More steps than this are thinned out: in lines below each other, and within a line.
MOST_LINES, _MOST_IN_LINE = 40, 12
GAP = 2


@dataclass(frozen=True)
class _Block:
    """One criterion ready to print."""

    curve: Comparison
    writer: ScoreWriter
    removed: list[StepColumn]
    scores: list[StepColumn]
    steps: Sequence[int]

    def width(self) -> int:
        return sum(column.width() + GAP for column in (*self.removed, *self.scores)) - GAP


def draw_curves(
    found: list[Comparison], console: Console, precision: int | None = None, full: bool = False
) -> None:
    """Print a block a criterion, all laid out alike; the plot is left out where it has no room.

    Without ``precision``, numbers have as many digits as their standard errors allow.
    """
    known = choose_signs(console)
    blocks = [_make_block(curve, known, precision, full) for curve in found]
    room = console.width - max(block.width() for block in blocks)
    width = min(room - GAP, MOST_WIDTH)
    if width < LEAST_WIDTH or all(np.isnan(curve.extent).all() for curve in found):
        width = 0
    for block in blocks:
        console.print()
        console.print(_write_heading(block.curve))
        console.print(_write_legend(block.curve, known, bool(width)))
        if room >= 0:
            console.print(_tabulate_block(block, width, known))
        else:
            _print_records(block, console)
        if np.isnan(block.curve.random).any():
            console.print(Text("random orders without a score at a step are left out of its mean", "dim"))
        note_left_out(len(block.curve.steps), len(block.steps), console)


def start_table() -> Table:
    """Start a table without lines, under bold headers."""
    return Table(box=None, pad_edge=False, padding=(0, GAP, 0, 0), header_style="bold")


def note_left_out(steps: int, shown: int, console: Console) -> None:
    """Say how many steps have no line."""
    if (left := steps - shown) > 0:
        more = choose_signs(console).more
        console.print(Text(f"{more} {left} more steps; -o heads.csv writes them all", "dim"))


def _make_block(curve: Comparison, signs: Signs, precision: int | None, full: bool) -> _Block:
    writer = ScoreWriter(curve, signs, precision)
    shown = thin_out(len(curve.steps), None if full else MOST_LINES)
    return _Block(curve, writer, write_removed(curve, signs), write_scores(curve, writer), shown)


def _write_heading(curve: Comparison) -> Text:
    parts = [clean(label) for label in curve.labels]
    if curve.unit:
        parts.append(f"{SCORE} ({clean(curve.unit)})")
    if curve.examples is not None:
        least, most = curve.examples
        parts.append(f"n {least}" if least == most else f"n {least} to {most}")
    name = "random orders" if curve.criterion is None else clean(curve.criterion)
    return Text.assemble((name, "bold"), *(f", {part}" for part in parts))


def _write_legend(curve: Comparison, signs: Signs, has_plot: bool) -> Text:
    """Say what the score is compared with, and which mark is which."""
    parts = []
    if curve.criterion is not None:
        sure = "" if np.isnan(curve.error).all() else f" {signs.plus_minus} standard error"
        parts.append((f"{SCORE}{sure}", signs.mark, MARK_STYLE))
    orders = curve.random.shape[1]
    if orders == 1:
        parts.append(("one random order", signs.other, ""))
    elif orders:
        ends, mean = "lowest to highest", f"mean of {orders} random orders"
        parts.append((mean if has_plot else f"{mean} ({ends})", signs.other, ""))
        parts += [(ends, signs.line, "")] if has_plot else []
    return Text(signs.between).join(
        Text.assemble((f"{mark} ", style) if has_plot else "", (text, "dim")) for text, mark, style in parts
    )


def _tabulate_block(block: _Block, width: int, signs: Signs) -> Table:
    table = start_table()
    columns = [*block.removed, *block.scores]
    has_top = any(column.header[0] for column in columns)
    for column in columns:
        header = "\n".join(column.header if has_top else column.header[1:])
        table.add_column(Text(header), justify="right", no_wrap=True, min_width=column.width())
    lines = [[Text(column.cells[step]) for column in columns] for step in block.steps]
    if width:
        low, high = block.curve.extent
        strip = Strip(low, high, width, signs)
        axis = strip.axis(block.writer.write(low), block.writer.write(high))
        header = Text("\n" if has_top else "").append_text(axis)
        table.add_column(header, no_wrap=True, min_width=width, header_style="not bold dim")
        mean = block.curve.summary[0]
        for line, step in zip(lines, block.steps, strict=True):
            line.append(strip.draw(block.curve.score[step], block.curve.random[step], mean[step]))
    for line in lines:
        table.add_row(*line)
    return table


def _print_records(block: _Block, console: Console) -> None:
    """Print a few short lines a step, for a console where not even the figures fit on one."""
    for step in block.steps:
        far = (f"{column.header[1]} {column.cells[step]}" for column in block.removed)
        console.print(Text(", ".join(far), "bold"))
        found: dict[str, list[str]] = {}
        for column in block.scores:
            found.setdefault(column.header[0] or column.header[1], []).append(column.cells[step])
        for name, (cell, *ends) in found.items():
            console.print(Text(f"  {name} {cell}" + (f" ({' to '.join(ends)})" if ends else "")))


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


def thin_out(number: int, most: int | None) -> list[int]:
    """Choose which of many places in a row are drawn: evenly, with both ends; all where ``most`` is None.

    >>> thin_out(9, 5)
    [0, 2, 4, 6, 8]
    """
    if most is None or number <= most:
        return list(range(number))
    return [round(place * (number - 1) / (most - 1)) for place in range(most)]


def draw_runs(
    table: HeadTable,
    runs: list[Runs],
    measures: Sequence[Column],
    console: Console,
    precision: int | None,
    full: bool = False,
) -> Set[str]:
    """Print the runs as grids or curves; returns the columns that are shown."""
    if PRUNING_STEP in table.data:
        _print_curves(table, runs[0], console, precision, full)
        return CURVE_COLUMNS
    steps = runs[0].steps
    drawn = [steps[place] for place in thin_out(len(steps), _MOST_IN_LINE)]
    console.print(Text("rows: layers, columns: heads, counted from 0; in each, from left to right:", "dim"))
    said = "steps" if len(drawn) == len(steps) else f"{len(drawn)} of {len(steps)} steps"
    console.print(Text(f"{said} {', '.join(map(str, drawn))}", "dim"))
    for column in measures:
        values = read_floats(table, column.name)
        assert values is not None  # or it were no measure
        for one in runs:
            _print_grid(column, values, one, drawn, console, precision)
    return {column.name for column in measures}


class HeadGrid(NamedTuple):
    """Layers down and heads across, in pieces where they do not fit side by side."""

    layers: list[Cell]
    pieces: list[list[Cell]]  # the heads of each piece
    label: int  # the width of the names of layers
    wide: int  # the width of a head


def split_heads(runs: Runs, steps: int, room: int) -> HeadGrid:
    """Lay out heads, each with a sign for every step, in so many characters."""
    layers, heads = (sort_labels([place[at] for place, _ in runs.places]) for at in (0, 1))
    label = max(len(f"L{format_cell(layer)}") for layer in layers) + 1
    wide = max(steps, *(len(f"H{format_cell(head)}") for head in heads)) + 1
    across = max(1, (room - label) // wide)
    pieces = -(-len(heads) // across)
    each = -(-len(heads) // pieces)  # as alike as can be
    return HeadGrid(layers, [heads[i : i + each] for i in range(0, len(heads), each)], label, wide)


def _print_grid(
    column: Column, values: np.ndarray, runs: Runs, steps: list[int], console: Console, precision: int | None
) -> None:
    scale = SparkScale.of(values[list(runs.places.values())])
    parts = [clean(part) for part in (column.unit, runs.label) if part]
    console.print()
    heading = Text.assemble((clean(column.name), "bold"), *(f", {part}" for part in parts))
    console.print(heading.append(f": {scale.legend(console, precision)}"))
    layers, pieces, label, wide = split_heads(runs, len(steps), console.width)
    for number, piece in enumerate(pieces):
        if number:
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


def _print_curves(table: HeadTable, runs: Runs, console: Console, precision: int | None, full: bool) -> None:
    """Print a line a step of training: the score while heads are removed, beside that of random orders."""
    curves = average_orders(table, runs)
    scale = SparkScale.of(np.array(table.data[SCORE], float))
    names = sorted({str(place[0]) for place, _ in runs.places if place[0] != RANDOM})
    unit = f" ({clean(table.column(SCORE).unit)})" if table.column(SCORE).unit else ""
    heading = (clean(", ".join(names) or RANDOM), "bold")
    console.print()
    console.print(Text.assemble(heading, f", {SCORE}{unit}: {scale.legend(console)}"))
    console.print(Text("in each line, from left to right: no head removed to all heads removed", "dim"))
    lines = start_table()
    has_random = any(True in of for of in curves.values())
    for name in (STEP, "whole", "curve", "half removed", *(["random"] if has_random else [])):
        lines.add_column(name, justify="left" if name in {"curve", "random"} else "right", no_wrap=True)
    steps = sorted(curves)
    drawn = thin_out(len(steps), None if full else MOST_LINES)
    for place in drawn:
        of = curves[steps[place]]
        own = of.get(False, of.get(True, {}))
        half = min(own, key=lambda removed: abs(removed - 0.5))
        whole, middle = (
            Text(_write_figure(own[removed], console, precision)) for removed in (min(own), half)
        )
        beside = [scale.draw(_thin_curve(of.get(True, {})), console)] if has_random else []
        lines.add_row(Text(str(steps[place])), whole, scale.draw(_thin_curve(own), console), middle, *beside)
    console.print(lines)
    note_left_out(len(steps), len(drawn), console)


def _thin_curve(points: dict[float, float]) -> np.ndarray:
    values = list(points.values())
    return np.array([values[place] for place in thin_out(len(values), 2 * _MOST_IN_LINE)])


def _write_figure(value: float, console: Console, precision: int | None) -> str:
    return choose_signs(console).undefined if np.isnan(value) else format_significant(value, precision)
