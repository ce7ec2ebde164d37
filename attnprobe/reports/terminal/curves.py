"""Curves: scores while heads are removed, and measures over the steps of training."""

from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass

import numpy as np
from rich.console import Console
from rich.text import Text

from attnprobe.reports.columns import read_floats
from attnprobe.reports.scales import find_share
from attnprobe.reports.shapes import (
    RANDOM,
    SCORE,
    SETTLING_MEASURES,
    Comparison,
    Runs,
    Settling,
    average_orders,
)
from attnprobe.reports.terminal.console import (
    DIGITS,
    Field,
    Signs,
    choose_decimals,
    choose_figures,
    choose_signs,
    format_significant,
    has_palette,
    write_with_error,
)
from attnprobe.reports.terminal.grid import style_share
from attnprobe.reports.terminal.rows import MOST_ROWS, print_fields
from attnprobe.table.cells import clean, format_cell
from attnprobe.table.head_table import HeadTable
from attnprobe.table.kinds import PRUNING_STEP, STEP
from attnprobe.table.table import Column

#: The columns of a pruning curve that are on the screen; of how orders settle, those that say as much.
CURVE_COLUMNS = frozenset({SCORE, "share_removed", "heads_removed"})
SETTLING_COLUMNS = frozenset(SETTLING_MEASURES)
#: So many steps are in a sparkline, and so many heads are drawn that change most.
_MOST_IN_LINE, _CHANGING = 24, 12


def draw_curves(
    found: list[Comparison], console: Console, precision: int | None = None, full: bool = False
) -> None:
    """Print a table a criterion, a line a step."""
    signs = choose_signs(console)
    for curve in found:
        steps = thin_out(len(curve.steps), None if full else MOST_ROWS)
        console.print()
        console.print(_write_heading(curve))
        fields = [*_write_removed(curve, signs), *_write_scores(curve, signs, precision)]
        kept = [Field(one.name, "", [one.cells[step] for step in steps], False) for one in fields]
        print_fields(kept, console, full=True)
        if (left := len(curve.steps) - len(steps)) > 0:
            console.print(Text(f"{signs.more} {left} more steps; -o heads.csv writes them all", "dim"))


def _write_heading(curve: Comparison) -> Text:
    parts = [clean(label) for label in curve.labels]
    if curve.unit:
        parts.append(f"{SCORE} ({clean(curve.unit)})")
    if curve.examples is not None:
        least, most = curve.examples
        parts.append(f"n {least}" if least == most else f"n {least} to {most}")
    if (orders := curve.random.shape[1]) > 1 and curve.criterion is not None:
        parts.append(f"beside {orders} random orders")
    name = "random orders" if curve.criterion is None else clean(curve.criterion)
    return Text.assemble((name, "bold"), *(f", {part}" for part in parts))


def _write_removed(curve: Comparison, signs: Signs) -> list[Field]:
    """Write how far each step goes; by its number if the table does not say how much that is."""
    fields = []
    if not np.isnan(curve.share).all():
        percent = 100 * curve.share
        known = percent[np.isfinite(percent)]
        decimals = 0 if np.allclose(known, np.round(known)) else 1
        shares = [signs.undefined if np.isnan(one) else f"{one:z.{decimals}f} %" for one in percent]
        fields.append(Field("removed", "", shares, False))
    if not np.isnan(curve.heads).all():
        heads = [signs.undefined if np.isnan(count) else f"{count:.0f}" for count in curve.heads]
        fields.append(Field("heads", "", heads, False))
    return fields or [Field("step", "", [str(step) for step in curve.steps], False)]


