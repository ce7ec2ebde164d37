"""How pictures look: three themes, and colour maps that survive colour blindness and grey print."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from attnprobe.errors import UsageError
from attnprobe.table.cells import clean

ThemeName = Literal["light", "dark", "paper"]

#: The Vega-Lite that altair writes, and that pages bring along.
VEGA_LITE = "6.4"
#: The renderer brings Liberation Sans along and embeds it in pdf. Arial and Helvetica have letters of the
#: same widths, so that an svg looks alike where Liberation is missing.
FONT = "Liberation Sans, Arial, Helvetica, sans-serif"

#: Viridis, as on the terminal: lightness grows from end to end, so that grey print keeps the order.
SEQUENTIAL = (
    "#440154", "#472d7b", "#3b528b", "#2c728e", "#21918c", "#28ae80", "#5ec962", "#addc30", "#fde725",
)  # fmt: skip
#: A frame that is seen on every colour of viridis.
FRAME = "#ff5a1f"
#: Blue below 0 and orange above, which colour-blind readers can distinguish. In grey print, lightness shows
#: the distance from 0, and signs show the side.
_DIVERGING_LIGHT = ("#08519c", "#4292c6", "#9ecae1", "#f7f7f7", "#fdae6b", "#e6701b", "#8c2d04")
_DIVERGING_DARK = ("#9ecae1", "#4292c6", "#20588c", "#2b2e33", "#8f4a12", "#e6701b", "#fdae6b")
#: Okabe and Ito (2008), Color universal design; first those that stand out from the background.
_ON_LIGHT = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7f7f7f", "#f0e442")
_ON_DARK = ("#56b4e9", "#e69f00", "#009e73", "#cc79a7", "#f0e442", "#d55e00", "#b3b3b3", "#0072b2")


def choose_ink(colour: str) -> str:
    """Choose black or white text, whichever has more contrast on a colour, by its luminance (WCAG 2)."""
    parts = [part / 255 for part in bytes.fromhex(colour[1:])]
    red, green, blue = (
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    )
    return "#ffffff" if 0.2126 * red + 0.7152 * green + 0.0722 * blue < 0.179 else "#000000"


def mix_colours(colours: Sequence[str], share: float) -> str:
    """Mix the colour at a ``share`` of the way along a list of colours, linearly in RGB, as Vega does.

    >>> mix_colours(["#000000", "#ffffff"], 0.5)
    '#808080'
    """
    at = min(max(share, 0.0), 1.0) * (len(colours) - 1)
    low = min(int(at), len(colours) - 2)
    first, second = (bytes.fromhex(colour[1:]) for colour in colours[low : low + 2])
    mixed = [round(a + (b - a) * (at - low)) for a, b in zip(first, second, strict=True)]
    return f"#{bytes(mixed).hex()}"


def interpolate_colours(colours: Sequence[str], number: int) -> list[str]:
    """Spread a ``number`` of colours evenly along a list of colours, mixing neighbours.

    >>> interpolate_colours(["#000000", "#ffffff"], 3)
    ['#000000', '#808080', '#ffffff']
    """
    return [mix_colours(colours, place / max(number - 1, 1)) for place in range(number)]


#: Pixels of the smallest text: 6 points.
SMALLEST = 8


@dataclass(frozen=True)
class Theme:
    """Colours and sizes; lengths are pixels, of which 96 make an inch on paper."""

    name: ThemeName
    background: str  # behind everything
    ink: str  # text, and what a reader should see first
    muted: str  # axes, lines for comparison, remarks
    grid: str  # lines behind the data
    diverging: Sequence[str]  # colours from the most negative to the most positive
    categories: Sequence[str]  # colours of what has no order; the first two are the most unlike
    size: int  # of the text
    width: int  # of a picture, by default

    def small(self, less: int) -> int:
        """Give the size of smaller text, ``less`` pixels below the normal size but at least 6 points."""
        return max(SMALLEST, self.size - less)

    def config(self) -> dict[str, Any]:
        """Give Vega-Lite's ``config``."""
        text = {
            **{"labelFont": FONT, "labelColor": self.ink, "labelFontSize": self.small(1), "labelLimit": 240},
            **{"titleFont": FONT, "titleColor": self.ink, "titleFontSize": self.size, "titleLimit": 440},
            "titleFontWeight": "normal",
        }
        lines = {"domainColor": self.muted, "tickColor": self.muted, "gridColor": self.grid}
        below = {"anchor": "start", "direction": "vertical", "margin": 10}
        look = {"symbolStrokeWidth": 1.5, "gradientThickness": 10, "layout": {"bottom": below}}
        return {
            "background": self.background,
            "font": FONT,
            "padding": 6,
            "view": {"stroke": None},
            "axis": {**text, **lines, "tickSize": 4, "labelPadding": 3, "titlePadding": 6},
            "axisBand": {"ticks": False, "domain": False, "grid": False, "labelPadding": 4},
            "legend": {**text, **look},
            "header": {**text, "labelFontSize": self.size, "labelLimit": 400, "titlePadding": 4},
            "title": {
                **{"font": FONT, "color": self.ink, "fontSize": self.size + 1, "fontWeight": "bold"},
                **{"subtitleFont": FONT, "subtitleColor": self.muted, "subtitleFontSize": self.small(1)},
                **{"anchor": "start", "frame": "group", "offset": 8, "limit": 900},
            },
            "text": {"font": FONT, "fontSize": self.small(1), "color": self.ink, "aria": False},
            "line": {"color": self.ink, "strokeWidth": 1.5},
            "rule": {"color": self.ink, "aria": False},
            "point": {"color": self.ink},
            "concat": {"spacing": 22},
            "facet": {"spacing": 14},
        }


