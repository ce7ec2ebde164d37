"""Colours that survive grey print and colour blindness; text that can be read."""

import itertools

import numpy as np
import pytest

from attnprobe.reports.theme import SEQUENTIAL, THEMES, interpolate_colours

#: What a dichromat sees, in linear light (Machado, Oliveira and Fernandes 2009, severity 1).
SEEN = {
    "deuteranopia": [
        [0.367322, 0.860646, -0.227968],
        [0.280085, 0.672501, 0.047413],
        [-0.011820, 0.042940, 0.968881],
    ],
    "protanopia": [
        [0.152286, 1.052583, -0.204868],
        [0.114503, 0.786281, 0.099216],
        [-0.003882, -0.048116, 1.051998],
    ],
}


def linear(colour):
    value = np.array(list(bytes.fromhex(colour[1:]))) / 255
    return np.where(value <= 0.04045, value / 12.92, ((value + 0.055) / 1.055) ** 2.4)


def lab(light):
    xyz = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]) @ light
    f = np.cbrt(np.maximum(xyz / [0.9505, 1, 1.089], 1e-9))
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


def lightness(colour):
    return lab(linear(colour))[0]


def test_lightness_grows_from_lowest_to_highest():
    steps = np.diff([lightness(colour) for colour in interpolate_colours(SEQUENTIAL, 33)])
    assert (steps > 1).all()


@pytest.mark.parametrize("name", THEMES)
def test_lightness_of_differences_is_lowest_or_highest_at_0_and_even_on_both_sides(name):
    light = np.array([lightness(colour) for colour in interpolate_colours(THEMES[name].diverging, 21)])
    away = np.diff(light[10:]), np.diff(light[10::-1])
    sign = 1 if name == "dark" else -1
    assert all((sign * steps > 0).all() for steps in away)
    assert np.abs(light - light[::-1]).max() < 14


@pytest.mark.parametrize("kind", SEEN)
def test_sides_and_categories_are_told_apart_by_the_colour_blind(kind):
    def seen(colour):
        return lab(np.clip(np.array(SEEN[kind]) @ linear(colour), 0, 1))

    for theme in THEMES.values():
        assert np.linalg.norm(seen(theme.diverging[1]) - seen(theme.diverging[-2])) > 30
        for one, other in itertools.combinations(theme.categories[:5], 2):
            assert np.linalg.norm(seen(one) - seen(other)) > 10


def contrast(one, other):
    high, low = sorted((linear(colour) @ [0.2126, 0.7152, 0.0722] for colour in (one, other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("theme", THEMES.values(), ids=list(THEMES))
def test_text_can_be_read(theme):
    """By WCAG 2: 7 for text, 4.5 for remarks."""
    assert contrast(theme.ink, theme.background) > 7
    assert contrast(theme.muted, theme.background) > 4.5
    assert all(contrast(colour, theme.background) > 3 for colour in theme.categories[:2])
