"""The head atlas: what is drawn are the numbers of the table, each at its place."""

import math
import re
from dataclasses import replace

import numpy as np
import picture_tables as tables
import pytest

from attnprobe.errors import AttnprobeError
from attnprobe.reports.atlas import lay_out_atlas
from attnprobe.reports.pictures.choosing import draw_picture, list_kinds
from attnprobe.reports.profile import read_profile
from attnprobe.reports.theme import ROLE_COLOURS, THEMES
from attnprobe.table.head_table import HeadTable
from attnprobe.table.naming import LETTERS, list_offsets
from attnprobe.table.table import Column

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


def test_roles_come_from_a_table_beside():
    whole = tables.profiles()
    columns = [column for column in whole.columns if column.name not in {"role", "value", "value_se"}]
    plain = HeadTable(whole.title, columns, {column.name: whole.data[column.name] for column in columns})
    beside = tables.roles()
    drawn = draw_picture([beside, plain], "atlas")
    (rows,) = [rows for rows in drawn.spec["datasets"].values() if any("role" in row for row in rows)]
    assert [row["role"] for row in rows] == beside.data["role"]
    assert [row["profile_-1"] for row in rows] == whole.data["profile_-1"]
    with pytest.raises(AttnprobeError, match="2 of these tables have it"):
        draw_picture([plain, plain], "atlas")
    with pytest.raises(AttnprobeError, match="none of these tables has it"):
        draw_picture([beside, tables.of_heads("entropy")], "atlas")


def test_without_its_numbers_it_says_how_to_measure_them():
    with pytest.raises(AttnprobeError, match=r"`attnprobe census m -d DATA --statistics census,profile -o"):
        draw_picture([tables.of_heads("entropy")], "atlas")
    table = tables.of_heads("entropy", dataset="embedded", model="a b")
    with pytest.raises(AttnprobeError, match=r"`attnprobe census 'a b' --statistics census,profile -o"):
        draw_picture([table], "atlas")


def test_beside_a_decoder_cross_attention_has_its_sinks_alone():
    parts = [tables.profiles(2, 3, roles=False) for _ in range(2)]
    for name, _ in list_offsets(patches=False):
        if name not in {"first", "special"}:
            parts[1].data[f"profile_{name}"][:] = [math.nan] * 6
    data = {name: [cell for part in parts for cell in part.data[name]] for name in parts[0].data}
    kinds = ["encoder"] * 6 + ["cross"] * 6
    columns = [Column("attention", role="key"), *parts[0].columns]
    table = replace(parts[0], columns=columns, data={"attention": kinds, **data})
    atlas = lay_out_atlas(table, PAPER, 605)
    assert outlines(atlas).keys() == set(range(6))
    assert len(atlas.places) == 12
    assert {"encoder", "cross"} <= {word.text for word in atlas.words}
    assert atlas.places[6].y > atlas.places[5].y + atlas.places[5].height


def test_a_table_of_nothing_but_sinks_is_no_atlas():
    table = tables.profiles(1, 2)
    for name, _ in list_offsets(patches=False):
        if name not in {"first", "special"}:
            table.data[f"profile_{name}"][:] = [math.nan] * 2
    assert "atlas" not in list_kinds(table)


def test_shades_have_a_scale_of_their_own():
    """What lies beyond is most of an image, and would leave its squares pale."""
    table = tables.profiles(1, 1, patches=True, roles=False)
    for name, _ in list_offsets(patches=True):
        table.data[f"profile_{name}"][:] = [0.0]
    table.data["profile_0_0"][:], table.data["profile_1_0"][:] = [0.02], [0.005]
    table.data["profile_beyond"][:] = [0.9]
    atlas = lay_out_atlas(table, PAPER, 605)
    assert "Black is 0.02, and shades are square roots, as heights are." in atlas.caption
    assert [word.text for word in atlas.words if word.text in {"1", ".1"}] == ["1", ".1"]
    shades = {shape.opacity for shape in atlas.shapes if shape.fill == PAPER.ink}
    assert shades == {0.45, 1.0, 0.5}  # what lies beyond; all of 0.02; the root of a quarter of it


def test_attention_weighted_by_norm_has_an_atlas_too():
    table = tables.profiles(roles=False)
    names = {
        column.name: re.sub(r"^(profile_.+?)(_se)?$", r"\1_norm\2", column.name) for column in table.columns
    }
    columns = [replace(column, name=names[column.name]) for column in table.columns]
    by_norm = HeadTable(table.title, columns, {names[name]: cells for name, cells in table.data.items()})
    assert "profile_-1" not in by_norm.data
    assert lay_out_atlas(by_norm, PAPER, 605) == lay_out_atlas(table, PAPER, 605)
