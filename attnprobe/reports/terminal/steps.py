"""The steps of a curve, written out: how much was removed, and the scores then."""

from dataclasses import dataclass

import numpy as np
from rich.cells import cell_len

from attnprobe.reports.terminal.console import Signs
from attnprobe.reports.terminal.fields import DIGITS, beside, decimals_of
from attnprobe.reports.terminal.figures import choose
from attnprobe.reports.terminal.orders import SCORE, Comparison


@dataclass(frozen=True)
class StepColumn:
    """One column ready to print, under a header of two lines of which the upper one may be empty."""

    header: tuple[str, str]
    cells: list[str]

    def width(self) -> int:
        """Give the width that this column wants."""
        return max(cell_len(part) for part in (*self.header, *self.cells))


class ScoreWriter:
    """Writes the scores of one comparison to the same decimals, so that they can be compared by eye.

    Its criterion's standard errors say how many decimals mean something. They hold for the random
    orders too: other heads were off, but over the same examples.
    """

    def __init__(self, each: Comparison, signs: Signs, precision: int | None) -> None:
        """Choose the decimals; an explicit precision is a number of significant digits instead."""
        self._signs = signs
        self._digits = precision or DIGITS
        self._decimals = None
        if precision is None:
            self._decimals = decimals_of(each.error)
            figures = choose(np.concatenate([each.score, each.random.ravel()]), DIGITS)[0]
            if self._decimals is None and not figures.exponent:
                self._decimals = figures.decimals or 1  # the mean of whole numbers is seldom whole

    def write(self, value: float, error: float = np.nan) -> str:
        """Write a score, with its standard error if it has one."""
        cell = None if np.isnan(value) else float(value)
        return beside(cell, float(error), self._signs, self._decimals, self._digits)


def removed(each: Comparison, signs: Signs) -> list[StepColumn]:
    """Write out how far each step goes; by its number if the table does not say how much that is."""
    columns = []
    if not np.isnan(each.share).all():
        columns.append(StepColumn(("", "removed"), _shares(each.share, signs)))
    if not np.isnan(each.heads).all():
        heads = [signs.undefined if np.isnan(count) else f"{count:.0f}" for count in each.heads]
        columns.append(StepColumn(("", "heads"), heads))
    return columns or [StepColumn(("", "step"), [str(step) for step in each.steps])]


def scores(each: Comparison, writer: ScoreWriter) -> list[StepColumn]:
    """Write out the criterion's score and, where there are random orders, what they come to."""
    columns = []
    if each.criterion is not None:
        columns.append(StepColumn(("", SCORE), list(map(writer.write, each.score, each.error))))
    orders = each.random.shape[1]
    if orders == 1:
        columns.append(StepColumn(("", "random"), list(map(writer.write, each.random[:, 0]))))
    elif orders:
        for name, values in zip(("mean", "lowest", "highest"), spread(each.random), strict=True):
            columns.append(StepColumn(("random", name), list(map(writer.write, values))))
    return columns


def spread(random: np.ndarray) -> np.ndarray:
    """Give the mean, the lowest and the highest score at each step; NaN where no order has one."""
    found = np.full((3, len(random)), np.nan)
    for i, values in enumerate(random):
        defined = values[~np.isnan(values)]
        if defined.size:
            with np.errstate(invalid="ignore", over="ignore"):  # infinities of both signs have no mean
                found[:, i] = defined.mean(), defined.min(), defined.max()
    return found


def _shares(shares: np.ndarray, signs: Signs) -> list[str]:
    percent = 100 * shares
    known = percent[np.isfinite(percent)]
    decimals = 0 if np.allclose(known, np.round(known)) else 1
    return [signs.undefined if np.isnan(share) else f"{share:z.{decimals}f} %" for share in percent]
