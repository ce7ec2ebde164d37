"""Figures that line up: one number of decimals for a whole measure."""

import math
from dataclasses import dataclass

import numpy as np

from attnprobe.table.cells import plain
from attnprobe.table.head_table import HeadTable

USUAL_DIGITS = 3
_WHOLE_NUMBERS_UP_TO = 1e5
_SMALLEST_EXPONENT, _LARGEST_EXPONENT = -2, 4
_LEAST_POWER = -307  # below it, ten to the power has lost digits, and in the end is 0


@dataclass(frozen=True)
class Figures:
    """How the values of one measure are written.

    - ``decimals``: Digits after the point.
    - ``exponent``: Values are shown divided by ten to this power; 0 unless all are tiny or huge.
    """

    decimals: int
    exponent: int = 0

    def write(self, value: float) -> str:
        """Write one value; what rounds to zero loses its minus sign."""
        return f"{value / 10.0**self.exponent:z.{self.decimals}f}"

    def width(self, values: np.ndarray) -> int:
        """Give the width of the longest value, undefined ones aside."""
        return max((len(self.write(value)) for value in values[~np.isnan(values)]), default=1)


def choose(values: np.ndarray, precision: int | None = None) -> list[Figures]:
    """Give the ways to write values, the best first, then one digit fewer for where room is short.

    The largest value takes ``precision`` significant digits and the others as many decimals as it:
    a column of figures is read by comparing, and differences too small to matter next to the largest
    value are no help in that. An explicit precision is never shortened.
    """
    finite = np.abs(values[np.isfinite(values)])
    peak = float(finite.max(initial=0.0))
    if peak == 0 or (peak < _WHOLE_NUMBERS_UP_TO and np.all(finite == np.round(finite))):
        return [Figures(0)]
    magnitude = max(math.floor(math.log10(peak)), _LEAST_POWER)
    exponent = 0 if _SMALLEST_EXPONENT <= magnitude <= _LARGEST_EXPONENT else magnitude
    full = max(0, (precision or USUAL_DIGITS) - 1 - magnitude + exponent)
    shorter = [Figures(full - 1, exponent)] if precision is None and full > USUAL_DIGITS - 1 else []
    return [Figures(full, exponent), *shorter]


def significant(value: float, precision: int | None = None) -> str:
    """Write a value that stands alone, such as a minimum in a caption."""
    return f"{value:.{precision or USUAL_DIGITS}g}"


def numbers(table: HeadTable, name: str) -> np.ndarray | None:
    """Give a column as floats with NaN for undefined, or None if it holds text."""
    cells = [plain(cell) for cell in table.data[name]]
    if any(isinstance(cell, str) for cell in cells):
        return None
    return np.array([np.nan if cell is None else cell for cell in cells], dtype=float)
