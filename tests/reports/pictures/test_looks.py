"""What a reader must not be misled by: legends, axes, names of any length, intervals beyond what can be."""

import re

import picture_tables as tables
import pytest

from attnprobe.reports.pictures.choosing import picture
from attnprobe.reports.pictures.rows import ends_of
from attnprobe.table.head_table import HeadTable
from attnprobe.table.table import Column


def with_cells(table, **cells):
    return HeadTable(table.title, table.columns, {**table.data, **cells})


def parts(node):
    """Give every mapping of a spec."""
    if isinstance(node, dict):
        yield node
        for one in node.values():
            yield from parts(one)
    elif isinstance(node, list):
        for one in node:
            yield from parts(one)


def legends(drawn):
    return [one["color"]["legend"] for one in parts(drawn.spec) if "legend" in one.get("color", {})]


def width(drawn):
    return float(re.search(r'width="([\d.]+)"', drawn.rendered("svg").decode())[1])


@pytest.mark.parametrize(
    ("number", "said"), [(0.5, [0, 0.25, 0.5]), (0.0, [0]), (-3.0, [-3, 0, 3]), (0.873, [0, 0.44, 0.88])]
)
def test_a_legend_prints_both_ends(number, said):
    table = with_cells(tables.of_heads("entropy"), entropy=[number] * 12, entropy_se=[0.01] * 12)
    assert [one["values"] for one in legends(picture([table]))] == [said]


@pytest.mark.parametrize(
    ("x", "y", "there"),
    [("entropy_in", "entropy_out", True), ("entropy_a", "entropy_b", True), ("previous", "next", False)],
)
def test_equality_is_drawn_only_for_one_measure_on_two_sides(x, y, there):
    """A head may look as much at the token before as at the next: that is no agreement."""
    drawn = picture([tables.of_heads(x, y)], "scatter", [x, y])
    assert ("[4, 3]" in str(drawn.spec)) is there


def test_where_nothing_is_defined_there_is_no_legend():
    table = with_cells(tables.of_heads("entropy"), entropy=[float("nan")] * 12)
    assert legends(picture([table])) == [None]


@pytest.mark.parametrize("small", [1e-300, 1e-5, 1e9])
def test_labels_of_a_legend_differ(small):
    table = with_cells(tables.of_heads("entropy"), entropy=[small] * 6 + [2 * small] * 6)
    drawn = picture([table]).rendered("svg").decode()
    labels = re.findall(r'opacity="1">([^<]+)</text>', drawn[drawn.index("role-legend") :])
    shown = [label for label in labels if re.fullmatch(r"[\d.e+\-\u2212]+", label)]
    assert len(shown) > 1
    assert len(set(shown)) == len(shown)
    assert max(map(len, shown)) < 10


def test_a_long_unit_stands_in_lines():
    columns = [
        Column(one.name, "share of queries with such a key" if one.name == "entropy" else one.unit, one.role)
        for one in tables.of_heads("entropy").columns
    ]
    table = HeadTable("heads", columns, tables.of_heads("entropy").data)
    (legend,) = legends(picture([table]))
    assert legend["title"] == ["share of queries", "with such a key"]
    endless = [Column(one.name, "unit " * 500 if one.unit else "", one.role) for one in columns]
    (legend,) = legends(picture([HeadTable("heads", endless, table.data)]))
    assert len(legend["title"]) == 3


@pytest.mark.parametrize(
    ("make", "kind"), [(lambda: tables.of_heads("entropy"), "heatmap"), (tables.pruning, "curves")]
)
@pytest.mark.slow
def test_endless_names_do_not_widen_a_picture(make, kind):
    table = make()
    long = with_cells(table, model=["m" * 5000] * len(table))
    other = with_cells(table, model=["n" * 5000] * len(table))
    assert width(picture([long], kind, title="t" * 5000)) < 800
    assert width(picture([long, other], kind)) < 900


@pytest.mark.slow
def test_legends_of_endless_names_end_in_dots():
    tables_ = [tables.of_heads("entropy", model=letter * 5000) for letter in "mn"]
    assert width(picture(tables_, "depth")) < 1000


@pytest.mark.parametrize(
    ("values", "unit", "clipped"),
    [
        ([0.0, 1.0, None], "share", True),
        ([0.2], "share of links", True),
        ([0.2, 1.5], "share", False),
        ([-0.1, 0.5], "share", False),
        ([0.2], "nats", False),
        ([None], "share", False),
    ],
)
def test_intervals_of_shares_end_where_shares_do(values, unit, clipped):
    ends = ends_of(values, unit)
    assert (ends["low"].startswith("max(0, "), ends["high"].startswith("min(1, ")) == (clipped, clipped)


def test_axes_of_an_accuracy_end_at_1():
    table = tables.pruning()
    table = with_cells(table, score=[0.99] * len(table), score_se=[0.2] * len(table))
    drawn = picture([table]).rendered("svg").decode()
    ends = re.search(
        r"Y-axis titled 'accuracy \(share\)' for a linear scale with values from ([\d.]+) to ([\d.]+)", drawn
    )
    assert float(ends[2]) == 1


def test_curves_say_what_band_and_bars_are():
    drawn = picture([tables.pruning("a"), tables.pruning("b")]).rendered("svg").decode()
    assert "band: from the lowest to the highest of 2 random orders" in drawn
    assert "bars: 95 % intervals" in drawn
    trained = picture([tables.pruning_over_training()]).rendered("svg").decode()
    assert "band:" not in trained


def test_numbers_of_heads_do_not_touch_in_small_matrices():
    drawn = picture([tables.within_layers(6, 12)])
    axes = {
        one["x"]["field"]: one["x"]["axis"]["values"]
        for one in parts(drawn.spec)
        if one.get("x", {}).get("field") == "one"
    }
    assert axes == {"one": [0, 4, 8]}


@pytest.mark.parametrize("make", [tables.by_layer, tables.over_training])
def test_an_axis_below_the_name_of_its_measure_says_the_unit(make):
    titles = {one["y"]["title"] for one in parts(picture([make()]).spec) if "title" in one.get("y", {})}
    assert titles == {"share"}


def test_a_narrow_map_stands_above_the_spread():
    table = tables.all_pairs(6, 12)
    assert width(picture([table], "map", width=300)) < 340
    assert width(picture([tables.found()], width=260)) < 420
