"""Colours of the heat map: viridis, even to the eye and safe for colour-blind readers."""

import numpy as np

RGB = tuple[int, int, int]

# Nine stops of matplotlib's viridis, which is dedicated to the public domain (CC0).
_STOPS = np.array(
    [
        (0x44, 0x01, 0x54),
        (0x47, 0x2D, 0x7B),
        (0x3B, 0x52, 0x8B),
        (0x2C, 0x72, 0x8E),
        (0x21, 0x91, 0x8C),
        (0x28, 0xAE, 0x80),
        (0x5E, 0xC9, 0x62),
        (0xAD, 0xDC, 0x30),
        (0xFD, 0xE7, 0x25),
    ],
    dtype=float,
)


def colour(share: float) -> RGB:
    """Give the colour at a share of the way from the lowest (dark) to the highest (bright)."""
    place = min(max(share, 0.0), 1.0) * (len(_STOPS) - 1)
    red, green, blue = (
        round(float(np.interp(place, np.arange(len(_STOPS)), channel))) for channel in _STOPS.T
    )
    return red, green, blue


def ink(background: RGB) -> RGB:
    """Choose black or white text, whichever stands out more (contrast as WCAG 2 defines it)."""
    light = luminance(background)
    black, white = (light + 0.05) / 0.05, 1.05 / (light + 0.05)
    return (0, 0, 0) if black >= white else (255, 255, 255)


def luminance(rgb: RGB) -> float:
    """Give the relative luminance of an sRGB colour, from 0 to 1."""
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in (v / 255 for v in rgb)]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
