"""The rich console on standard output, and the few signs that not every terminal can print."""

import contextlib
import io
import sys
from collections.abc import Sequence
from typing import NamedTuple, NoReturn

import numpy as np
from rich.console import Console

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
    plus_minus: str = "±"
    between: str = " · "
    more: str = "…"
    bullet: str = "•"
    bar: str = "█"
    mark: str = "●"
    other: str = "○"
    line: str = "─"
    levels: str = "▁▂▃▄▅▆▇█"


ASCII_SIGNS = Signs(
    undefined="-", plus_minus="+/-", between=", ", more="...", bullet="*", bar="#", mark="#", other="o",
    line="-", levels="12345678",
)  # fmt: skip


def choose_signs(console: Console) -> Signs:
    """Choose the signs that the console's encoding can hold."""
    return ASCII_SIGNS if console.options.ascii_only else Signs()


def has_palette(console: Console) -> bool:
    """Tell whether a scale of colours can be shown; sixteen colours are too few for one."""
    return console.color_system in {"256", "truecolor"} and not console.no_color


RGB = tuple[int, int, int]


def _parse_colours(colours: Sequence[str]) -> np.ndarray:
    return np.array([tuple(bytes.fromhex(colour[1:])) for colour in colours], float)


_ONE_WAY, _BOTH_WAYS = _parse_colours(SEQUENTIAL), _parse_colours(THEMES["light"].diverging)


def find_colour(share: float, *, both_ways: bool = False) -> RGB:
    """Find the colour at a share of the way from dark to bright, or from blue by white to orange."""
    stops = _BOTH_WAYS if both_ways else _ONE_WAY
    place = min(max(share, 0.0), 1.0) * (len(stops) - 1)
    red, green, blue = (round(float(np.interp(place, np.arange(len(stops)), channel))) for channel in stops.T)
    return red, green, blue


def choose_text_colour(background: RGB) -> RGB:
    """Choose black or white text, whichever has more contrast (WCAG 2)."""
    return (0, 0, 0) if choose_ink("#" + bytes(background).hex()) == "#000000" else (255, 255, 255)
