"""The console on standard output: its signs and its colours."""

import contextlib
import io
import sys
from collections.abc import Sequence
from typing import NamedTuple, NoReturn

import numpy as np
from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.style import Style
from rich.text import Text

from attnprobe.reports.scales import Scale
from attnprobe.reports.theme import SEQUENTIAL, THEMES, choose_ink


class QuietConsole(Console):
    """A console that leaves a closed pipe to the caller, where rich would exit with an error."""

    def on_broken_pipe(self) -> NoReturn:
        raise  # noqa: PLE0704 - rich calls this from its except clause


def make_console(no_color: bool = False) -> Console:
    """Make the console for standard output; rich itself looks at NO_COLOR, TERM and COLUMNS."""
    if isinstance(sys.stdout, io.TextIOWrapper) and not sys.stdout.encoding.lower().startswith("utf"):
        # A token in another script must not end in a UnicodeEncodeError on an old terminal.
        with contextlib.suppress(OSError, ValueError):
            sys.stdout.reconfigure(errors="replace")
    return QuietConsole(no_color=True if no_color else None, highlight=False)


class Signs(NamedTuple):
    """Signs beyond ASCII, or what stands in for them."""

    undefined: str = "·"
    plus_minus: str = " ± "
    between: str = " · "
    more: str = "…"
    bullet: str = "•"
    bar: str = "█"
    levels: str = "▁▂▃▄▅▆▇█"


_ASCII_SIGNS = Signs(
    undefined="-", plus_minus=" +/- ", between=", ", more="...", bullet="*", bar="#", levels="12345678"
)


def choose_signs(console: Console) -> Signs:
    """Choose the signs that the console's encoding can hold."""
    return _ASCII_SIGNS if console.options.ascii_only else Signs()


def has_palette(console: Console) -> bool:
    """Tell whether a scale of colours can be shown; sixteen colours are too few for one."""
    return console.color_system in {"256", "truecolor"} and not console.no_color


def _parse_colours(colours: Sequence[str]) -> np.ndarray:
    return np.array([tuple(bytes.fromhex(colour[1:])) for colour in colours], float)


_ONE_WAY, _BOTH_WAYS = _parse_colours(SEQUENTIAL), _parse_colours(THEMES["light"].diverging)


def find_colour(share: float, *, both_ways: bool = False) -> str:
    """Find the colour at a share of the way from dark to bright, or from blue by white to orange."""
    stops = _BOTH_WAYS if both_ways else _ONE_WAY
    place = min(max(share, 0.0), 1.0) * (len(stops) - 1)
    channels = [round(float(np.interp(place, np.arange(len(stops)), channel))) for channel in stops.T]
    return f"#{bytes(channels).hex()}"


def colour_value(value: float, scale: Scale) -> str:
    return find_colour(scale.place(value), both_ways=scale.is_of_effects)


def style_cell(value: float, scale: Scale) -> Style:
    """Give a cell the colour of its number, and text of the ink that is read best on it."""
    background = colour_value(value, scale)
    return Style(color=choose_ink(background), bgcolor=background)


def draw_scale(scale: Scale, width: int, sign: str) -> Text:
    """Draw a scale of colours from end to end."""
    bar = Text()
    for step in range(width):
        bar.append(sign, Style(color=find_colour(step / (width - 1), both_ways=scale.is_of_effects)))
    return bar


def shorten(text: str, longest: int) -> str:
    """Cut a text to so many cells of a terminal, the last of which is a full stop then."""
    return text if cell_len(text) <= longest else f"{set_cell_size(text, longest - 1).rstrip()}."
