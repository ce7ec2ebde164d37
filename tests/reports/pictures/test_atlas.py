"""The head atlas: what is drawn are the numbers of the table, each at its place."""

import math
import re

import numpy as np
import picture_tables as tables
import pytest

from attnprobe.reports.atlas import lay_out_atlas
from attnprobe.reports.profile import read_profile
from attnprobe.reports.theme import ROLE_COLOURS, THEMES
from attnprobe.table.naming import LETTERS, list_offsets

PAPER = THEMES["paper"]
#: The path of bars that touch: where they begin, then up to each and on by its width.
OUTLINE = re.compile(r"M([\d.]+) ([\d.]+)((?:V[\d.]+h[\d.]+){11,})V[\d.]+z")
RECTANGLE = re.compile(r"M([\d.]+) ([\d.]+)h([\d.]+)v([\d.]+)h-[\d.]+z")


def outlines(atlas):
    """Give the heights of the bars of each head, by the corner of its cell."""
    found = {}
    for shape in atlas.shapes:
        for x, base, steps in OUTLINE.findall(shape.path):
            inside = [
                place
                for place in atlas.places
                if place.x <= float(x) <= place.x + place.width
                and place.y <= float(base) <= place.y + place.height
            ]
            assert len(inside) == 1
            tops = [float(top) for top in re.findall(r"V([\d.]+)h", steps)]
            found[inside[0].row] = [float(base) - top for top in tops]
    return found


def rectangles(atlas, fill=None, opacity=1.0):
    return [
        tuple(map(float, one))
        for shape in atlas.shapes
        if shape.opacity == opacity and fill in (None, shape.fill)
        for one in RECTANGLE.findall(shape.path)
    ]


@pytest.mark.parametrize("causal", [False, True])
def test_bars_are_the_square_roots_of_the_numbers(causal):
    table = tables.profiles(causal=causal)
    atlas = lay_out_atlas(table, PAPER, 605)
    top, heights = read_profile(table).top, outlines(atlas)
    offsets = range(-10, 1 if causal else 11)
    assert heights.keys() == set(range(len(table)))
    values = np.array([[table.data[f"profile_{offset}"][row] for offset in offsets] for row in heights])
    found = np.array(list(heights.values()))
    full = found.max() / math.sqrt(values.max() / top)
    np.testing.assert_allclose(found / full, np.sqrt(values / top), atol=0.002)


def test_squares_of_an_image_are_where_the_patches_are():
    table = tables.profiles(1, 1, patches=True, roles=False)
    for name, _ in list_offsets(patches=True):
        table.data[f"profile_{name}"][:] = [0.0]
    table.data["profile_-3_2"][:] = [1.0]
    atlas = lay_out_atlas(table, PAPER, 605)
    place = atlas.places[0]
    (x, y, width, height), *others = [
        one for one in rectangles(atlas, PAPER.ink) if one[1] < place.y + place.height
    ]
    assert not others
    assert (width, y) == (pytest.approx(height), pytest.approx(place.y))  # three rows above: the first row
    middle = place.x + place.width / 2
    assert x + width / 2 > middle


def test_roles_are_told_by_colour_and_letter_alone():
    table = tables.profiles(2, 9)
    atlas = lay_out_atlas(table, PAPER, 605)
    said = {(word.text, word.bold) for word in atlas.words}
    fills = {shape.fill for shape in atlas.shapes}
    for row, role in enumerate(table.data["role"]):
        kind = role.split(":")[0].split(" +")[0]
        if kind != "mixed":
            assert (LETTERS[kind], True) in said
            assert ROLE_COLOURS[kind] in fills
            value = table.data["value"][row]  # of another measure than that of the bars
            assert f"{value:.2f}"[1:] not in {text for text, _ in said}
    assert {"mixed (1)", "previous (1)"} <= {word.text for word in atlas.words}
    assert "mean attention" in atlas.caption
