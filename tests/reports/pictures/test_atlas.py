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
from attnprobe.reports.profile_words import EVIDENCE, describe_cell
from attnprobe.reports.report_page.atlas import draw_atlas as draw_report_atlas
from attnprobe.reports.report_page.measures import collect_heads
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


def test_marks_stand_at_the_sides():
    """The first token left, other special tokens right, what lies beyond pale between them and the bars."""
    table = tables.profiles(1, 2, roles=False)
    for name in ("first", "special", "before", "after"):
        table.data[f"profile_{name}"][:] = [0.04, 0.16]
    table.data["profile_0"][:] = [1.0, 1.0]
    atlas = lay_out_atlas(table, PAPER, 605)
    for place in atlas.places:
        mine = [
            (x, height)
            for opacity in (1.0, 0.45)
            for x, y, _, height in rectangles(atlas, PAPER.ink, opacity)
            if place.x <= x < place.x + place.width and y < place.y + place.height
        ]
        dark, pale = sorted(mine[:2]), sorted(mine[2:])
        full = max(outlines(atlas)[place.row])
        expected = math.sqrt([0.04, 0.16][place.row]) * full
        assert [height for _, height in dark + pale] == pytest.approx([expected] * 4, abs=0.02)
        assert dark[0][0] == pytest.approx(place.x, abs=0.01)
        assert dark[0][0] < pale[0][0] < place.x + place.width / 2 < pale[1][0] < dark[1][0]


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


def test_entropy_is_a_part_of_the_line_below():
    table = tables.profiles(1, 2, roles=False)
    table.data["entropy_normalized"][:] = [0.25, 1.0]
    atlas = lay_out_atlas(table, PAPER, 605)
    ends = {round(place.y + place.height - 2.0, 2) for place in atlas.places}
    widths = [width for _, y, width, _ in rectangles(atlas, PAPER.muted) if y in ends]
    assert widths == pytest.approx([0.25 * atlas.places[0].width, atlas.places[1].width], abs=0.01)


def test_roles_are_told_by_colour_letter_and_evidence():
    table = tables.profiles(2, 9)
    atlas = lay_out_atlas(table, PAPER, 605)
    said = {(word.text, word.bold) for word in atlas.words}
    fills = {shape.fill for shape in atlas.shapes}
    for row, role in enumerate(table.data["role"]):
        kind = role.split(":")[0].split(" +")[0]
        if kind != "mixed":
            assert (LETTERS[kind], True) in said
            assert ROLE_COLOURS[kind] in fills
            value = table.data["value"][row]
            assert (f"{value:.2f}"[1:] if value < 0.995 else "1.0", False) in said
    words = [word.text for word in atlas.words]
    for kind, value in EVIDENCE.items():
        assert any(word.startswith(f"{kind} (") and word.endswith(f"): {value}") for word in words)
    assert "mixed (1)" in words
    assert "see the list of roles" in atlas.caption
    narrow = lay_out_atlas(table, PAPER, 240)
    assert "Beside a letter" not in narrow.caption
    assert "previous (1)" in {word.text for word in narrow.words}


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


def test_it_fits_a_page():
    """24 layers of 16 heads at two columns; and no picture is wider than it was asked to be."""
    for (layers, heads), width in (((6, 12), 293), ((12, 12), 605), ((24, 16), 605), ((24, 16), 293)):
        atlas = lay_out_atlas(tables.profiles(layers, heads), PAPER, width)
        assert atlas.width <= width + 1
        assert atlas.height <= 864


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


