"""One measure as a grid of heads: layers down, heads across, colours as ``reports.scales`` says."""

from collections.abc import Iterator

import numpy as np
from rich.console import Console
from rich.style import Style
from rich.text import Text

from attnprobe.reports.scales import Scale
from attnprobe.reports.terminal.arrangement import MEAN, Layout, layer_means
from attnprobe.reports.terminal.console import has_palette, signs
from attnprobe.reports.terminal.figures import Figures
from attnprobe.reports.terminal.palette import colour, ink
from attnprobe.reports.terminal.panels import Panel


def draw(
    panel: Panel, grid: np.ndarray, layout: Layout, console: Console, scale: Scale, pale: np.ndarray
) -> None:
    """Print the grid, in several pieces where the layout says so; cells that are ``pale`` have no colour.

    The lines are set by hand rather than by ``rich.table``, which crops the digits of a number when a
    table is too wide. Here the break comes between two heads.
    """
    for piece in layout.pieces:
        if piece.start:
            console.print()
        for line in _lines(panel, grid, layout, piece, console, scale, pale):
            console.print(line, no_wrap=True, overflow="ignore", crop=False)


def shade(value: float, scale: Scale) -> Style:
    """Give the colours of a cell."""
    background = colour(scale.place(value), both_ways=scale.is_of_effects)
    return Style(color=_css(ink(background)), bgcolor=_css(background))


def scale_bar(scale: Scale, width: int, sign: str) -> Text:
    """Draw a scale of colours from end to end."""
    bar = Text()
    for i in range(width):
        bar.append(sign, Style(color=_css(colour(i / (width - 1), both_ways=scale.is_of_effects))))
    return bar


def tint(share: float) -> Style:
    """Give the colour of a sign that stands so far up the scale, from 0 to 1."""
    return Style(color=_css(colour(share)))


def _css(rgb: tuple[int, int, int]) -> str:
    return f"rgb({rgb[0]},{rgb[1]},{rgb[2]})"


def _lines(
    panel: Panel,
    grid: np.ndarray,
    layout: Layout,
    piece: range,
    console: Console,
    scale: Scale,
    pale: np.ndarray,
) -> Iterator[Text]:
    # The mean is over all heads, so it stands after the last.
    has_mean = layout.mean > 0 and piece.stop == grid.shape[1]
    header = "".join(layout.pad(layout.heads[j]) for j in piece)
    yield Text(" " * layout.label + header + (MEAN.rjust(layout.mean) if has_mean else ""), "bold")
    undefined = signs(console).undefined
    for i, mean in enumerate(layer_means(grid)):
        line = Text()
        line.append(layout.layers[i].ljust(layout.label), "bold")
        for j in piece:
            value = float(grid[i, j])
            gap = undefined if (panel.layers[i], panel.heads[j]) in panel.places else ""
            shaded = has_palette(console) and np.isfinite(value) and not pale[i, j]
            figure = layout.pad(_figure(value, layout.figures, gap))
            line.append(figure, shade(value, scale) if shaded else None)
        if has_mean:
            line.append(_figure(mean, layout.mean_figures, undefined).rjust(layout.mean))
        yield line


def _figure(value: float, figures: Figures, gap: str) -> str:
    return gap if np.isnan(value) else figures.write(value)
