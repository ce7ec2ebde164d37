"""Interactions: lines between the heads of confirmed pairs, as thick as they interact, and a list of all."""

from dataclasses import replace

import numpy as np
import picture_tables as tables
import pytest

from attnprobe.reports.pictures.choosing import draw_picture
from attnprobe.table.head_table import HeadTable


def drawn(**cells):
    table = tables.interactions()
    return draw_picture([HeadTable(table.title, table.columns, {**table.data, **cells})])


def rows_of(picture):
    return [row for rows in picture.spec["datasets"].values() for row in rows]


def test_the_list_has_every_pair_with_its_interval():
    table = tables.interactions()
    rows = [row for row in rows_of(drawn()) if "proposed" in row]
    for name in ("interaction", "proposed", "p_adjusted"):
        field = {"interaction": "value", "p_adjusted": "p"}.get(name, name)
        assert [row[field] for row in rows] == table.data[name]
    assert [row["high"] - row["value"] for row in rows] == pytest.approx(
        [1.96 * e for e in (0.05, 0.06, 0.05)]
    )
    assert [row["sign"] for row in rows] == [
        "stand in for each other",
        "do less without each other",
        "not significant",
    ]


def test_lines_are_the_confirmed_pairs_from_head_to_head():
    rows = rows_of(drawn())
    lines = {}
    for row in rows:
        if "pair" in row:
            lines.setdefault(row["name"], []).append(row)
    assert list(lines) == ["L0 H0 + L1 H1", "L0 H1 + L1 H0"]
    heads = {(row["x"], row["y"]): row["sure"] for row in rows if "sure" in row and "pair" not in row}
    assert sum(sure is not None for sure in heads.values()) == 5  # one is in two pairs
    assert len(heads) == 3 * 4  # heads that were not tried have a dot
    for some in lines.values():
        assert [row["order"] for row in some] == list(range(len(some)))
        ends = [(some[place]["x"], some[place]["y"]) for place in (0, -1)]
        assert all(heads[end] for end in ends)
    assert sum(filter(None, heads.values())) == 4


def test_lines_are_as_thick_as_pairs_interact():
    rows = [row for row in rows_of(drawn()) if row.get("order") == 0]
    thick = {row["interaction"]: row["thick"] for row in rows}
    assert thick[0.4] == 5
    assert thick[-0.3] == pytest.approx(1.2 + 3.8 * 0.75)
    svg = drawn().rendered("svg").decode()
    assert 'stroke-width="5"' in svg
    assert 'stroke-dasharray="4,2"' in svg


def test_without_a_confirmed_pair_there_is_the_list_alone():
    rows = rows_of(drawn(p_adjusted=[0.5, 1.0, 0.8]))
    assert not any("pair" in row for row in rows)
    assert {row["sign"] for row in rows} == {"not significant"}


def test_beside_a_decoder_layers_are_those_of_a_kind_of_attention():
    table = tables.interactions()
    keys = {f"attention_{side}": ["encoder", "cross", "encoder"] for side in "ab"}
    both = tables.table("t", {**{name: table.data[name] for name in table.data if name in (
        "model", "dataset", "layer_a", "head_a", "layer_b", "head_b")}, **keys},
        proposed=table.data["proposed"], interaction=table.data["interaction"],
        interaction_se=table.data["interaction_se"], p_adjusted=[0.001] * 3)  # fmt: skip
    svg = draw_picture([both]).rendered("svg").decode()
    places = [
        svg.index(f">{name}</text>") for name in ("encoder 0", "encoder 1", "encoder 2", "cross 0", "cross 1")
    ]
    assert places == sorted(places)


