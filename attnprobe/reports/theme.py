"""How pictures look: three themes, and colour maps that survive colour blindness and grey print."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

from attnprobe.errors import AttnprobeError
from attnprobe.table.cells import clean
from attnprobe.table.naming import MIXED

ThemeName = Literal["light", "dark", "paper"]


#: Liberation Sans comes with the renderer and is embedded in pdf; Arial and Helvetica have letters of the
#: same widths, so that an svg is laid out alike where Liberation is missing.
FONT = "Liberation Sans, Arial, Helvetica, sans-serif"

#: Viridis, as on the terminal: lightness grows from end to end, so that grey print keeps the order.
SEQUENTIAL = (
    "#440154", "#472d7b", "#3b528b", "#2c728e", "#21918c", "#28ae80", "#5ec962", "#addc30", "#fde725",
)  # fmt: skip
#: A frame that is seen on every colour of viridis.
FRAME = "#ff5a1f"
#: Blue below 0, orange above, which colour-blind readers tell apart; grey print keeps the distance from 0,
#: and signs stand for the side.
_DIVERGING_LIGHT = ("#08519c", "#4292c6", "#9ecae1", "#f7f7f7", "#fdae6b", "#e6701b", "#8c2d04")
_DIVERGING_DARK = ("#9ecae1", "#4292c6", "#20588c", "#2b2e33", "#8f4a12", "#e6701b", "#fdae6b")
#: Okabe and Ito (2008), Color universal design; first those that stand out from the background.
_ON_LIGHT = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7f7f7f", "#f0e442")
_ON_DARK = ("#56b4e9", "#e69f00", "#009e73", "#cc79a7", "#f0e442", "#d55e00", "#b3b3b3", "#0072b2")

#: Of roles: kinds that are alike have hues that are alike; no two have the same colour and the same letter.
ROLE_COLOURS: Mapping[str, str | None] = {
    "previous": "#0072b2",
    "next": "#56b4e9",
    "self": "#7b6fd0",
    "offset": "#a8c8f0",
    "delimiter": "#f0c33c",
    "rare words": "#d55e00",
    "syntactic": "#009e73",
    "coreference": "#7fd0a8",
    "links": "#b5d96b",
    "induction": "#cc79a7",
    "duplicate": "#ecb8d3",
    "broad": "#b3b3b3",
    "block": "#8c6d46",
    "aligns": "#4a90a4",
    "sink": "#f7e3a1",
    "part of speech": "#f0a58a",
    MIXED: None,
}


def compute_luminance(colour: str) -> float:
    """Give the relative luminance of a colour, from 0 to 1 (WCAG 2)."""
    parts = [part / 255 for part in bytes.fromhex(colour[1:])]
    red, green, blue = (
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def choose_ink(colour: str) -> str:
    """Choose black or white text, whichever has more contrast on a colour (WCAG 2)."""
    return "#ffffff" if compute_luminance(colour) < 0.179 else "#000000"


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
    width: int  # of a picture, where nobody says

    def config(self) -> dict[str, Any]:
        """Give Vega-Lite's ``config``."""
        text = {"labelFont": FONT, "titleFont": FONT, "labelColor": self.ink, "titleColor": self.ink}
        sizes = {"labelFontSize": self.size - 1, "titleFontSize": self.size}
        plain = {**text, **sizes, "titleFontWeight": "normal", "labelLimit": 240, "titleLimit": 440}
        return {
            "background": self.background,
            "font": FONT,
            "padding": 6,
            "view": {"stroke": None},
            "axis": {
                **plain,
                "domainColor": self.muted,
                "tickColor": self.muted,
                "gridColor": self.grid,
                "gridWidth": 1,
                "tickSize": 4,
                "labelPadding": 3,
                "titlePadding": 6,
            },
            "axisBand": {"ticks": False, "domain": False, "grid": False, "labelPadding": 4},
            "legend": {**plain, "symbolStrokeWidth": 1.5, "gradientThickness": 10, "titlePadding": 5},
            "header": {**plain, "labelFontSize": self.size, "labelLimit": 400, "titlePadding": 4},
            "title": {
                "font": FONT,
                "subtitleFont": FONT,
                "anchor": "start",
                "frame": "group",
                "color": self.ink,
                "subtitleColor": self.muted,
                "fontSize": self.size + 1,
                "subtitleFontSize": self.size - 1,
                "fontWeight": "bold",
                "offset": 8,
                "limit": 900,
            },
            "text": {"font": FONT, "fontSize": self.size - 1, "color": self.ink},
            "line": {"color": self.ink, "strokeWidth": 1.5},
            "rule": {"color": self.ink},
            "point": {"color": self.ink},
            "concat": {"spacing": 22},
            "facet": {"spacing": 14},
            "aria": True,
        }


THEMES: dict[str, Theme] = {
    "light": Theme("light", "#ffffff", "#1f2328", "#6a737d", "#e6e8eb", _DIVERGING_LIGHT, _ON_LIGHT, 12, 760),
    "dark": Theme("dark", "#16181d", "#e6e8eb", "#9aa3ad", "#2f343b", _DIVERGING_DARK, _ON_DARK, 12, 760),
    # Black ink, and text of 8 points where the picture is set at its own width: 5.5 inches, a text block.
    "paper": Theme("paper", "#ffffff", "#000000", "#595959", "#e0e0e0", _DIVERGING_LIGHT, _ON_LIGHT, 11, 528),
}
assert set(THEMES) == set(get_args(ThemeName))

#: Narrower, nothing can be read; wider, nobody has a screen or a page.
_WIDTHS = (200, 4000)


def check_look(theme: str | None, width: int | None) -> None:
    """Refuse a theme that is none, or a width that nobody can read."""
    if theme is not None and theme not in THEMES:
        raise AttnprobeError(f"--theme is one of {', '.join(THEMES)}, not {clean(str(theme))}.")
    if width is not None and not _WIDTHS[0] <= width <= _WIDTHS[1]:
        raise AttnprobeError(f"--width is a number of pixels from {_WIDTHS[0]} to {_WIDTHS[1]}.")
