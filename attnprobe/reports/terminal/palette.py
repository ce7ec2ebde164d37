"""Colours of the heat map: those of pictures, even to the eye and safe for colour-blind readers."""

from collections.abc import Sequence

import numpy as np

from attnprobe.reports.pictures.theme import SEQUENTIAL, THEMES, ink_on

RGB = tuple[int, int, int]


def _stops(colours: Sequence[str]) -> np.ndarray:
    return np.array([tuple(bytes.fromhex(colour[1:])) for colour in colours], float)


_ONE_WAY, _BOTH_WAYS = _stops(SEQUENTIAL), _stops(THEMES["light"].diverging)


def colour(share: float, *, both_ways: bool = False) -> RGB:
    """Give the colour at a share of the way from dark to bright, or from blue by white to orange."""
    stops = _BOTH_WAYS if both_ways else _ONE_WAY
    place = min(max(share, 0.0), 1.0) * (len(stops) - 1)
    red, green, blue = (round(float(np.interp(place, np.arange(len(stops)), channel))) for channel in stops.T)
    return red, green, blue


def ink(background: RGB) -> RGB:
    """Choose black or white text, whichever has more contrast (WCAG 2)."""
    return (0, 0, 0) if ink_on("#" + bytes(background).hex()) == "#000000" else (255, 255, 255)