def test_every_layer_and_head_up_to_the_last_has_its_place():
    """Pairs lie in layers 0, 1 and 5 of heads 0, 1 and 7; the record may know of more."""
    table = tables.interactions(6, 8)
    places = {(row["x"], row["y"]): row["sure"] for row in rows_of(draw_picture([table])) if "sure" in row}
    for record, layers, heads in ({}, 6, 8), ({"architecture": {"layers": 12, "heads": 9}}, 12, 9):
        drawn = draw_picture([replace(table, provenance=record)])
        down, over = (find_labels(drawn.spec, axis) for axis in ("y", "x"))
        assert list(down) == [str(layer) for layer in range(layers)]
        assert set(over) <= {str(head) for head in range(heads)}
        assert len(set(np.round(np.diff(list(down.values())), 6))) == 1
        svg = drawn.rendered("svg").decode()
        assert ">layer</text>" in svg
        assert ">head</text>" in svg
    assert len(places) == 6 * 8
    assert sum(sure is not None for sure in places.values()) == 5


@pytest.mark.parametrize("layer", [-1, 10**12, "last"])
def test_what_is_no_layer_has_a_place_beside_those_that_there_are(layer):
    picture = drawn(layer_b=[1, 1, layer])
    assert set(find_labels(picture.spec, "y")) == {"0", "1", str(layer)}
    assert picture.rendered("svg")


def find_labels(spec, axis):
    """Give the places of the numbers that stand beside the map."""
    rows = [row for rows in spec["datasets"].values() for row in rows if row.keys() == {"label", axis}]
    return {row["label"]: row[axis] for row in rows}


def test_it_says_why_a_bar_that_is_clear_of_0_may_be_grey():
    def remarks(**cells):
        return " ".join(say(drawn(**cells)))

    said = remarks()
    assert "filled: p < 0.05, adjusted for the 3 pairs that were tried" in said
    assert "a grey bar" not in said  # the interval of the third pair holds 0
    assert (
        "predictions from gradients, on the other half of the texts; of these, the largest in size were tried"
        in said
    )
    assert "; a grey bar clear of 0 is significant by itself alone" in remarks(p_adjusted=[0.001, 0.06, 0.8])
    assert "grey ticks" not in remarks(proposed=[None] * 3)


def test_it_says_what_signs_mean_and_which_pairs_were_tried():
    said = " ".join(say(drawn()))
    assert "how much the loss rises without a head, or without both" in said
    assert "above 0, removing both costs more than the two removals add up to" in said
    assert "\u0394L(both) \u2212 \u0394L(one) \u2212 \u0394L(other)" in drawn().rendered("svg").decode()
    assert "thicker where they interact more" in said
    alike = " ".join(say(drawn(interaction=[0.4, -0.4, 0.01])))
    assert "lines: pairs with adjusted p < 0.05" in alike
    assert "thicker" not in alike


def say(picture):
    """Give the lines of all titles."""
    return [
        line for lines in find_titles(picture.spec) for line in ([lines] if isinstance(lines, str) else lines)
    ]


def find_titles(node):
    if isinstance(node, dict):
        if isinstance(node.get("title"), dict) and node["title"].get("text"):
            yield node["title"]["text"]
        for part in node.values():
            yield from find_titles(part)
    elif isinstance(node, list):
        for part in node:
            yield from find_titles(part)


@pytest.mark.parametrize(
    ("p", "signs"),
    [
        ([0.001, 0.002, 0.8], ["stand in for each other", "do less without each other", "not significant"]),
        ([0.001, 0.2, 0.8], ["stand in for each other", "not significant"]),
        ([0.2, 0.2, 0.8], ["not significant"]),
    ],
)
def test_the_legend_has_the_marks_that_there_are(p, signs):
    picture = drawn(p_adjusted=p)
    svg = picture.rendered("svg").decode()
    there = [sign for sign in ("stand in for each other", "do less without each other", "not significant")
             if f">{sign}</text>" in svg]  # fmt: skip
    assert there == signs


def test_a_curve_leaves_the_heads_between_its_ends_free():
    from attnprobe.reports.pictures.interactions import _bend

    points = np.array(_bend((0.0, 10.0), (100.0, 10.0)))
    assert points[0].tolist() == [0, 10]
    assert points[-1].tolist() == [100, 10]
    assert abs(points[len(points) // 2, 1] - 10) > 8
