"""Pruning curves: a line for each step, with the criterion's score beside those of random orders."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from attnprobe.reports.shapes import SCORE, Comparison
from attnprobe.reports.terminal.console import Signs, choose_signs
from attnprobe.reports.terminal.figures import DIGITS, choose_decimals, choose_figures, write_with_error
from attnprobe.table.cleaning import clean


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
    ends = zip(("mean", "lowest", "highest"), summarise_orders(each.random), strict=True)
    random = [StepColumn(("random", name), list(map(writer.write, values))) for name, values in ends]
    return [*columns, *random] if orders else columns


def summarise_orders(random: np.ndarray) -> np.ndarray:
    """Summarise each step by the mean, the lowest and the highest score; NaN where no order has one."""
    found = np.full((3, len(random)), np.nan)
    with np.errstate(invalid="ignore", over="ignore"):  # infinities of both signs have no mean
        for i, values in enumerate(random):
            if (defined := values[~np.isnan(values)]).size:
                found[:, i] = defined.mean(), defined.min(), defined.max()
    return found


def _write_shares(shares: np.ndarray, signs: Signs) -> list[str]:
    percent = 100 * shares
    known = percent[np.isfinite(percent)]
    decimals = 0 if np.allclose(known, np.round(known)) else 1
    return [signs.undefined if np.isnan(share) else f"{share:z.{decimals}f} %" for share in percent]


def find_share(value: float, low: float, high: float) -> float:
    """Find where between two ends a number lies, from 0 to 1; in the middle of ends that are the same."""
    # Halved, so that the length stays finite for the largest of floats.
    length = high / 2 - low / 2
    return min(max((value / 2 - low / 2) / length, 0.0), 1.0) if length > 0 else 0.5


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


CURVE_COLUMNS = frozenset({SCORE, "share_removed", "heads_removed"})
_MOST_STEPS = 40
_GAP = 2


@dataclass(frozen=True)
class _Block:
    """One criterion ready to print."""

    curve: Comparison
    writer: ScoreWriter
    removed: list[StepColumn]
    scores: list[StepColumn]
    steps: Sequence[int]

    def width(self) -> int:
        return sum(column.width() + _GAP for column in (*self.removed, *self.scores)) - _GAP


def draw_curves(found: list[Comparison], console: Console, precision: int | None = None) -> None:
    """Print a block a criterion, all laid out alike; the plot is left out where it has no room.

    Without ``precision``, numbers have as many digits as their standard errors allow.
    """
    known = choose_signs(console)
    blocks = [_make_block(curve, known, precision) for curve in found]
    room = console.width - max(block.width() for block in blocks)
    width = min(room - _GAP, MOST_WIDTH)
    if width < LEAST_WIDTH or all(np.isnan(curve.extent).all() for curve in found):
        width = 0
    for block in blocks:
        console.print()
        console.print(_write_heading(block.curve))
        console.print(_write_legend(block.curve, known, bool(width)))
        if room >= 0:
            console.print(_make_table(block, width, known))
        else:
            _print_records(block, console)
        if np.isnan(block.curve.random).any():
            console.print(Text("random orders without a score at a step are left out of its mean", "dim"))
        if left := len(block.curve.steps) - len(block.steps):
            console.print(Text(f"{known.more} {left} more steps; -o heads.csv writes them all", "dim"))


def _make_block(curve: Comparison, signs: Signs, precision: int | None) -> _Block:
    writer = ScoreWriter(curve, signs, precision)
    shown = range(steps := len(curve.steps))
    if steps > _MOST_STEPS:  # thinned out evenly: a curve without its end would be half a curve
        shown = [round(i * (steps - 1) / (_MOST_STEPS - 1)) for i in range(_MOST_STEPS)]
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


def _make_table(block: _Block, width: int, signs: Signs) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, _GAP, 0, 0), header_style="bold")
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
        mean = summarise_orders(block.curve.random)[0]
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
