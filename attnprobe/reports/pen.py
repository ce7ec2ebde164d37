"""What draws the graphics of one sentence: looks, colours, text, cells, and the marks of gold links."""

from collections.abc import Sequence
from html import escape
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from attnprobe.reports.theme import THEMES, ThemeName
from attnprobe.reports.view_alignment import Mark, list_kinds

Rows = NDArray[np.floating[Any]]
Colour = tuple[int, int, int]

#: From nothing to everything, red-green-blue; each step is darker than the last, in grey too.
RAMP: tuple[Colour, ...] = ((255, 255, 255), (198, 219, 239), (107, 174, 214), (33, 113, 181), (8, 48, 107))
#: The same on a dark ground, where much is light.
_DARK: tuple[Colour, ...] = ((22, 24, 29), (24, 58, 104), (36, 108, 184), (112, 178, 240), (232, 244, 255))
#: Colours that a graphic tells apart.
LEVELS = 48
FONT = "Helvetica, Arial, 'Liberation Sans', 'DejaVu Sans', sans-serif"
EDGE = 10
#: Most characters of a label.
_LONGEST = 20
_FRAME = "#999999"
#: What the scale says, and how wide a step of it is.
SCALE, STEP = (0, 0.01, 0.05, 0.1, 0.25, 0.5, 1), 34
#: A gold link between two columns of tokens is a band behind the lines, so wide where it is neither hit nor
#: missed. In a legend, a band is so long, and the square of a cell so large.
_BAND, _WIDE, _LONG, _SQUARE = "#d95f0e", 6, 26, 16
#: Widths of letters in sizes of the text, in the fonts of graphics; of bold ones, so many times as much.
_WIDTHS = {
    letter: width
    for letters, width in (
        ("ijl'", 0.222), ("ft,.:;/| ", 0.278), ("r()-", 0.333), ("ckvxyzs", 0.5), ("mMW@%", 0.889),
        ("wABCDEFGHKNOPQRSUVXYZ", 0.74),
    )
    for letter in letters
}  # fmt: skip
_LETTER, _WIDEST, _BOLD = 0.56, 1.0, 1.1


class Look(NamedTuple):
    """Colours and sizes of a graphic; lengths are pixels, of which 96 make an inch."""

    theme: ThemeName
    stroke: str  # of lines that say everything; less attention is more transparent
    ramp: Sequence[Colour]  # from nothing, which is the background, to everything
    size: int  # of the text
    line: int  # from one token to the next

    @property
    def ink(self) -> str:
        """The colour of tokens and titles."""
        return THEMES[self.theme].ink

    @property
    def pale(self) -> str:
        """The colour of what explains them."""
        return THEMES[self.theme].muted


#: By the name of the theme; that of paper has text of 8 points, as pictures of tables do.
LOOKS: dict[ThemeName, Look] = {
    "light": Look("light", "#08306b", RAMP, 13, 20),
    "dark": Look("dark", "#9ecbff", _DARK, 13, 20),
    "paper": Look("paper", "#08306b", RAMP, 11, 17),
}
LIGHT = LOOKS["light"]


def cut_label(text: str, longest: int = _LONGEST) -> str:
    """Cut a label for a graphic.

    >>> cut_label("incomprehensibilities", 10)
    'incompreh…'
    """
    return text if len(text) <= longest else f"{text[: longest - 1]}\u2026"


def measure_prose(text: str) -> float:
    """Measure how wide a text is, in sizes of its letters; of fonts alike, one can be a little wider.

    >>> round(measure_prose("sure link, hit"), 2)
    5.35
    """
    return sum(_WIDTHS.get(one, _LETTER if ord(one) < 0x2E80 else _WIDEST) for one in text)


def wrap_prose(text: str, room: float) -> list[str]:
    """Cut a text into lines at its blanks, none wider than a room where its words are not.

    >>> wrap_prose("three of four links", 6)
    ['three of four', 'links']
    """
    lines = list[str]()
    for word in text.split():
        if lines and measure_prose(f"{lines[-1]} {word}") <= room:
            lines[-1] += f" {word}"
        else:
            lines.append(word)
    return lines


