"""The console on standard output: its signs and its colours."""

import contextlib
import io
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, NoReturn

from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.style import Style
from rich.text import Text

from attnprobe.reports.scales import Scale
from attnprobe.reports.theme import SEQUENTIAL, THEMES, choose_ink, mix_colours


class QuietConsole(Console):
    """A console that leaves a closed pipe to the caller, where rich would exit with an error."""

    def on_broken_pipe(self) -> NoReturn:
        raise  # noqa: PLE0704 - rich calls this from its except clause


def make_console(no_color: bool = False) -> Console:
    """Make the console for standard output: ``?`` for what its encoding lacks; rich obeys NO_COLOR, TERM."""
    if isinstance(sys.stdout, io.TextIOWrapper) and not sys.stdout.encoding.lower().startswith("utf"):
        # A token in another script must not end in a UnicodeEncodeError on an old terminal.
        with contextlib.suppress(OSError, ValueError):
            sys.stdout.reconfigure(errors="replace")
    return QuietConsole(no_color=True if no_color else None, highlight=False)


class Signs(NamedTuple):
    """The signs beyond ASCII that are printed, or their replacements."""

    undefined: str = "·"
    plus_minus: str = " ± "
    between: str = " · "
    more: str = "…"
    bullet: str = "•"
    bar: str = "█"
    levels: str = "▁▂▃▄▅▆▇█"


@dataclass(frozen=True)
class Screen:
    """A console, and how much of a table is shown there."""

    console: Console
    precision: int | None = None  # significant digits
    full: bool = False  # whether all measures are shown as maps, and all rows
    rows: int = 40  # how many rows of a list are shown where not all are

    @cached_property
    def signs(self) -> Signs:
        """The signs that the console's encoding can hold."""
        if self.console.options.ascii_only:
            return Signs("-", " +/- ", ", ", "...", "*", "#", "12345678")
        return Signs()

    @property
    def has_palette(self) -> bool:
        """Whether a scale of colours can be shown; sixteen colours are too few for one."""
        return self.console.color_system in {"256", "truecolor"} and not self.console.no_color

    def print(self, text: str | Text = "", style: str = "") -> None:
        """Print a text as it is, never markup: tokens such as [CLS] look like tags."""
        self.console.print(text if isinstance(text, Text) else Text(text, style))

    def print_map(self, names: Sequence[str], header: str, lines: Sequence[Text]) -> None:
        """Print lines, never folded, each behind its name, below a header."""
        wide = max(map(len, names)) + 1
        for name, line in [("", Text(header, "bold")), *zip(names, lines, strict=True)]:
            whole = Text.assemble((name.ljust(wide), "bold"), line)
            self.console.print(whole, no_wrap=True, overflow="ignore", crop=False)

    def print_heading(self, name: str, *more: str) -> None:
        """Print the name of what follows, after an empty line."""
        self.console.print()
        self.print(Text.assemble((name, "bold"), *more))


def find_colour(share: float, *, both_ways: bool = False) -> str:
    """Find the colour at a ``share`` of the way from dark to bright, or from blue through white to orange."""
    return mix_colours(THEMES["light"].diverging if both_ways else SEQUENTIAL, share)


def colour_value(value: float, scale: Scale) -> str:
    return find_colour(scale.place(value), both_ways=scale.is_of_effects)


def style_cell(value: float, scale: Scale) -> Style:
    """Give a cell the colour of its number, and its text black or white, whichever is easier to read."""
    background = colour_value(value, scale)
    return Style(color=choose_ink(background), bgcolor=background)


def shorten(text: str, longest: int) -> str:
    """Cut a text to ``longest`` cells of a terminal, with a full stop at the end if it is cut."""
    return text if cell_len(text) <= longest else f"{set_cell_size(text, longest - 1).rstrip()}."
