"""Heads over the steps of training: in each cell of a grid a line; or a pruning curve a step."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from rich.console import Console
from rich.table import Table
from rich.text import Text

from attnprobe.findings.dynamics import OWN_STEP, STEP
from attnprobe.reports.terminal.console import signs
from attnprobe.reports.terminal.figures import numbers, significant
from attnprobe.reports.terminal.orders import RANDOM, SCORE
from attnprobe.reports.terminal.spark import Scale, thinned
from attnprobe.table.cells import plain_column, written
from attnprobe.table.cleaning import clean
from attnprobe.table.head_table import HeadTable
from attnprobe.table.table import Cell, Column

_HEADS = ("layer", "head")
_CURVE = ("criterion", "seed", OWN_STEP, "share_removed")
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


def runs_in(table: HeadTable) -> list[Runs]:
    """Recognise a table of several steps of training; none for any other."""
    cells = {
        column.name: plain_column(table.data[column.name], column)
        for column in table.columns
        if column.role == "key"
    }
    place = next((one for one in (_HEADS, _CURVE) if {STEP, *one} <= cells.keys()), None)
    if place is None or not len(table) or any(not isinstance(step, int) for step in cells[STEP]):
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


def draw(
    table: HeadTable, runs: list[Runs], measures: Sequence[Column], console: Console, precision: int | None
) -> set[str]:
    """Print the picture, and give the columns that it shows."""
    if OWN_STEP in table.data:
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
    scale = Scale.of(values[list(runs.places.values())])
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
    scale = Scale.of(scores)
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
