"""Marks and gaps of heat maps."""

import re

import picture_tables as tables
import pytest

from attnprobe.reports.pictures.choosing import draw_picture
from attnprobe.table.head_table import HeadTable


def rows_of(drawn):
    return [row for rows in drawn.spec["datasets"].values() for row in rows]


def domains(drawn):
    """Give the ends of every scale of colours."""
    found = re.findall(r"'clamp': True, 'domain': \[([^]]+)\], 'interpolate'", str(drawn.spec))
    return [tuple(map(float, one.split(","))) for one in found]


def rects(drawn):
    """Count the cells of a picture: filled ones, and empty ones with a dashed edge."""
    svg = drawn.rendered("svg").decode()
    marks = re.findall(r'<path aria-label="[^"]*layer[^"]*"[^>]*>', svg)
    return sum("stroke-dasharray" not in mark for mark in marks), sum(
        "stroke-dasharray" in mark for mark in marks
    )


def test_layers_go_down_as_on_the_terminal():
    svg = draw_picture([tables.of_heads("entropy", layers=3, heads=1)]).rendered("svg").decode()
    cells = re.findall(r'aria-label="[^"]*layer (\d)[^"]*"[^>]* d="M[\d.-]+,([\d.-]+)h', svg)
    assert [layer for layer, _ in sorted(cells, key=lambda cell: float(cell[1]))] == ["0", "1", "2"]


def test_gaps_are_gaps_and_not_zeros():
    table = tables.of_heads("entropy")
    kept = [row for row in range(12) if row not in (1, 7)]  # two heads are removed
    data = {name: [cells[row] for row in kept] for name, cells in table.data.items()}
    data["entropy"][0], data["entropy"][3] = float("nan"), float("inf")
    drawn = draw_picture([HeadTable("gaps", table.columns, data)])
    values = [row["value"] for row in rows_of(drawn)]
    assert len(values) == 10
    assert values[0] is None
    assert values[3] is None
    assert rects(drawn) == (8, 2)


def test_a_difference_is_marked_by_its_adjusted_p_or_else_by_its_error():
    values = [0.5, -0.5, 0.5, 0.0, None, 0.1]
    table = tables.table(
        "x",
        {**tables.named(6), **tables.places(2, 3)},
        delta=values,
        delta_se=[0.1, 0.1, 0.3, 0.1, 0.1, None],
    )
    drawn = draw_picture([table])
    assert [row["sign"] for row in rows_of(drawn)] == ["+", "\u2212", "", "", "", ""]
    assert "|value| &gt; 1.96 standard errors" in drawn.rendered("svg").decode()
    surely = tables.table(
        "x", {**tables.named(6), **tables.places(2, 3)}, delta=values, delta_se=[1.0] * 6,
        p_adjusted=[0.2, 0.2, 0.04, 0.04, 0.04, 0.049],
    )  # fmt: skip
    drawn = draw_picture([surely])
    assert [row["sign"] for row in rows_of(drawn)] == ["", "", "+", "", "", "+"]
    assert "adjusted p &lt; 0.05" in drawn.rendered("svg").decode()


def test_signed_measures_have_0_in_the_middle():
    def domain(table):
        return domains(draw_picture([table]))[0]

    low, high = domain(tables.of_heads("gain", low=-0.2))
    assert low == -high
    low, high = domain(tables.of_heads("entropy", low=0.9))
    assert low == 0 < high <= 1


def test_kinds_of_attention_are_maps_of_their_own_with_one_scale():
    parts = [tables.of_heads("entropy") for _ in range(3)]
    data = {name: [cell for part in parts for cell in part.data[name]] for name in parts[0].data}
    data["attention"] = [kind for kind in ("encoder", "decoder", "cross") for _ in range(12)]
    columns = [*parts[0].columns, tables.Column("attention", role="key")]
    drawn = draw_picture([HeadTable("t5", columns, data)])
    assert list(dict.fromkeys(row["place"] for row in rows_of(drawn))) == ["encoder", "decoder", "cross"]
    svg = drawn.rendered("svg").decode()
    assert svg.count(">share</text>") == 1  # one legend
    assert all(f">{kind}</text>" in svg for kind in ("encoder", "decoder", "cross"))


@pytest.mark.parametrize("relations", [20])
def test_many_labels_are_parted_by_direction(relations):
    rows = [
        (f"r{r}", side, layer, head)
        for side in ("a_to_b", "b_to_a")
        for r in range(relations)
        for layer in range(2)
        for head in range(2)
    ]
    keys = {
        name: [row[place] for row in rows]
        for place, name in enumerate(("relation", "direction", "layer", "head"))
    }
    table = tables.table("by head", {**tables.named(len(rows)), **keys}, accuracy=tables.numbers(len(rows)))
    drawn = draw_picture([table])
    assert sorted(row["value"] for row in rows_of(drawn)) == sorted(table.data["accuracy"])
    svg = drawn.rendered("svg").decode()
    assert ">accuracy, a to b</text>" in svg
    assert svg.count(">r7</text>") == 2
    assert len(set(domains(drawn))) == 1  # colours say the same in both


def test_measures_of_one_unit_share_a_scale_in_a_picture():
    table = tables.of_heads("previous", "next")
    data = {**table.data, "next": [value / 100 for value in table.data["next"]]}
    one, other = domains(draw_picture([HeadTable("x", table.columns, data)]))
    assert one == other
    assert one[1] >= max(table.data["previous"])


def test_effects_that_are_not_significant_are_pale_and_the_picture_says_so():
    """One example of 60 that changed: it is pale, and the scale is as wide as its interval."""
    rate = 1 / 60
    values, errors = [rate, 0.0, -rate, 0.0], [0.0167, 0.0167, 0.0167, 0.0167]
    keys = {**tables.named(4), **tables.places(2, 2)}
    drawn = draw_picture([tables.table("x", keys, delta=values, delta_se=errors)])
    assert all(row["pale"] for row in rows_of(drawn))
    assert domains(drawn) == [(-0.033, 0.033)]
    svg = drawn.rendered("svg").decode()
    assert "all pale: no head with |value| &gt; 1.96 standard errors" in svg
    assert svg.count('fill-opacity="0.3"') == 4
    assert ">\u22120.033</text>" in svg
    assert ">0.033</text>" in svg
    clear = draw_picture([tables.table("x", keys, delta=values, delta_se=[0.001] * 4)])
    assert [row["pale"] for row in rows_of(clear)] == [False, True, False, True]


def test_a_rank_of_heads_makes_no_map_of_its_own():
    drawn = draw_picture([tables.correlated()], "heatmap", ["disagreement"])
    assert {row["place"] for row in rows_of(drawn)} == {""}
    both = [tables.correlated() for _ in range(2)]
    data = {name: [cell for one in both for cell in one.data[name]] for name in both[0].data}
    data["model"] = ["a"] * 12 + ["b"] * 12
    drawn = draw_picture([HeadTable("x", both[0].columns, data)], "heatmap", ["disagreement"])
    assert {row["place"] for row in rows_of(drawn)} == {"a", "b"}