def _write_scores(curve: Comparison, signs: Signs, precision: int | None) -> list[Field]:
    """Write the criterion's score and, where there are random orders, what they come to."""
    digits = precision or DIGITS
    decimals = choose_decimals(curve.error) if precision is None else None
    figures = choose_figures(np.concatenate([curve.score, curve.random.ravel()]), DIGITS)[0]
    if precision is None and decimals is None and not figures.exponent:
        decimals = figures.decimals or 1  # the mean of whole numbers is seldom whole

    def write(values: Iterable[float], errors: Iterable[float] | None = None) -> list[str]:
        known = list(values)
        beside = [np.nan] * len(known) if errors is None else errors
        return [
            write_with_error(None if np.isnan(value) else float(value), float(error), signs, decimals, digits)
            for value, error in zip(known, beside, strict=True)
        ]

    fields = []
    if curve.criterion is not None:
        fields.append(Field(SCORE, "", write(curve.score, curve.error), False))
    if (orders := curve.random.shape[1]) == 1:
        return [*fields, Field("random", "", write(curve.random[:, 0]), False)]
    ends = zip(("random mean", "lowest", "highest"), curve.summary, strict=True)
    return [*fields, *(Field(name, "", write(values), False) for name, values in ends)] if orders else fields


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
    """Print heads over the steps of training, or a pruning curve a step; returns the columns shown."""
    if PRUNING_STEP in table.data:
        _draw_curve_a_step(table, runs[0], console, precision, full)
        return CURVE_COLUMNS
    steps = runs[0].steps
    drawn = [steps[place] for place in thin_out(len(steps), _MOST_IN_LINE)]
    said = "steps" if len(drawn) == len(steps) else f"{len(drawn)} of {len(steps)} steps"
    console.print(Text(f"{said} {', '.join(map(str, drawn))}; heads that change most come first", "dim"))
    for column in measures:
        values = read_floats(table, column.name)
        assert values is not None  # or it were no measure
        for one in runs:
            _draw_changes(column, values, one, drawn, console, precision, full)
    return {column.name for column in measures}


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
        _print_line(line.append(f"  {ends[0]} to {ends[1]}"), console)
    if (left := len(heads) - len(order)) > 0:
        console.print(Text(f"{signs.more} {left} more heads change less; --full shows them", "dim"))


def _draw_curve_a_step(
    table: HeadTable, runs: Runs, console: Console, precision: int | None, full: bool
) -> None:
    """Print a line a step of training: the score while heads are removed, beside that of random orders."""
    curves = average_orders(table, runs)
    scale = SparkScale.of(np.array(table.data[SCORE], float))
    names = sorted({str(place[0]) for place, _ in runs.places if place[0] != RANDOM})
    unit = f" ({clean(table.column(SCORE).unit)})" if table.column(SCORE).unit else ""
    heading = (clean(", ".join(names) or RANDOM), "bold")
    console.print()
    console.print(Text.assemble(heading, f", {SCORE}{unit}: {scale.legend(console)}"))
    beside = ", then random orders" if any(True in of for of in curves.values()) else ""
    console.print(Text(f"from no head removed to all heads removed{beside}", "dim"))
    steps = sorted(curves)
    drawn = [steps[place] for place in thin_out(len(steps), None if full else MOST_ROWS)]
    wide = max(len(str(step)) for step in drawn)
    for step in drawn:
        of = curves[step]
        own = of.get(False, of.get(True, {}))
        line = Text(f"{STEP} {str(step).rjust(wide)}  ").append_text(scale.draw(_thin_curve(own), console))
        line.append(f"  {_write_figure(own[min(own)], console, precision)}  ")
        if True in of:
            line.append_text(scale.draw(_thin_curve(of[True]), console))
        _print_line(line, console)


def draw_settling(orders: Sequence[Settling], console: Console) -> None:
    """Print a line for each order of heads: how it comes near that of the last step, and changes by step."""
    every = np.concatenate([values for one in orders for values in (one.last, one.previous)])
    scale = SparkScale(min(0.0, float(np.nanmin(every, initial=0.0))), 1.0)
    console.print(Text(f"Spearman of heads over steps, {scale.legend(console)}", "dim"))
    console.print(Text("with the last step, then with the step before", "dim"))
    for one in orders:
        places = thin_out(len(one.steps), _MOST_IN_LINE)
        console.print()
        console.print(Text(clean(one.label), "bold"))
        line = scale.draw(one.last[places], console)
        first = _write_figure(float(one.last[0]), console, 2)
        line.append(f"  {first} at step {one.steps[0]}  ").append_text(
            scale.draw(one.previous[places], console)
        )
        _print_line(line, console)


def _thin_curve(points: dict[float, float]) -> np.ndarray:
    values = list(points.values())
    return np.array([values[place] for place in thin_out(len(values), _MOST_IN_LINE)])


def _write_figure(value: float, console: Console, precision: int | None) -> str:
    return choose_signs(console).undefined if np.isnan(value) else format_significant(value, precision)


def _print_line(line: Text, console: Console) -> None:
    console.print(line, no_wrap=True, overflow="crop")