def test_a_head_is_said_in_a_sentence():
    table = tables.profiles(2, 4)
    table.data["role"][:3] = ["previous", "syntactic: det", None]
    table.data["value"][:3], table.data["value_se"][:3] = [0.91234, 0.5, None], [0.0213, None, None]
    svg = draw_picture([table], "atlas").rendered("svg").decode()
    said = re.findall(r'aria-label="(layer [^"]*)"', svg)
    assert len(said) == len(table)
    assert said[0].startswith("layer 0, head 0: previous token, 0.912 \u00b1 0.021; most attention ")
    assert said[1].startswith("layer 0, head 1: syntactic: det, 0.5; most attention ")
    assert said[2].startswith("layer 0, head 2: mixed; most attention ")
    names = [name for name, _ in list_offsets(patches=False)]
    for row, one in enumerate(said):
        values = [table.data[f"profile_{name}"][row] for name in names]
        name = names[int(np.argmax(values))]
        assert f" at offset {int(name):+d}".replace("+0", "0") in one
        assert one.endswith(f": {max(values):.3f} \u00b1 0.010")


def test_what_is_not_at_an_offset_is_said_too():
    rows = 4
    table = tables.profiles(1, rows, roles=False)
    for row, name in enumerate(("first", "special", "before")):
        table.data[f"profile_{name}"][row] = 0.99
    for name, _ in list_offsets(patches=False):
        table.data[f"profile_{name}"][rows - 1] = None
    assert [describe_cell(table, row) for row in range(rows)] == [
        "most attention to the first token: 0.990 \u00b1 0.010",
        "most attention to special tokens but the first: 0.990 \u00b1 0.010",
        "most attention more than 10 tokens before: 0.990 \u00b1 0.010",
        "undefined",
    ]
    patches = tables.profiles(1, 1, patches=True, roles=False)
    patches.data["profile_-1_0"][0] = 1.0
    assert describe_cell(patches, 0).startswith("most attention at rows -1, columns 0: 1.000 ")


def test_what_numbers_are_is_in_the_caption_where_the_list_would_leave_the_page():
    atlas = lay_out_atlas(tables.profiles(24, 16), PAPER, 605)
    assert (
        "Beside a letter: the value of the role's evidence; of gold links, the share found." in atlas.caption
    )
    assert not any(": queries" in word.text for word in atlas.words)


@pytest.mark.parametrize("values", [(1.0, 0.1), (0.02, 0.002)])
def test_a_scale_beside_the_first_row_has_the_heights_of_bars(values):
    """Bars of the two numbers of the scale end where its ticks are."""
    table = tables.profiles(2, 2, roles=False)
    for name in (one.removesuffix("_se") for one in table.data if one.startswith("profile_")):
        table.data[name][:] = [0.0] * 4
    table.data["profile_1"][:2] = values
    atlas = lay_out_atlas(table, PAPER, 605)
    heights = [max(outlines(atlas)[row]) for row in (0, 1)]
    right = max(place.x + place.width for place in atlas.places)
    ticks = [(y, width) for x, y, width, _ in rectangles(atlas, PAPER.muted) if x > right]
    ((top, _), *marks) = sorted(ticks, key=lambda one: one[1])  # the line is thinner than the ticks
    base = atlas.places[0].y + heights[0]
    assert top == pytest.approx(base - heights[0])
    assert sorted(base - y - 0.3 for y, _ in marks) == pytest.approx(sorted(heights), abs=0.02)
    (named,) = [word for word in atlas.words if word.text == "attention"]
    assert named.anchor == "end"
    assert right < named.x <= atlas.width
    labels = [word for word in atlas.words if word.x > right and word is not named]
    assert [float(word.text) for word in sorted(labels, key=lambda one: one.y)] == list(values)
    assert max(word.x + 0.55 * word.size * len(word.text) for word in labels) <= atlas.width


def test_what_numbers_are_is_in_the_caption_where_lines_would_leave_the_picture():
    """Two heads are narrower than a line of the list; in a wide picture it has room."""
    narrow, wide = (lay_out_atlas(tables.profiles(1, 2), PAPER, width) for width in (150, 605))
    assert {"previous (1)", "next (1)"} <= {word.text for word in narrow.words}
    assert "of gold links, the share found." in narrow.caption
    assert f"previous (1): {EVIDENCE['previous']}" in {word.text for word in wide.words}
    assert "see the list of roles" in wide.caption