def find_levels(rows: Rows) -> NDArray[np.int64]:
    """Find the level of each probability, from 0 to ``LEVELS``: by its square root, so that 0.01 shows."""
    return np.rint(np.sqrt(np.clip(rows, 0, 1)) * LEVELS).astype(np.int64)


def mix_colour(level: int, ramp: Sequence[Colour] = RAMP) -> str:
    """Interpolate the colour of a level.

    >>> mix_colour(0), mix_colour(LEVELS)
    ('#ffffff', '#08306b')
    """
    place = level / LEVELS * (len(ramp) - 1)
    low = min(int(place), len(ramp) - 2)
    mixed = (round(a + (b - a) * (place - low)) for a, b in zip(ramp[low], ramp[low + 1], strict=True))
    return "#" + "".join(f"{part:02x}" for part in mixed)


class Pen:
    """Collects the parts of a graphic."""

    def __init__(self, look: Look) -> None:
        self.look, self.parts = look, list[str]()

    def text(
        self, x: float, y: float, text: str, anchor: str = "start", colour: str | None = None,
        size: float | None = None, more: str = "",
    ) -> None:  # fmt: skip
        small = "" if size in (None, self.look.size) else f' font-size="{size:g}"'
        self.parts.append(
            f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}" fill="{colour or self.look.ink}"{small}{more}>'
            f"{escape(text)}</text>"
        )

    def title(self, text: str, y: float = EDGE) -> None:
        self.text(EDGE, y + self.look.size, text, more=' font-weight="bold"')

    def prose(self, title: str, notes: Sequence[str], wide: float) -> float:
        """Write a title, and notes below it, in lines no wider than the graphic; returns where they end."""
        y = float(EDGE)
        for number, text in enumerate((title, *notes)):
            for line in wrap_prose(text, (wide - 2 * EDGE) / self.look.size / (1 if number else _BOLD)):
                if number:
                    self.text(EDGE, y + self.look.size, line, colour=self.look.pale)
                else:
                    self.title(line, y)
                y += self.look.line
        return y

    def square(self, mark: Mark, x: float, y: float, cell: float) -> None:
        """Draw a gold link around its cells, on a rim that shows on any colour.

        The square is heavy where the link is hit, thin where it is missed, and dashed where it is possible.
        """
        unit = min(2.0, cell / 6)
        thick, rim = unit * mark.weight, unit / 2
        (top, bottom), (left, right) = mark.rows, mark.columns
        inset = thick / 2 + rim
        box = (
            f'x="{x + cell * left + inset:g}" y="{y + cell * top + inset:g}" '
            f'width="{cell * (right - left) - 2 * inset:g}" '
            f'height="{cell * (bottom - top) - 2 * inset:g}" fill="none"'
        )
        dashes = "" if mark.sure else f' stroke-dasharray="{1.5 * unit:g} {unit:g}"'
        self.parts.append(
            f'<rect {box} stroke="{THEMES[self.look.theme].background}" stroke-width="{thick + 2 * rim:g}"/>'
            f'<rect {box} stroke="{self.look.ink}" stroke-width="{thick:g}"{dashes}>'
            f"<title>{mark.name}</title></rect>"
        )

    def band(self, mark: Mark, start: tuple[float, float], end: tuple[float, float]) -> None:
        """Draw a gold link from point to point, wide where it is hit, narrow where it is missed."""
        dashes = "" if mark.sure else ' stroke-dasharray="5 4"'
        self.parts.append(
            f'<path d="M{start[0]:g} {start[1]:g}L{end[0]:g} {end[1]:g}" fill="none" stroke="{_BAND}" '
            f'stroke-opacity="0.5" stroke-width="{_WIDE * mark.weight:g}"{dashes}>'
            f"<title>{mark.name}</title></path>"
        )

    def legend(self, marks: Sequence[Mark], y: float, wide: float, *, bands: bool) -> float:
        """Draw what each kind of mark is, in lines no wider than the graphic; returns where they end."""
        x, sample, line = float(EDGE), _LONG if bands else _SQUARE, self.look.line
        for mark in list_kinds(marks):
            room = sample + 6 + self.look.size * measure_prose(mark.name)
            if x > EDGE and x + room > wide - EDGE:
                x, y = float(EDGE), y + line
            if bands:
                self.band(mark, (x, y + line / 2), (x + sample, y + line / 2))
            else:
                self.square(mark, x, y + (line - sample) / 2, sample)
            self.text(x + sample + 6, y + line / 2 + 0.35 * self.look.size, mark.name, colour=self.look.pale)
            x += room + 18
        return y + line * bool(marks)

    def part(self, x: float, y: float, wide: float, high: float) -> None:
        """Draw a line, to the right or down, on a rim that shows on any colour."""
        for colour, thick in ((THEMES[self.look.theme].background, 3), (self.look.pale, 1.2)):
            self.parts.append(
                f'<path d="M{x:g} {y:g}l{wide:g} {high:g}" stroke="{colour}" stroke-width="{thick}"/>'
            )

    def width(self, label: str) -> float:
        """Estimate how wide a label is: a page can measure it, a file can't."""
        return self.look.size * sum(1 if ord(character) > 0x2E7F else 0.6 for character in label)

    def frame(self, x: float, y: float, wide: float, high: float, *, dashed: bool = False) -> None:
        dashes = ' stroke-dasharray="3 3"' if dashed else ""
        self.parts.append(
            f'<rect x="{x:g}" y="{y:g}" width="{wide:g}" height="{high:g}" fill="none" stroke="{_FRAME}" '
            f'stroke-width="0.5"{dashes}/>'
        )

    def cells(self, rows: Rows, x: float, y: float, wide: float, high: float) -> None:
        """Draw the cells of a map, one path for each colour, runs of one colour as one."""
        # Neighbours have the very same edge: otherwise the paper shows between them.
        across = [f"{x + wide * place:.8g}" for place in range(rows.shape[1] + 1)]
        down = [f"{y + high * place:.8g}" for place in range(rows.shape[0] + 1)]
        paths: dict[int, list[str]] = {}
        ramp = self.look.ramp
        for place, row in enumerate(find_levels(rows)):
            ends = np.flatnonzero(np.diff(row)) + 1
            for start, stop in zip([0, *ends], [*ends, len(row)], strict=True):
                if level := int(row[start]):  # that of nothing is the paper's own
                    left, right = across[start], across[stop]
                    path = f"M{left} {down[place]}H{right}V{down[place + 1]}H{left}z"
                    paths.setdefault(level, []).append(path)
        self.parts += [
            f'<path d="{"".join(path)}" fill="{mix_colour(level, ramp)}" shape-rendering="crispEdges"/>'
            for level, path in sorted(paths.items())
        ]

    def scale(self, x: float, y: float) -> float:
        """Draw which colour is how much; returns how wide that is."""
        wide = STEP
        for place, mark in enumerate(SCALE):
            shade = mix_colour(int(find_levels(np.array(mark))), self.look.ramp)
            self.parts.append(
                f'<rect x="{x + wide * place:g}" y="{y:g}" width="{wide}" height="10" fill="{shade}" '
                f'stroke="{_FRAME}" stroke-width="0.5"/>'
            )
            self.text(x + wide * (place + 0.5), y + 24, f"{mark:g}", "middle", self.look.pale)
        return wide * len(SCALE)

    def svg(self, width: float, height: float, title: str) -> str:
        size = f'width="{width:.0f}" height="{height:.0f}" viewBox="0 0 {width:.0f} {height:.0f}"'
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" font-family="{FONT}" '
            f'font-size="{self.look.size}"><title>{escape(title)}</title>'
            f'<rect width="100%" height="100%" fill="{THEMES[self.look.theme].background}"/>'
            f"{''.join(self.parts)}</svg>\n"
        )
