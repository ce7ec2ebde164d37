"""The console on standard output: its signs, its colours, and figures that line up."""

import contextlib
import io
import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, NoReturn

import numpy as np
from rich.cells import cell_len, set_cell_size
from rich.console import Console

from attnprobe.reports.columns import read_floats
from attnprobe.reports.theme import SEQUENTIAL, THEMES, choose_ink
from attnprobe.table.cells import clean, format_cell, to_plain_column
from attnprobe.table.head_table import HeadTable
from attnprobe.table.table import Cell, Column


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


USUAL_DIGITS = 3
_WHOLE_NUMBERS_UP_TO = 1e5
_SMALLEST_EXPONENT, _LARGEST_EXPONENT = -2, 4
_LEAST_POWER = -307  # below it, ten to the power has lost digits, and in the end is 0


@dataclass(frozen=True)
class Figures:
    """How the values of one measure are written."""

    decimals: int  # digits after the point
    exponent: int = 0  # values are shown divided by ten to this power; 0 unless all are tiny or huge

    def write(self, value: float) -> str:
        """Write one value; what rounds to zero loses its minus sign."""
        return f"{value / 10.0**self.exponent:z.{self.decimals}f}"

    def width(self, values: np.ndarray) -> int:
        """Find the width of the longest value, undefined ones aside."""
        return max((len(self.write(value)) for value in values[~np.isnan(values)]), default=1)


def choose_figures(values: np.ndarray, precision: int | None = None) -> list[Figures]:
    """Choose how to write values: the best way first, then one digit fewer for where room is short.

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


def format_significant(value: float, precision: int | None = None) -> str:
    """Write a value that stands alone, such as a minimum in a caption."""
    return f"{value:.{precision or USUAL_DIGITS}g}"


DIGITS = 4
_ERROR_DIGITS = 2
_MOST_DECIMALS = 6


@dataclass(frozen=True)
class Field:
    """One column ready to print."""

    name: str
    unit: str
    cells: list[str]
    is_text: bool

    def width(self) -> int:
        return max(cell_len(part) for part in (self.name, self.unit, *self.cells))


def write_fields(table: HeadTable, hidden: set[str], signs: Signs, precision: int | None) -> list[Field]:
    """Write out every column but the hidden ones, and errors, which stand beside their measure."""
    return [
        _write_field(table, column, signs, precision)
        for column in table.columns
        if column.name not in hidden and not _has_measure(table, column)
    ]


def write_with_error(cell: Cell, error: float, signs: Signs, decimals: int | None, digits: int) -> str:
    """Write a value with its standard error, to fixed decimals or else to so many digits."""
    if cell is None or isinstance(cell, str):
        return signs.undefined
    if decimals is None:
        value, spread = f"{cell:.{digits}g}", f"{error:.{_ERROR_DIGITS}g}"
    else:
        value, spread = f"{cell:z.{decimals}f}", f"{error:.{decimals}f}"
    return value if math.isnan(error) else f"{value} {signs.plus_minus} {spread}"


def choose_decimals(errors: np.ndarray) -> int | None:
    """Choose the decimals that leave a typical error two digits; None where that is no fixed number."""
    positive = errors[np.isfinite(errors) & (errors > 0)]
    if not positive.size:
        return None
    decimals = _ERROR_DIGITS - 1 - math.floor(math.log10(float(np.median(positive))))
    return max(decimals, 0) if decimals <= _MOST_DECIMALS else None


def _has_measure(table: HeadTable, column: Column) -> bool:
    name = column.name
    return column.role == "error" and name.endswith("_se") and name.removesuffix("_se") in table.data


def _write_field(table: HeadTable, column: Column, signs: Signs, precision: int | None) -> Field:
    cells = to_plain_column(table.data[column.name], column)
    is_text = any(isinstance(cell, str) for cell in cells)
    errors = read_floats(table, f"{column.name}_se")
    digits = precision or DIGITS
    if errors is None or is_text:
        lines = [signs.undefined if cell is None else format_cell(cell, digits) for cell in cells]
    else:
        decimals = choose_decimals(errors) if precision is None else None
        each = zip(cells, errors, strict=True)
        lines = [write_with_error(cell, float(error), signs, decimals, digits) for cell, error in each]
    return Field(clean(column.name), clean(column.unit), lines, is_text)


def shorten(text: str, longest: int) -> str:
    """Cut a text to so many cells of a terminal, the last of which is a full stop then."""
    return text if cell_len(text) <= longest else f"{set_cell_size(text, longest - 1).rstrip()}."
