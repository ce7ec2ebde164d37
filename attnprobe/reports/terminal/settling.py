"""How the order of heads settles over training: a line a step, or of many measures a line a measure."""

from collections.abc import Sequence

import numpy as np
from rich.console import Console
from rich.table import Table
from rich.text import Text

from attnprobe.reports.shapes import SETTLING_MEASURES, Settling
from attnprobe.reports.terminal.console import choose_signs, crop_line
from attnprobe.reports.terminal.curves import (
    GAP,
    LEAST_WIDTH,
    MARK_STYLE,
    MOST_LINES,
    MOST_WIDTH,
    SparkScale,
    Strip,
    note_left_out,
    start_table,
    thin_out,
)
from attnprobe.table.cells import clean
from attnprobe.table.kinds import STEP

#: How many steps are drawn within a line.
_STEPS = 12
#: The columns that are on the screen, or say the same in other numbers.
SETTLING_COLUMNS = frozenset(SETTLING_MEASURES)


def draw_settling(orders: list[Settling], console: Console, full: bool = False) -> None:
    """Print a block a measure; the strip is left out where it has no room."""
    known = choose_signs(console)
    last = (f"{known.mark} ", MARK_STYLE), ("Spearman with the last step", "dim")
    console.print(Text.assemble(*last, f"{known.between}{known.other} ", ("with the step before", "dim")))
    for order in orders:
        console.print()
        least, most = order.heads
        heads = f"{most} heads" if least == most else f"{least} to {most} heads"
        console.print(Text.assemble((clean(order.label), "bold"), f", {heads}"))
        drawn = thin_out(len(order.steps), None if full else MOST_LINES)
        console.print(_tabulate_settling(order, drawn, console))
        note_left_out(len(order.steps), len(drawn), console)


def _tabulate_settling(order: Settling, places: Sequence[int], console: Console) -> Table:
    known = choose_signs(console)
    lines = start_table()
    for name in (STEP, "last", "previous", "Kendall"):
        lines.add_column(name, justify="right", no_wrap=True)
    both = np.concatenate([order.last, order.previous])
    low = float(both[np.isfinite(both)].min(initial=0.0))
    used = max(len(STEP), *(len(str(step)) for step in order.steps)) + 4 + 8 + 7 + 4 * GAP
    width = min(console.width - used, MOST_WIDTH)
    strip = Strip(low, 1.0, width, known) if width >= LEAST_WIDTH else None
    if strip is not None:
        lines.add_column(strip.axis(f"{low:.2g}", "1"), no_wrap=True, header_style="not bold dim")
    for place in places:
        last, previous, kendall = (float(one[place]) for one in (order.last, order.previous, order.kendall))
        every = (last, previous, kendall)
        cells = [Text(known.undefined if np.isnan(one) else f"{one:z.2f}") for one in every]
        drawn = [] if strip is None else [strip.draw(last, np.array([]), previous)]
        lines.add_row(Text(str(order.steps[place])), *cells, *drawn)
    return lines


def draw_settling_lines(orders: Sequence[Settling], console: Console) -> None:
    """Print a line for each order of heads: how it comes near that of the last step, and changes by step."""
    signs = choose_signs(console)
    every = np.concatenate([values for one in orders for values in (one.last, one.previous)])
    scale = SparkScale(min(0.0, float(np.nanmin(every, initial=0.0))), 1.0)
    steps = orders[0].steps
    drawn = [steps[place] for place in thin_out(len(steps), _STEPS)]
    said = "steps" if len(drawn) == len(steps) else f"{len(drawn)} of {len(steps)} steps"
    console.print(Text(f"Spearman of heads, {scale.legend(console)}; --full shows a line a step", "dim"))
    if all(one.steps == steps for one in orders):
        console.print(Text(crop_line(f"{said} {', '.join(map(str, drawn))}", console), "dim"))
    console.print()
    lines = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    lines.add_column("measure", overflow="fold")
    for name in ("heads", "first"):
        lines.add_column(name, justify="right", no_wrap=True)
    lines.add_column("with last", no_wrap=True)
    lines.add_column("with previous", no_wrap=True)
    for one in orders:
        least, most = one.heads
        first = float(one.last[0])
        lines.add_row(
            Text(clean(one.label)),
            str(most) if least == most else f"{least} to {most}",
            signs.undefined if np.isnan(first) else f"{first:z.2f}",
            *(
                scale.draw(values[thin_out(len(values), _STEPS)], console)
                for values in (one.last, one.previous)
            ),
        )
    console.print(lines)
