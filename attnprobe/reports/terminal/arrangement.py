"""How a grid of figures fits the width of a console."""

import itertools
import math
from dataclasses import dataclass

import numpy as np

from attnprobe.reports.terminal.figures import Figures, choose
from attnprobe.reports.terminal.panels import Panel
from attnprobe.table.cells import written
from attnprobe.table.table import Cell

MEAN = "mean"
_GAP = 2  # spaces before the column of means, which is no head


@dataclass(frozen=True)
class Layout:
    """A grid ready to print.

    - ``figures``: How the numbers are written.
    - ``mean_figures``: How their means are written; the mean of whole numbers is seldom whole.
    - ``layers``: The names of the rows.
    - ``heads``: The names of the columns.
    - ``label``: The width of the row names.
    - ``number``: The width of the longest number or column name.
    - ``air``: Spaces that each cell has on top of that: one before it, and one after it if there is room.
    - ``mean``: The width of the column of means; 0 where there is none.
    - ``pieces``: The columns that stand side by side, piece by piece.
    """

    figures: Figures
    mean_figures: Figures
    layers: list[str]
    heads: list[str]
    label: int
    number: int
    air: int
    mean: int
    pieces: list[range]

    def pad(self, text: str) -> str:
        """Put a number or a column name in the middle of its cell."""
        return f" {text.rjust(self.number)}{' ' * (self.air - 1)}"


def arrange(
    panel: Panel, grid: np.ndarray, room: int, precision: int | None = None, *, averaged: bool = True
) -> Layout:
    """Choose the layout with the fewest pieces; among those the most digits, then the most air.

    - ``averaged``: Whether the mean of a layer's heads says anything; that of p values does not.
    """
    found = [
        _layout(panel, grid, room, figures, air, averaged)
        for figures in choose(grid, precision)
        for air in (2, 1)
    ]
    return min(found, key=lambda layout: len(layout.pieces))


def layer_means(grid: np.ndarray) -> np.ndarray:
    """Average over the heads of each layer that are there and defined; NaN for a layer without any."""
    defined = ~np.isnan(grid)
    counts = defined.sum(axis=1)
    with np.errstate(invalid="ignore"):  # infinities of both signs have no mean
        sums = np.where(defined, grid, 0.0).sum(axis=1)
    return np.divide(sums, counts, out=np.full(len(grid), np.nan), where=counts > 0)


def _layout(panel: Panel, grid: np.ndarray, room: int, figures: Figures, air: int, averaged: bool) -> Layout:
    layers, heads = _names("L", panel.layers), _names("H", panel.heads)
    label = max(len(name) for name in layers) + 1
    number = max(figures.width(grid), *(len(name) for name in heads))
    mean_figures = Figures(figures.decimals or 1, figures.exponent)
    mean = max(mean_figures.width(layer_means(grid)), len(MEAN)) + _GAP if averaged else 0
    across = max(1, (room - label - mean) // (number + air))
    return Layout(figures, mean_figures, layers, heads, label, number, air, mean, _pieces(len(heads), across))


def _names(letter: str, labels: list[Cell]) -> list[str]:
    return [f"{letter}{label}" if isinstance(label, int) else written(label) for label in labels]


def _pieces(total: int, most: int) -> list[range]:
    count = math.ceil(total / most)
    bounds = [round(i * total / count) for i in range(count + 1)]
    return [range(start, stop) for start, stop in itertools.pairwise(bounds)]
