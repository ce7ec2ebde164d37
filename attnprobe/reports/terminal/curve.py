"""Pruning curves: a line for each step, with the criterion's score beside those of random orders."""

from dataclasses import dataclass

import numpy as np
from rich.console import Console
from rich.table import Table
from rich.text import Text

from attnprobe.reports.terminal.console import Signs, signs
from attnprobe.reports.terminal.orders import SCORE, Comparison
from attnprobe.reports.terminal.steps import ScoreWriter, StepColumn, removed, scores, spread
from attnprobe.reports.terminal.strip import LEAST_WIDTH, MARK_STYLE, MOST_WIDTH, Strip
from attnprobe.table.cleaning import clean

SHOWN = frozenset({SCORE, "share_removed", "heads_removed"})
_MOST_STEPS = 40
_GAP = 2


@dataclass(frozen=True)
class _Block:
    """One criterion ready to print."""

    curve: Comparison
    writer: ScoreWriter
    removed: list[StepColumn]
    scores: list[StepColumn]
    steps: list[int]

    def width(self) -> int:
        columns = [*self.removed, *self.scores]
        return sum(column.width() + _GAP for column in columns) - _GAP


def draw(found: list[Comparison], console: Console, precision: int | None = None) -> None:
    """Print a block a criterion, all laid out alike; the plot is left out where it has no room.

    - ``found``: The comparisons, at least one.
    - ``console``: Where; width and encoding are taken from it.
    - ``precision``: Significant digits; None for as many as the standard errors allow.
    """
    blocks = [_block(curve, signs(console), precision) for curve in found]
    room = console.width - max(block.width() for block in blocks)
    width = min(room - _GAP, MOST_WIDTH)
    if width < LEAST_WIDTH or all(np.isnan(curve.extent).all() for curve in found):
        width = 0
    for block in blocks:
        console.print()
        console.print(_heading(block.curve))
        console.print(_legend(block.curve, signs(console), bool(width)))
        if room >= 0:
            console.print(_lines(block, width, signs(console)))
        else:
            _records(block, console)
        if np.isnan(block.curve.random).any():
            console.print(Text("random orders without a score at a step are left out of its mean", "dim"))
        if left := len(block.curve.steps) - len(block.steps):
            more = f"{signs(console).more} {left} more steps; -o heads.csv writes them all"
            console.print(Text(more, "dim"))


def _block(curve: Comparison, signs: Signs, precision: int | None) -> _Block:
    writer = ScoreWriter(curve, signs, precision)
    steps = len(curve.steps)
    # Too many steps to read are thinned out evenly: a curve without its end would be half a curve.
    shown = [round(i * (steps - 1) / (_MOST_STEPS - 1)) for i in range(_MOST_STEPS)]
    return _Block(
        curve,
        writer,
        removed(curve, signs),
        scores(curve, writer),
        shown if steps > _MOST_STEPS else list(range(steps)),
    )


def _heading(curve: Comparison) -> Text:
    text = Text()
    text.append("random orders" if curve.criterion is None else clean(curve.criterion), "bold")
    parts = [clean(label) for label in curve.labels]
    if curve.unit:
        parts.append(f"{SCORE} ({clean(curve.unit)})")
    if curve.examples is not None:
        least, most = curve.examples
        parts.append(f"n {least}" if least == most else f"n {least} to {most}")
    for part in parts:
        text.append(f", {part}")
    return text


def _legend(curve: Comparison, signs: Signs, has_plot: bool) -> Text:
    """Say what the score is compared with, and which mark is which."""
    parts = []
    if curve.criterion is not None:
        sure = "" if np.isnan(curve.error).all() else f" {signs.plus_minus} standard error"
        parts.append((f"{SCORE}{sure}", signs.mark, MARK_STYLE))
    orders = curve.random.shape[1]
    if orders == 1:
        parts.append(("one random order", signs.other, ""))
    elif orders:
        ends = "lowest to highest"
        mean = f"mean of {orders} random orders"
        parts.append((mean if has_plot else f"{mean} ({ends})", signs.other, ""))
        if has_plot:
            parts.append((ends, signs.line, ""))
    return Text(signs.between).join(
        Text.assemble((f"{mark} ", style) if has_plot else "", (text, "dim")) for text, mark, style in parts
    )


def _lines(block: _Block, width: int, signs: Signs) -> Table:
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
        mean = spread(block.curve.random)[0]
        for line, step in zip(lines, block.steps, strict=True):
            line.append(strip.draw(block.curve.score[step], block.curve.random[step], mean[step]))
    for line in lines:
        table.add_row(*line)
    return table


def _records(block: _Block, console: Console) -> None:
    """Print a few short lines a step, for a console where not even the figures fit on one."""
    for step in block.steps:
        far = (f"{column.header[1]} {column.cells[step]}" for column in block.removed)
        console.print(Text(", ".join(far), "bold"))
        found: dict[str, list[str]] = {}
        for column in block.scores:
            above, name = column.header
            found.setdefault(above or name, []).append(column.cells[step])
        for name, (cell, *ends) in found.items():
            console.print(Text(f"  {name} {cell}" + (f" ({' to '.join(ends)})" if ends else "")))
