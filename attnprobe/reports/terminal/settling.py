"""How the order of heads settles: a line a step, with its rank correlations on a scale that ends at 1."""

from dataclasses import dataclass

import numpy as np
from rich.console import Console
from rich.table import Table
from rich.text import Text

from attnprobe.findings.dynamics import STEP
from attnprobe.reports.terminal.console import Signs, signs
from attnprobe.reports.terminal.figures import numbers
from attnprobe.reports.terminal.spark import thinned
from attnprobe.reports.terminal.strip import LEAST_WIDTH, MARK_STYLE, MOST_WIDTH, Strip
from attnprobe.table.cells import plain_column, written
from attnprobe.table.cleaning import clean
from attnprobe.table.head_table import HeadTable

_LAST, _PREVIOUS, _KENDALL = "spearman_last", "spearman_previous", "kendall_last"
_NEEDED = (_LAST, _PREVIOUS, _KENDALL, "kendall_previous", "heads_last", "heads_previous")
#: The columns that are on the screen, or say the same in other numbers.
SHOWN = frozenset(_NEEDED)
#: More measures than this are easier to read in a list.
_MOST_ORDERS = 4
_MOST_STEPS = 40
_GAP = 2


@dataclass(frozen=True)
class Order:
    """The order of heads by one measure, step by step.

    Attributes:
        label: The measure, and the kind of attention if there are several.
        steps: The steps.
        heads: The least and the most heads that are compared with the last step.
        last: Spearman with the last step.
        previous: Spearman with the step before.
        kendall: Kendall with the last step.
    """

    label: str
    steps: list[int]
    heads: tuple[int, int]
    last: np.ndarray
    previous: np.ndarray
    kendall: np.ndarray


def orders_in(table: HeadTable) -> list[Order]:
    """Recognise a table of orders; none for any other, or where there are too many for the screen."""
    if not {STEP, "measure", *_NEEDED} <= table.data.keys() or not len(table):
        return []
    values = {name: numbers(table, name) for name in (STEP, *_NEEDED)}
    if any(column is None or (name == STEP and np.isnan(column).any()) for name, column in values.items()):
        return []
    named = [
        plain_column(table.data[name], table.column(name))
        for name in ("measure", "attention")
        if name in table.data
    ]
    grouped: dict[str, list[int]] = {}
    for row, labels in enumerate(zip(*named, strict=True)):
        grouped.setdefault(", ".join(written(label) for label in labels), []).append(row)
    if len(grouped) > _MOST_ORDERS:
        return []
    found = []
    for label, rows in grouped.items():
        step, last, previous, kendall, _, heads, _ = (np.array(column)[rows] for column in values.values())
        known = heads[np.isfinite(heads)]
        ends = (int(known.min()), int(known.max())) if known.size else (0, 0)
        found.append(Order(label, [int(one) for one in step], ends, last, previous, kendall))
    return found


def draw(orders: list[Order], console: Console) -> None:
    """Print a block a measure; the strip is left out where it has no room."""
    known = signs(console)
    legend = [
        (f"{known.mark} ", MARK_STYLE),
        ("Spearman with the last step", "dim"),
        f"{known.between}{known.other} ",
        ("with the step before", "dim"),
    ]
    console.print(Text.assemble(*legend))
    for order in orders:
        console.print()
        least, most = order.heads
        heads = f"{most} heads" if least == most else f"{least} to {most} heads"
        console.print(Text.assemble((clean(order.label), "bold"), f", {heads}"))
        console.print(_lines(order, console))
        if (left := len(order.steps) - _MOST_STEPS) > 0:
            console.print(Text(f"{known.more} {left} more steps; -o heads.csv writes them all", "dim"))


def _lines(order: Order, console: Console) -> Table:
    known = signs(console)
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
    for place in thinned(len(order.steps), _MOST_STEPS):
        last, previous = float(order.last[place]), float(order.previous[place])
        cells = [Text(_figure(one, known)) for one in (last, previous, float(order.kendall[place]))]
        drawn = [] if strip is None else [strip.draw(last, np.array([]), previous)]
        lines.add_row(Text(str(order.steps[place])), *cells, *drawn)
    return lines


def _figure(value: float, known: Signs) -> str:
    return known.undefined if np.isnan(value) else f"{value:z.2f}"