def name_parts(table):
    """Name the parts of a cell, from left to right, of the columns of a table that have numbers."""
    known = [
        name.removeprefix("profile_")
        for name, cells in table.data.items()
        if name.startswith("profile_") and not name.endswith("_se") and not np.isnan(cells).all()
    ]
    offsets = [int(name) for name in known if name.removeprefix("-").isdigit()]
    words = {"first": "the first token", "special": "to other special tokens"}
    lowest, highest = min(offsets), max(offsets)
    words |= {
        "before": f"pale, to all tokens more than {-lowest} before",
        "after": f"pale, to all tokens more than {highest} after",
    }
    own = f"to ordinary tokens at offsets {lowest} to {f'+{highest}' if highest else 0}, with a line at 0"
    middle = [words["before"], own, *([words["after"]] if "after" in known else [])]
    parts = "; ".join([words["first"], *middle, words["special"]])
    return f"{parts}. Heights are square roots of attention"


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("roles", [False, True])
@pytest.mark.parametrize("entropy", [False, True])
def test_a_caption_says_what_a_cell_of_this_table_has(causal, roles, entropy):
    table = tables.profiles(2, 4, causal=causal, roles=roles)
    if not entropy:
        columns = [column for column in table.columns if column.name != "entropy_normalized"]
        data = {column.name: table.data[column.name] for column in columns}
        table = HeadTable(table.title, columns, data)
    atlas = lay_out_atlas(table, PAPER, 605)
    wanted = f"From left to right: mean attention to {name_parts(table)}."
    wanted += " Below: entropy over its largest value." * entropy
    wanted += " Beside a letter: see the list of roles." * roles
    assert atlas.caption == wanted
    assert bool(rectangles(atlas, PAPER.grid)) is entropy  # the line that is explained is there
    shown = [word.text for word in atlas.words if word.fill == PAPER.muted]
    assert wanted.replace(" ", "") in "".join(shown).replace(" ", "")
    assert draw_picture([table], "atlas").rendered("svg").decode().count("From left to right") >= 1


def test_a_caption_of_an_image_says_how_many_steps_of_patches_there_are():
    table = tables.profiles(1, 2, patches=True, roles=False)
    found = [re.fullmatch(r"profile_(-?\d+)_(-?\d+)", name) for name in table.data]
    steps = [(int(one[1]), int(one[2])) for one in found if one]
    most = max(max(map(abs, one)) for one in steps)
    assert len(steps) == (2 * most + 1) ** 2
    largest = max(max(table.data[f"profile_{down}_{right}"]) for down, right in steps)
    black = next(top for top in (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0) if top >= largest)
    assert lay_out_atlas(table, PAPER, 605).caption == (
        "From left to right: mean attention to a leading special token; as squares, to patches up to "
        f"{most} rows and columns away, the own one framed; pale, to all further away; to other special "
        f"tokens. Black is {black:g}, and shades are square roots, as heights are. "
        "Below: entropy over its largest value."
    )


def test_a_report_says_of_its_atlas_what_the_picture_says():
    """The caption, the finding, and of each head its sentence, all computed anew from the table."""
    table = tables.profiles(2, 4)
    table.data["role"][:], table.data["value"][:] = (
        ["previous", "next", *["mixed"] * 6],
        [0.91, 0.84] + [0.1] * 6,
    )
    heads = collect_heads({"census": table})
    drawing, words, stated = draw_report_atlas(heads, {"census": table})
    assert words == (
        f"From left to right: mean attention to {name_parts(table)}. Below: entropy over its largest value. "
        "Beside a letter: see the list of roles."
    )
    assert words not in drawing  # it stands beside
    assert stated == "2 of 8 heads look at a neighbour: L0 H0 previous 0.91, L0 H1 next 0.84"
    labels = dict(re.findall(r'data-h="(\d+)"[^>]* aria-label="([^"]*)"', drawing))
    assert len(labels) == len(table)
    for row, label in labels.items():
        layer, head = divmod(int(row), 4)
        assert label == f"layer {layer}, head {head}: {describe_cell(table, int(row))}"
    assert draw_report_atlas(heads, {"census": tables.of_heads("entropy")}) is None
