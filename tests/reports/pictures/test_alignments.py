"""Error rates of alignments: stars by the adjusted p, names of the lowest, and the same relative place."""

import re

import numpy as np
import picture_tables as tables
import pytest

from attnprobe.reports.pictures.choosing import draw_picture


def rows_of(table, **how):
    return [row for rows in draw_picture([table], **how).spec["datasets"].values() for row in rows]


def test_the_lowest_error_rates_of_each_chart_have_a_name():
    table = tables.aligning()
    rows = rows_of(table)
    for position in ("output", "input"):
        own = [row for row in rows if row["panel"] == position]
        lowest = sorted(own, key=lambda row: row["value"])[:3]
        named = [row for row in own if row["name"]]
        assert {row["name"] for row in named} == {f"L{row['layer']} H{row['head']}" for row in lowest}
    assert {row["place"] for row in rows} == {0.6}
    assert [row["error"] for row in rows] == table.data["aer_se"]


def test_names_in_one_layer_do_not_touch():
    table = tables.aligning(layers=1)
    table.data["aer"][:] = [0.3, 0.301, 0.302, 0.9] * 2
    svg = draw_picture([table], columns=1).rendered("svg").decode()
    found = re.findall(r'translate\([\d.]+,([\d.]+)\)"[^>]*>(L0 H\d)</text>', svg)
    places = sorted(float(at) for at, _ in found[:3])
    assert (np.diff(places) > 8).all()
    rows = [row for row in rows_of(table) if row["panel"] == "output" and row["name"]]
    assert [row["value"] for row in rows] == [0.3, 0.301, 0.302]


def test_a_star_is_the_adjusted_p():
    rows = rows_of(tables.alignments())
    assert [row["star"] for row in rows] == ["*", "", ""]
    assert [row["place"] for row in rows] == [0.6, 0.52, None]
    assert [row["value"] for row in rows] == [0.3, 0.5, None]


@pytest.mark.parametrize("make", [tables.alignments, tables.aligning])
def test_the_picture_says_which_way_is_better(make):
    assert "the lower, the better" in draw_picture([make()]).rendered("svg").decode()