THEMES: dict[str, Theme] = {
    "light": Theme("light", "#ffffff", "#1f2328", "#6a737d", "#e6e8eb", _DIVERGING_LIGHT, _ON_LIGHT, 12, 760),
    "dark": Theme("dark", "#16181d", "#e6e8eb", "#9aa3ad", "#2f343b", _DIVERGING_DARK, _ON_DARK, 12, 760),
    # Black ink, and text of 8 points where the picture is set at its own width: 5.5 inches, a text block.
    "paper": Theme("paper", "#ffffff", "#000000", "#595959", "#e0e0e0", _DIVERGING_LIGHT, _ON_LIGHT, 11, 528),
}

#: Pixels of one column of a page and of two, for print.
_COLUMNS = {1: 293, 2: 605}
_LENGTH = re.compile(r"\s*([0-9]*\.?[0-9]+)\s*(px|pt|in|mm|cm|)\s*", re.IGNORECASE)


def parse_width(length: str | int | None) -> int | None:
    """Read the width of a picture in pixels, 96 to an inch, or refuse it; None stays None.

    >>> parse_width("3.05in"), parse_width("85mm"), parse_width("605px"), parse_width(605)
    (293, 321, 605, 605)
    """
    if length is None:
        return None
    units = {"": 1.0, "px": 1.0, "pt": 96 / 72, "in": 96.0, "mm": 96 / 25.4, "cm": 96 / 2.54}
    match = _LENGTH.fullmatch(str(length))
    width = round(float(match[1]) * units[match[2].lower()]) if match else 0
    if not 200 <= width <= 4000:  # narrower, nothing can be read; wider, nobody has a screen or a page
        raise UsageError(
            "--width is a length such as 3.05in, 85mm or 605px, from 200 to 4000 pixels, "
            f"of which 96 make an inch, not {clean(str(length))}."
        )
    return width


def choose_look(
    theme: str | Theme | None = None, width: str | int | None = None, columns: int | None = None
) -> tuple[Theme, int]:
    """Choose colours and sizes, and how many pixels wide a picture is.

    By default it is light, or paper where it fills one column or two of a page.
    """
    if not isinstance(theme, Theme):
        theme = THEMES[theme or ("light" if columns is None else "paper")]
    if columns is None:
        return theme, parse_width(width) or theme.width
    if width is not None:
        raise UsageError("--columns and --width both say how wide the picture is: leave one out.")
    return replace(theme, size=THEMES["paper"].size, width=_COLUMNS[columns]), _COLUMNS[columns]
