"""Steps of training: a line in each cell of a grid, curves of pruning, how the order of heads settles."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from rich.console import Console
from rich.table import Table
from rich.text import Text

from attnprobe.reports.terminal.console import Signs, has_palette, signs
from attnprobe.reports.terminal.curve import LEAST_WIDTH, MARK_STYLE, MOST_WIDTH, RANDOM, SCORE, Strip
from attnprobe.reports.terminal.figures import numbers, significant
from attnprobe.reports.terminal.grid import tint
from attnprobe.table.cells import plain_column, written
from attnprobe.table.cleaning import clean
from attnprobe.table.head_table import HeadTable
from attnprobe.table.kinds import PRUNING_STEP, STEP
from attnprobe.table.table import Cell, Column


@dataclass(frozen=True)
class SparkScale:
    """From the lowest to the highest of all numbers that are to be compared.

    Attributes:
        low: The lowest.
        high: The highest; NaN, as the lowest, where there is no finite number.
    """

    low: float
    high: float

    @classmethod
    def of(cls, values: np.ndarray) -> "SparkScale":
        """Span the finite ones of some numbers."""
        finite = values[np.isfinite(values)]
        return cls(float(finite.min()), float(finite.max())) if finite.size else cls(np.nan, np.nan)

    def draw(self, values: np.ndarray, console: Console) -> Text:
        """Draw a sign for each number; infinities lie at the ends, and what is undefined has its own sign."""
        known, line = signs(console), Text()
        for value in values:
            if np.isnan(value) or np.isnan(self.low):
                line.append(known.undefined)
                continue
            # Halved, so that the length of the scale stays finite for the largest of floats.
            length = self.high / 2 - self.low / 2
            share = float(np.clip((value / 2 - self.low / 2) / length, 0, 1)) if length > 0 else 0.5
            sign = known.levels[round(share * (len(known.levels) - 1))]
            line.append(sign, tint(share) if has_palette(console) else "")
        return line

    def legend(self, console: Console, precision: int | None = None) -> str:
        """Say what the ends of the scale are."""
        if np.isnan(self.low):
            return "undefined throughout"
        if self.low == self.high:
            return f"the same throughout: {significant(self.low, precision)}"
        lowest, *_, highest = signs(console).levels
        return f"{lowest} {significant(self.low, precision)} to {highest} {significant(self.high, precision)}"


def thinned(number: int, most: int) -> list[int]:
    """Choose which of many places in a row are drawn: evenly, with both ends.

    >>> thinned(9, 5)
    [0, 2, 4, 6, 8]
    """
    if number <= most:
        return list(range(number))
    return [round(place * (number - 1) / (most - 1)) for place in range(most)]


_HEADS = ("layer", "head")
_CURVE = ("criterion", "seed", PRUNING_STEP, "share_removed")
#: More steps than this are thinned out in a line.
_MOST_STEPS = 12
#: More curves than this are thinned out.
_MOST_CURVES = 40
#: Kinds of attention; more than these are easier to read in a list.
_MOST_PANELS = 4
_GAP = 2


@dataclass(frozen=True)
class Runs:
    """Rows that are heads at several steps, of one kind of attention; or steps of pruning curves.

    Attributes:
        label: The kind of attention; empty if there is only one.
        keys: The columns that tell rows apart.
        steps: The steps of training, in order.
        places: The row of each place at each step: (layer, head), or the number of the order and its step.
    """

    label: str
    keys: tuple[str, ...]
    steps: list[int]
    places: dict[tuple[tuple[Cell, ...], int], int] = field(repr=False)


def lay_out_runs(table: HeadTable) -> list[Runs]:
    """Give the rows of several steps of training by kind of attention; none for any other table."""
    cells = {
        column.name: plain_column(table.data[column.name], column)
        for column in table.columns
        if column.role == "key"
    }
    place = {"heads of checkpoints": _HEADS, "pruning of checkpoints": _CURVE}.get(table.kind)
    if (
        place is None
        or not cells.keys() >= set(place)
        or not len(table)
        or any(not isinstance(step, int) for step in cells[STEP])
    ):
        return []
    if place == _CURVE and (SCORE not in table.data or numbers(table, SCORE) is None):
        return []
    kinds = [written(cell) for cell in cells.get("attention", [""] * len(table))]
    found: dict[str, dict[tuple[tuple[Cell, ...], int], int]] = {}
    for row, kind in enumerate(kinds):
        step: int = cells[STEP][row]  # type: ignore[assignment]
        key = (tuple(cells[name][row] for name in place), step)
        if key in found.setdefault(kind, {}):  # something else tells them apart
            return []
        found[kind][key] = row
    if len(found) > _MOST_PANELS:
        return []
    keys = (STEP, "model", "attention", *place)
    return [
        Runs(kind if len(found) > 1 else "", keys, sorted({step for _, step in places}), places)
        for kind, places in found.items()
    ]


def draw_runs(
    table: HeadTable, runs: list[Runs], measures: Sequence[Column], console: Console, precision: int | None
) -> set[str]:
    """Print the picture, and give the columns that it shows."""
    if PRUNING_STEP in table.data:
        _curves(table, runs[0], console, precision)
        return {SCORE, "share_removed", "heads_removed"}
    steps = runs[0].steps
    drawn = [steps[place] for place in thinned(len(steps), _MOST_STEPS)]
    console.print(Text("rows: layers, columns: heads, counted from 0; in each, from left to right:", "dim"))
    said = "steps" if len(drawn) == len(steps) else f"{len(drawn)} of {len(steps)} steps"
    console.print(Text(f"{said} {', '.join(map(str, drawn))}", "dim"))
    for column in measures:
        values = numbers(table, column.name)
        assert values is not None  # or it were no measure
        for one in runs:
            _grid(column, values, one, drawn, console, precision)
    return {column.name for column in measures}


def _grid(
    column: Column, values: np.ndarray, runs: Runs, steps: list[int], console: Console, precision: int | None
) -> None:
    scale = SparkScale.of(values[list(runs.places.values())])
    parts = [clean(part) for part in (column.unit, runs.label) if part]
    console.print()
    heading = Text.assemble((clean(column.name), "bold"), *(f", {part}" for part in parts))
    console.print(heading.append(f": {scale.legend(console, precision)}"))
    layers, heads = (_ordered([place[at] for place, _ in runs.places]) for at in (0, 1))
    label = max(len(f"L{written(layer)}") for layer in layers) + 1
    wide = max(len(steps), *(len(f"H{written(head)}") for head in heads)) + 1
    across = max(1, (console.width - label) // wide)
    pieces = -(-len(heads) // across)
    each = -(-len(heads) // pieces)  # as alike as can be
    for start in range(0, len(heads), each):
        piece = heads[start : start + each]
        if start:
            console.print()
        header = " " * label + "".join(f"H{written(head)}".ljust(wide) for head in piece)
        console.print(Text(header.rstrip(), "bold"), no_wrap=True, overflow="ignore", crop=False)
        for layer in layers:
            line = Text(f"L{written(layer)}".ljust(label), "bold")
            for head in piece:
                rows = [runs.places.get(((layer, head), step)) for step in steps]
                found = np.array([np.nan if row is None else values[row] for row in rows])
                cell = Text() if all(row is None for row in rows) else scale.draw(found, console)
                line.append_text(cell).append(" " * (wide - cell.cell_len))
            line.rstrip()
            console.print(line, no_wrap=True, overflow="ignore", crop=False)


def _curves(table: HeadTable, runs: Runs, console: Console, precision: int | None) -> None:
    """Print a line a step of training: the score while heads are removed, beside that of random orders."""
    scores = numbers(table, SCORE)
    assert scores is not None  # or it were no picture
    share = numbers(table, "share_removed")
    curves: dict[int, dict[bool, dict[float, list[float]]]] = {}
    for ((criterion, _, _, _), step), row in runs.places.items():
        removed = np.nan if share is None else float(share[row])
        of = curves.setdefault(step, {}).setdefault(criterion == RANDOM, {})
        of.setdefault(removed, []).append(float(scores[row]))
    scale = SparkScale.of(scores)
    names = sorted({str(place[0]) for place, _ in runs.places if place[0] != RANDOM})
    unit = f" ({clean(table.column(SCORE).unit)})" if table.column(SCORE).unit else ""
    console.print()
    console.print(
        Text.assemble(
            (clean(", ".join(names) or RANDOM), "bold"), f", {SCORE}{unit}: {scale.legend(console)}"
        )
    )
    console.print(Text("in each line, from left to right: no head removed to all heads removed", "dim"))
    lines = Table(box=None, pad_edge=False, padding=(0, _GAP, 0, 0), header_style="bold")
    has_random = any(True in of for of in curves.values())
    for name in (STEP, "whole", "curve", "half removed", *(["random"] if has_random else [])):
        lines.add_column(name, justify="left" if name in {"curve", "random"} else "right", no_wrap=True)
    steps = sorted(curves)
    drawn = thinned(len(steps), _MOST_CURVES)
    for place in drawn:
        of = {random: _mean(points) for random, points in curves[steps[place]].items()}
        own = of.get(False, of.get(True, {}))
        half = min(own, key=lambda removed: abs(removed - 0.5))
        cells = [
            Text(str(steps[place])),
            Text(_figure(own[min(own)], console, precision)),
            scale.draw(_thin(own), console),
            Text(_figure(own[half], console, precision)),
        ]
        if has_random:
            cells.append(scale.draw(_thin(of.get(True, {})), console))
        lines.add_row(*cells)
    console.print(lines)
    if left := len(steps) - len(drawn):
        console.print(Text(f"{signs(console).more} {left} more steps; -o heads.csv writes them all", "dim"))


def _mean(points: dict[float, list[float]]) -> dict[float, float]:
    """Average orders at each share removed; what is undefined is left out."""
    found = {}
    for removed in sorted(points):
        defined = [score for score in points[removed] if not np.isnan(score)]
        found[removed] = float(np.mean(defined)) if defined else np.nan
    return found


def _thin(points: dict[float, float]) -> np.ndarray:
    values = list(points.values())
    return np.array([values[place] for place in thinned(len(values), 2 * _MOST_STEPS)])


def _figure(value: float, console: Console, precision: int | None) -> str:
    return signs(console).undefined if np.isnan(value) else significant(value, precision)


def _ordered(labels: list[Cell]) -> list[Cell]:
    unique = list(dict.fromkeys(labels))
    if all(isinstance(label, int) for label in unique):
        return sorted(unique, key=lambda label: int(label or 0))
    return unique


_LAST, _PREVIOUS, _KENDALL = "spearman_last", "spearman_previous", "kendall_last"
_NEEDED = (_LAST, _PREVIOUS, _KENDALL, "kendall_previous", "heads_last", "heads_previous")
#: The columns that are on the screen, or say the same in other numbers.
SETTLING_COLUMNS = frozenset(_NEEDED)
#: More measures than this are easier to read in a list.
_MOST_ORDERS = 4
_MOST_LINES = 40


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


def lay_out_settling(table: HeadTable) -> list[Order]:
    """Give the orders of heads; none for any other table, or where there are too many for the screen."""
    if table.kind != "settling" or not table.data.keys() >= set(_NEEDED) or not len(table):
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


def draw_settling(orders: list[Order], console: Console) -> None:
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
        console.print(_settling_lines(order, console))
        if (left := len(order.steps) - _MOST_LINES) > 0:
            console.print(Text(f"{known.more} {left} more steps; -o heads.csv writes them all", "dim"))


def _settling_lines(order: Order, console: Console) -> Table:
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
    for place in thinned(len(order.steps), _MOST_LINES):
        last, previous = float(order.last[place]), float(order.previous[place])
        cells = [Text(_coefficient(one, known)) for one in (last, previous, float(order.kendall[place]))]
        drawn = [] if strip is None else [strip.draw(last, np.array([]), previous)]
        lines.add_row(Text(str(order.steps[place])), *cells, *drawn)
    return lines


def _coefficient(value: float, known: Signs) -> str:
    return known.undefined if np.isnan(value) else f"{value:z.2f}"
