"""Rows into orders of removal: a criterion step by step, and random orders to compare it with."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from attnprobe.reports.terminal.figures import numbers
from attnprobe.table.cells import plain_column, written
from attnprobe.table.head_table import HeadTable
from attnprobe.table.table import Cell

ORDER_KEYS = ("criterion", "seed", "step", "share_removed")  # what tells the rows of a curve apart
SCORE = "score"
RANDOM = "random"
_MOST_PLACES = 4  # models or datasets stacked; beyond that a list is easier to read

Place = tuple[str, ...]
Order = dict[int, int]  # the table's row of each step


@dataclass(frozen=True)
class Comparison:
    """One criterion beside the random orders.

    - ``criterion``: What the heads were ordered by; None for random orders alone.
    - ``labels``: What else sets this curve apart, such as the model; empty if nothing does.
    - ``unit``: The unit of the score.
    - ``examples``: The least and the most examples behind a score, or None if unknown.
    - ``steps``: The steps, in order.
    - ``share``, ``heads``: The share and the number of heads removed at each step, NaN if unknown.
    - ``score``, ``error``: The criterion's score at each step and its standard error.
    - ``random``: The scores of the random orders, steps by orders.
    - ``extent``: The lowest and the highest score of all curves that are to be compared.
    """

    criterion: str | None
    labels: Place
    unit: str
    examples: tuple[int, int] | None
    steps: list[int]
    share: np.ndarray
    heads: np.ndarray
    score: np.ndarray
    error: np.ndarray
    random: np.ndarray = field(repr=False)
    extent: tuple[float, float]


def comparisons(table: HeadTable) -> list[Comparison]:
    """Split a table into one comparison a criterion; none if its rows are not steps of an order."""
    if not {"criterion", "seed", "step", SCORE} <= table.data.keys() or numbers(table, SCORE) is None:
        return []
    found = []
    for place, orders in _orders(table).items():
        rows = [row for order in orders.values() for row in order.values()]
        random = [order for (criterion, _), order in orders.items() if criterion == RANDOM]
        chosen = {criterion: order for (criterion, _), order in orders.items() if criterion != RANDOM}
        if len(chosen) + len(random) < len(orders):  # a criterion with several orders: no single line
            return []
        extent = _extent(_floats(table, SCORE)[rows])
        for criterion, order in chosen.items():
            found.append(_comparison(table, criterion, place, order, random, extent))
        if not chosen:
            found.append(_comparison(table, None, place, {}, random, extent))
    return found


def _orders(table: HeadTable) -> dict[Place, dict[tuple[str, Cell], Order]]:
    """Sort the rows by what sets curves apart, then by criterion and seed; none if a step is there twice."""
    keys = {
        column.name: plain_column(table.data[column.name], column)
        for column in table.columns
        if column.role == "key"
    }
    if not {"criterion", "seed", "step"} <= keys.keys():
        return {}
    apart = [name for name in keys if name not in ORDER_KEYS and len(set(keys[name])) > 1]
    found: dict[Place, dict[tuple[str, Cell], Order]] = {}
    for row, step in enumerate(keys["step"]):
        place = tuple(written(keys[name][row]) for name in apart)
        name = written(keys["criterion"][row])
        order = found.setdefault(place, {}).setdefault((name, keys["seed"][row]), {})
        if not isinstance(step, int) or step in order:
            return {}
        order[step] = row
    return found if len(found) <= _MOST_PLACES else {}


def _comparison(
    table: HeadTable,
    criterion: str | None,
    labels: Place,
    order: Order,
    random: Sequence[Order],
    extent: tuple[float, float],
) -> Comparison:
    merged: Order = {}  # of a step that the criterion lacks, a random order knows how much was removed
    for each in (*random, order):
        merged |= each
    steps = sorted(merged)
    score = _floats(table, SCORE)
    n = _floats(table, "n")[list(merged.values())]
    counts = n[np.isfinite(n)]
    return Comparison(
        criterion,
        labels,
        table.column(SCORE).unit,
        (int(counts.min()), int(counts.max())) if counts.size else None,
        steps,
        _along(steps, merged, _floats(table, "share_removed")),
        _along(steps, merged, _floats(table, "heads_removed")),
        _along(steps, order, score),
        _along(steps, order, _floats(table, f"{SCORE}_se")),
        np.array([_along(steps, each, score) for each in random]).reshape(len(random), len(steps)).T,
        extent,
    )


def _floats(table: HeadTable, name: str) -> np.ndarray:
    """Give a column as floats; one that is absent or holds text is undefined throughout."""
    found = numbers(table, name) if name in table.data else None
    return np.full(len(table), np.nan) if found is None else found


def _along(steps: list[int], order: Order, values: np.ndarray) -> np.ndarray:
    return np.array([values[order[step]] if step in order else np.nan for step in steps])


def _extent(scores: np.ndarray) -> tuple[float, float]:
    finite = scores[np.isfinite(scores)]
    return (float(finite.min()), float(finite.max())) if finite.size else (np.nan, np.nan)
