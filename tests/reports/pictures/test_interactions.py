"""Interactions: lines between the heads of confirmed pairs, as thick as they interact, and a list of all."""

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
    assert list(lines) == ["0-0 + 1-1", "0-1 + 1-0"]
    heads = {(row["x"], row["y"]): row["sure"] for row in rows if "sure" in row and "pair" not in row}
    assert len(heads) == 5  # one is in two pairs
    for some in lines.values():
        assert [row["order"] for row in some] == list(range(len(some)))
        ends = [(some[place]["x"], some[place]["y"]) for place in (0, -1)]
        assert all(heads[end] for end in ends)
    assert sum(heads.values()) == 4


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


def test_a_curve_leaves_the_heads_between_its_ends_free():
    from attnprobe.reports.pictures.interactions import _bend

    points = np.array(_bend((0.0, 10.0), (100.0, 10.0)))
    assert points[0].tolist() == [0, 10]
    assert points[-1].tolist() == [100, 10]
    assert abs(points[len(points) // 2, 1] - 10) > 8
