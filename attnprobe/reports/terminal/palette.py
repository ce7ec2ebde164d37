"""Colours of the heat map: those of pictures, even to the eye and safe for colour-blind readers."""

from collections.abc import Sequence

import numpy as np

from attnprobe.reports.pictures.theme import SEQUENTIAL, THEMES

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
    """Choose black or white text, whichever has more contrast (as WCAG 2 defines it)."""
    light = luminance(background)
    black, white = (light + 0.05) / 0.05, 1.05 / (light + 0.05)
    return (0, 0, 0) if black >= white else (255, 255, 255)


def luminance(rgb: RGB) -> float:
    """Give the relative luminance of an sRGB colour, from 0 to 1."""
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in (v / 255 for v in rgb)]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
