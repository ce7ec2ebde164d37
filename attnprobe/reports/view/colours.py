"""How graphics look, and from a probability to a colour: steps of attention are steps of its square root."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnprobe.reports.theme import THEMES, ThemeName

Colour = tuple[int, int, int]
#: From nothing to everything, red-green-blue; each step is darker than the last, in grey too.
RAMP: tuple[Colour, ...] = ((255, 255, 255), (198, 219, 239), (107, 174, 214), (33, 113, 181), (8, 48, 107))
#: The same on a dark ground, where much is light.
_DARK: tuple[Colour, ...] = ((22, 24, 29), (24, 58, 104), (36, 108, 184), (112, 178, 240), (232, 244, 255))
#: Colours that a graphic tells apart.
LEVELS = 48


@dataclass(frozen=True)
class Look:
    """Colours and sizes of a graphic; lengths are pixels, of which 96 make an inch.

    Attributes:
        paper: Behind everything.
        ink: Of tokens and titles.
        pale: Of what explains them.
        stroke: Of lines that say everything; less attention is more transparent.
        ramp: Colours from nothing to everything; the first is the paper's.
        size: Of the text.
        line: From one token to the next.
    """

    paper: str
    ink: str
    pale: str
    stroke: str
    ramp: Sequence[Colour]
    size: int
    line: int


def _look(name: ThemeName, stroke: str, ramp: Sequence[Colour], size: int, line: int) -> Look:
    theme = THEMES[name]
    return Look(theme.background, theme.ink, theme.muted, stroke, ramp, size, line)


#: By the name of the theme; that of paper has text of 8 points, as pictures of tables do.
LOOKS: dict[ThemeName, Look] = {
    "light": _look("light", "#08306b", RAMP, 13, 20),
    "dark": _look("dark", "#9ecbff", _DARK, 13, 20),
    "paper": _look("paper", "#08306b", RAMP, 11, 17),
}
LIGHT = LOOKS["light"]


def levels(rows: NDArray[np.floating[Any]]) -> NDArray[np.int64]:
    """Give the level of each probability, from 0 to ``LEVELS``: by its square root, so that 0.01 shows."""
    return np.rint(np.sqrt(np.clip(rows, 0, 1)) * LEVELS).astype(np.int64)


def colour(level: int, ramp: Sequence[Colour] = RAMP) -> str:
    """Spell the colour of a level.

    >>> colour(0), colour(LEVELS)
    ('#ffffff', '#08306b')
    """
    place = level / LEVELS * (len(ramp) - 1)
    low = min(int(place), len(ramp) - 2)
    mixed = (round(a + (b - a) * (place - low)) for a, b in zip(ramp[low], ramp[low + 1], strict=True))
    return "#" + "".join(f"{part:02x}" for part in mixed)
