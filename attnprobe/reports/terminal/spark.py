"""A row of numbers as a row of signs of different heights."""

from dataclasses import dataclass

import numpy as np
from rich.console import Console
from rich.text import Text

from attnprobe.reports.terminal.console import has_palette, signs
from attnprobe.reports.terminal.figures import significant
from attnprobe.reports.terminal.heatmap import tint


@dataclass(frozen=True)
class Scale:
    """From the lowest to the highest of all numbers that are to be compared.

    Attributes:
        low: The lowest.
        high: The highest; NaN, as the lowest, where there is no finite number.
    """

    low: float
    high: float

    @classmethod
    def of(cls, values: np.ndarray) -> "Scale":
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
