"""One step of a curve as a line of signs: marks on a scale from the lowest to the highest score."""

from dataclasses import dataclass

import numpy as np
from rich.text import Text

from attnprobe.reports.terminal.console import Signs

MARK_STYLE = "bold cyan"
LEAST_WIDTH, MOST_WIDTH = 20, 40


@dataclass(frozen=True)
class Strip:
    """A scale to draw on.

    - ``low``, ``high``: The scores at its two ends; NaN if there is no finite score.
    - ``width``: Its length in characters.
    - ``signs``: The marks.
    """

    low: float
    high: float
    width: int
    signs: Signs

    def axis(self, low: str, high: str) -> Text:
        """Write the ends of the scale above it; in the middle if they are the same."""
        if self.low == self.high:
            return Text(low.center(self.width).rstrip())
        room = self.width - len(low)
        return Text(f"{low}{high.rjust(room)}" if len(high) < room else "")

    def draw(self, score: float, random: np.ndarray, mean: float) -> Text:
        """Mark the score and the mean of the random orders, with a line over all the orders."""
        cells = [" "] * self.width
        ends = [self.place(value) for value in random]
        places = [place for place in ends if place is not None]
        if places:
            for place in range(min(places), max(places) + 1):
                cells[place] = self.signs.line
        middle, mark = self.place(mean), self.place(score)
        if middle is not None:
            cells[middle] = self.signs.other
        if mark is None:
            return Text("".join(cells))
        # The score is drawn last: it is what the table is about.
        return Text.assemble("".join(cells[:mark]), (self.signs.mark, MARK_STYLE), "".join(cells[mark + 1 :]))

    def place(self, value: float) -> int | None:
        """Find the character for a score; infinities lie at the ends, NaN nowhere."""
        if np.isnan(value) or np.isnan(self.low):
            return None
        if np.isinf(value):
            return 0 if value < 0 else self.width - 1
        # Halved, so that the length of the scale stays finite for the largest of floats.
        length = self.high / 2 - self.low / 2
        share = (value / 2 - self.low / 2) / length if length > 0 else 0.5
        return round(min(max(share, 0.0), 1.0) * (self.width - 1))
