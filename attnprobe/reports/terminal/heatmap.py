"""One measure as a grid of heads: layers down, heads across, colour from lowest to highest."""

from collections.abc import Iterator

import numpy as np
from rich.console import Console
from rich.style import Style
from rich.text import Text

from attnprobe.reports.terminal.arrangement import MEAN, Layout, layer_means
from attnprobe.reports.terminal.console import has_palette, signs
from attnprobe.reports.terminal.figures import Figures
from attnprobe.reports.terminal.palette import colour, ink
from attnprobe.reports.terminal.panels import Panel


def draw(panel: Panel, grid: np.ndarray, layout: Layout, console: Console) -> None:
    """Print the grid, in several pieces where the layout says so.

    The lines are set by hand rather than by ``rich.table``, which crops the digits of a number when a
    table is too wide. Here the break comes between two heads.
    """
    for piece in layout.pieces:
        if piece.start:
            console.print()
        for line in _lines(panel, grid, layout, piece, console):
            console.print(line, no_wrap=True, overflow="ignore", crop=False)


def shade(value: float, low: float, high: float) -> Style:
    """Give the colours of a cell; in the middle of the scale where all values are the same."""
    background = colour((value - low) / (high - low) if high > low else 0.5)
    return Style(color=_css(ink(background)), bgcolor=_css(background))


def scale_bar(width: int, sign: str) -> Text:
    """Draw the scale of colours, lowest to highest."""
    bar = Text()
    for i in range(width):
        bar.append(sign, tint(i / (width - 1)))
    return bar


def tint(share: float) -> Style:
    """Give the colour of a sign that stands so far up the scale, from 0 to 1."""
    return Style(color=_css(colour(share)))


def _css(rgb: tuple[int, int, int]) -> str:
    return f"rgb({rgb[0]},{rgb[1]},{rgb[2]})"


def _lines(panel: Panel, grid: np.ndarray, layout: Layout, piece: range, console: Console) -> Iterator[Text]:
    # The mean is over all heads, so it stands after the last.
    has_mean = layout.mean > 0 and piece.stop == grid.shape[1]
    header = "".join(layout.pad(layout.heads[j]) for j in piece)
    yield Text(" " * layout.label + header + (MEAN.rjust(layout.mean) if has_mean else ""), "bold")
    finite = grid[np.isfinite(grid)]
    low, high = float(finite.min(initial=np.inf)), float(finite.max(initial=-np.inf))
    undefined = signs(console).undefined
    for i, mean in enumerate(layer_means(grid)):
        line = Text()
        line.append(layout.layers[i].ljust(layout.label), "bold")
        for j in piece:
            value = float(grid[i, j])
            gap = undefined if (panel.layers[i], panel.heads[j]) in panel.places else ""
            shaded = has_palette(console) and np.isfinite(value)
            figure = layout.pad(_figure(value, layout.figures, gap))
            line.append(figure, shade(value, low, high) if shaded else None)
        if has_mean:
            line.append(_figure(mean, layout.mean_figures, undefined).rjust(layout.mean))
        yield line


def _figure(value: float, figures: Figures, gap: str) -> str:
    return gap if np.isnan(value) else figures.write(value)
