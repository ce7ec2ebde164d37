"""The picture of roles: its legend says how many heads have each role, and beyond which threshold."""

import re
from html import unescape

import picture_tables as tables
import pytest

from attnprobe.reports.pictures.choosing import draw_picture
from attnprobe.table.head_table import HeadTable


def make(layers=3, heads=4, **cells):
    table = tables.roles(layers, heads)
    return HeadTable(table.title, table.columns, {**table.data, **cells})


def read_legend(table, **how):
    svg = draw_picture([table], **how).rendered("svg").decode()
    words = [unescape(" ".join(one.split())) for one in re.findall(r">([^<>]+)</text", svg)]
    return [one for one in words if re.match(r"[A-Z.] |role \(", one)]


def test_the_legend_counts_heads_and_gives_thresholds():
    roles = ["previous"] * 3 + ["broad"] * 2 + ["syntactic: det", "syntactic: amod"] + ["mixed"] * 5
    measures = ["offset_share"] * 3 + ["effective_share"] * 2 + ["accuracy"] * 2 + [None] * 5
    limits = [0.9] * 3 + [0.6] * 2 + [0.4521, 0.31] + [None] * 5
    found = read_legend(make(role=roles, measure=measures, threshold=limits))
    assert found == [
        "P previous (3): offset share > 0.9",
        "Y syntactic (2): accuracy > 0.31 to 0.452, by head",
        "B broad (2): effective share > 0.6",
        ". mixed (5)",
        "role (heads): threshold of its measure",
    ]
    two = read_legend(
        make(role=roles, measure=[*measures[:3], "one", "other", *measures[5:]], threshold=limits)
    )
    assert "B broad (2): one > 0.6 or other > 0.6" in two


def test_without_thresholds_the_legend_counts_alone():
    found = read_legend(make(threshold=[None] * 12))
    assert "role (heads): threshold of its measure" not in found
    assert any(one.endswith("(2)") for one in found)


@pytest.mark.parametrize(("layers", "heads"), [(3, 4), (12, 12), (24, 16)])
@pytest.mark.parametrize("columns", [1, 2])
def test_the_legend_makes_no_picture_wider(layers, heads, columns):
    long = ["a_measure_with_a_name_as_long_as_those_of_relations"] * (layers * heads)
    drawn = draw_picture([make(layers, heads, measure=long)], columns=columns)
    width = float(re.search(r'width="([\d.]+)"', drawn.rendered("svg").decode())[1])
    plain = draw_picture([make(layers, heads, threshold=[None] * layers * heads)], columns=columns)
    most = {1: 300, 2: 610}[columns]
    assert width <= max(most, float(re.search(r'width="([\d.]+)"', plain.rendered("svg").decode())[1]))
