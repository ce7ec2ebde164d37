"""What a reader must not be misled by: legends, axes, names of any length, intervals beyond what can be."""

import itertools
import math
import re
from dataclasses import replace
from xml.etree.ElementTree import fromstring

import numpy as np
import picture_tables as tables
import pytest

from attnprobe.errors import AttnprobeError
from attnprobe.reports.columns import bound_interval
from attnprobe.reports.pictures.choosing import draw_picture
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
    assert [one["values"] for one in legends(draw_picture([table]))] == [said]


@pytest.mark.parametrize(
    ("x", "y", "there"),
    [("entropy_in", "entropy_out", True), ("entropy_a", "entropy_b", True), ("previous", "next", False)],
)
def test_equality_is_drawn_only_for_one_measure_on_two_sides(x, y, there):
    """A head may look as much at the token before as at the next: that is no agreement."""
    drawn = draw_picture([tables.of_heads(x, y)], "scatter", [x, y])
    assert ("[4, 3]" in str(drawn.spec)) is there


def test_where_nothing_is_defined_there_is_no_legend():
    table = with_cells(tables.of_heads("entropy"), entropy=[float("nan")] * 12)
    assert legends(draw_picture([table])) == [None]


@pytest.mark.parametrize("small", [1e-300, 1e-5, 1e9])
def test_labels_of_a_legend_differ(small):
    table = with_cells(tables.of_heads("entropy"), entropy=[small] * 6 + [2 * small] * 6)
    drawn = draw_picture([table]).rendered("svg").decode()
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
    (legend,) = legends(draw_picture([table]))
    assert legend["title"] == ["share of queries", "with such a key"]
    endless = [Column(one.name, "unit " * 500 if one.unit else "", one.role) for one in columns]
    (legend,) = legends(draw_picture([HeadTable("heads", endless, table.data)]))
    assert len(legend["title"]) == 3


@pytest.mark.parametrize(
    ("make", "kind"), [(lambda: tables.of_heads("entropy"), "heatmap"), (tables.pruning, "curves")]
)
@pytest.mark.exhaustive
def test_endless_names_do_not_widen_a_picture(make, kind):
    table = make()
    long = with_cells(table, model=["m" * 5000] * len(table))
    other = with_cells(table, model=["n" * 5000] * len(table))
    assert width(draw_picture([long], kind, title="t" * 5000)) < 800
    assert width(draw_picture([long, other], kind)) < 900


@pytest.mark.slow
def test_legends_of_endless_names_end_in_dots():
    tables_ = [tables.of_heads("entropy", model=letter * 5000) for letter in "mn"]
    assert width(draw_picture(tables_, "depth")) < 1000


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
    ends = bound_interval(values, unit)
    assert (ends["low"].startswith("max(0, "), ends["high"].startswith("min(1, ")) == (clipped, clipped)


def test_axes_of_an_accuracy_end_at_1():
    table = tables.pruning()
    table = with_cells(table, score=[0.99] * len(table), score_se=[0.2] * len(table))
    drawn = draw_picture([table]).rendered("svg").decode()
    ends = re.search(
        r"Y-axis titled 'accuracy \(share\)' for a linear scale with values from ([\d.]+) to ([\d.]+)", drawn
    )
    assert float(ends[2]) == 1


def test_curves_say_what_band_and_bars_are():
    drawn = draw_picture([tables.pruning("a"), tables.pruning("b")]).rendered("svg").decode()
    assert "grey lines: 2 random orders" in drawn
    assert "band: from the lowest to the highest of these" in drawn
    assert "bars: 95 % intervals" in drawn
    trained = draw_picture([tables.pruning_over_training()]).rendered("svg").decode()
    assert "band:" not in trained


def test_a_line_is_at_the_share_of_the_most_frequent_label_of_accuracies_alone():
    table = tables.pruning()
    columns = [*table.columns, Column("majority", "share")]
    searched = HeadTable(table.title, columns, {**table.data, "majority": [0.5065] * 15})
    picture = draw_picture([searched])
    assert [one["y"]["datum"] for one in parts(picture.spec) if "datum" in one.get("y", {})] == [0.5065]
    assert (
        "dashes: majority class, the score of always naming the most frequent label"
        in picture.rendered("svg").decode()
    )
    searched.data["metric"][:] = ["loss"] * 15
    for other in (searched, table):
        assert not [one for one in parts(draw_picture([other]).spec) if "datum" in one.get("y", {})]
        assert "dashes" not in draw_picture([other]).rendered("svg").decode()


def test_numbers_of_heads_do_not_touch_in_small_matrices():
    drawn = draw_picture([tables.within_layers(6, 12)])
    axes = {
        one["x"]["field"]: one["x"]["axis"]["values"]
        for one in parts(drawn.spec)
        if one.get("x", {}).get("field") == "one"
    }
    assert axes == {"one": [0, 4, 8]}


@pytest.mark.parametrize("make", [tables.by_layer, tables.over_training])
def test_an_axis_below_the_name_of_its_measure_says_the_unit(make):
    titles = {one["y"]["title"] for one in parts(draw_picture([make()]).spec) if "title" in one.get("y", {})}
    assert titles == {"share"}


def test_a_narrow_map_stands_above_the_spread():
    table = tables.all_pairs(6, 12)
    assert width(draw_picture([table], "map", width=300)) < 340
    assert width(draw_picture([tables.found()], width=260)) < 420


def test_a_settling_order_fits_one_column():
    """Names are whole, steps that lie near each other leave their ticks out, and titles stand in lines."""
    steps = [1, 2, 4, 8, 512, 143_000]
    names = ["attention_to_previous_token_shuffled", "entropy"]
    keys = {
        "model": [f"m{step}" for _ in names for step in steps],
        "dataset": ["d"] * 12,
        "step": steps * 2,
        "measure": [name for name in names for _ in steps],
    }
    columns = ("spearman_last", "kendall_last", "spearman_previous", "kendall_previous")
    title = "how the order of heads settles over the training of a small model"
    table = tables.table(title, keys, **{name: tables.numbers(12) for name in columns})
    drawn = draw_picture([table], width=336)
    svg = drawn.rendered("svg").decode()
    assert width(drawn) < 400
    assert ">attention to previous token shuffled</text>" in svg
    assert "".join(drawn.spec["title"]["text"]).replace(" ", "") == title.replace(" ", "")
    ends = tick_boxes(svg)
    assert len(ends) > 3
    assert all(one[1] <= other[0] for one, other in itertools.pairwise(ends))
    sizes = [one["height"] for one in parts(drawn.spec) if isinstance(one.get("height"), int)]
    assert all(size > 0.6 * 12 * len("rank correlation") for size in sizes)


def tick_boxes(svg):
    """Give left and right end of each label of a horizontal axis of steps, some pixels wide a letter."""
    axis = svg[svg.index("titled 'training step") :].partition("role-axis-title")[0]
    found = re.findall(r'<text text-anchor="(\w+)" transform="translate\(([\d.]+),[^>]*>([^<]+)</text>', axis)
    boxes = []
    for anchor, at, said in found:
        wide = 6.1 * len(said)
        left = float(at) - {"start": 0, "middle": wide / 2, "end": wide}[anchor]
        boxes.append((left, left + wide))
    return sorted(boxes)


@pytest.mark.parametrize("kind", ["heatmap", "depth"])
def test_a_threshold_is_no_measure(kind):
    """Nor is the value of what another column names."""
    with pytest.raises(AttnprobeError, match="name one with --measure"):
        draw_picture([tables.roles()], kind)
    stable = tables.roles()
    columns = [*stable.columns, Column("stability", "share")]
    drawn = draw_picture([HeadTable("x", columns, {**stable.data, "stability": [0.9] * 12})], kind)
    assert "threshold" not in str(drawn.spec)
    assert draw_picture([tables.roles()], kind, ["value"]).kind == kind


@pytest.mark.parametrize(("layers", "heads", "most"), [(2, 3, 6), (6, 12, 12)])
def test_names_on_a_map_begin_at_the_farthest_and_do_not_touch(layers, heads, most):
    drawn = draw_picture([tables.all_pairs(layers, heads)], "map", columns=1)
    every = [*drawn.spec.get("datasets", {}).values()]
    every += [part["values"] for part in parts(drawn.spec) if isinstance(part.get("values"), list)]
    rows = next(values for values in every if "named" in str(values[0]))
    assert len(rows) == layers * heads
    points = np.array([[row["x"], row["y"]] for row in rows])
    apart = np.hypot(*(points - points.mean(0)).T)
    named = np.array([row["named"] for row in rows])
    assert named[apart.argmax()]
    assert 1 < named.sum() <= most
    svg = drawn.rendered("svg").decode()
    assert svg.count("L0 H0</text>") == named[0]


def read_map(table, **how):
    """Give the words above a map, its heads, and the lines that join them."""
    drawn = draw_picture([table], "map", **how)
    (words,) = {
        f"{one['text']} {' '.join(one['subtitle'])}"
        for one in parts(drawn.spec)
        if "stress" in str(one.get("subtitle"))
    }
    rows = [row for some in drawn.spec["datasets"].values() for row in some]
    return words, [row for row in rows if "named" in row], [row for row in rows if "near" in row]


def test_a_map_of_poor_stress_draws_what_is_exact():
    """From each head a line goes to the one at the least distance, thick from where it begins."""
    flat, bad = tables.all_pairs(2, 3), tables.all_pairs(4, 8)
    places = np.random.default_rng(1).normal(size=(6, 2))
    one, other = np.triu_indices(6, 1)
    flat.data["jsd"][:] = (0.01 * np.square(places[one] - places[other]).sum(1)).tolist()
    bad.data["jsd"][:] = np.random.default_rng(0).uniform(0.2, 0.21, len(bad)).tolist()
    words, _, lines = read_map(flat)
    assert "similar heads lie together" in words
    assert "poor" not in words
    assert not lines
    words, heads, lines = read_map(bad)
    assert "similar" not in words
    assert "do not read distances off the places of heads: stress 0.42, poor" in words
    names = [f"L{row['layer']} H{row['head']}" for row in heads]
    apart = {(one, one): math.inf for one in names}
    columns = (bad.data[name] for name in ("layer_a", "head_a", "layer_b", "head_b", "jsd"))
    for a, b, c, d, jsd in zip(*columns, strict=True):
        apart[f"L{a} H{b}", f"L{c} H{d}"] = apart[f"L{c} H{d}", f"L{a} H{b}"] = math.sqrt(jsd)
    nearest = {one: min(names, key=lambda other: apart[one, other]) for one in names}
    assert {row["near"]: row["far"] for row in lines} == nearest
    places = {name: (row["x"], row["y"]) for name, row in zip(names, heads, strict=True)}
    for row in lines:
        assert row["distance"] == pytest.approx(apart[row["near"], row["far"]])
        assert (row["x_near"], row["y_near"]) == places[row["near"]]
        assert (row["x_far"], row["y_far"]) == places[row["far"]]
        half = np.mean([places[row["near"]], places[row["far"]]], 0)
        assert (row["x_half"], row["y_half"]) == pytest.approx(tuple(half))
    same = sum(one.split()[0] == other.split()[0] for one, other in nearest.items())
    assert f"for {same} of 32 heads, that is in the same layer" in words


def find_heights(drawn):
    """Give the height of each text of a picture, by its first line."""
    found = {}

    def walk(node, y):
        for shift in re.findall(r"translate\([-\d.e]+,([-\d.e]+)\)", node.get("transform", "")):
            y += float(shift)
        if node.tag.endswith("}text"):
            found["".join(node.itertext())] = y
            for line in node:
                found[line.text] = y
        for child in node:
            walk(child, y)

    walk(fromstring(drawn.rendered("svg").decode()), 0.0)
    return found


def with_titles(titles):
    """Give a table of heads whose measures have these titles, by their names."""
    table = tables.of_heads(*titles)
    columns = [replace(one, title=titles.get(one.name, "")) for one in table.columns]
    return HeadTable("rank of heads", columns, table.data)


def test_titles_of_maps_in_a_row_begin_at_one_height():
    titles = {"logit_rank_share": "share of the width", "qk_top_half": "share of the weights"}
    table = with_titles(titles)
    drawn = draw_picture([table], width=600)
    heights = find_heights(drawn)
    tops = {
        start: y
        for text, y in heights.items()
        for start in ("Attention", "The larger")
        if text.startswith(start)
    }
    assert tops["Attention"] == pytest.approx(tops["The larger"], abs=1)
    lines = {
        len(one["subtitle"]) + 1 if isinstance(one["text"], str) else len(one["subtitle"]) + len(one["text"])
        for one in parts(drawn.spec)
        if isinstance(one.get("text"), list | str) and "subtitle" in one and "rank" not in one["text"]
    }
    assert len(lines) == 2


def test_a_legend_of_a_share_says_of_what_and_begins_at_the_least_possible():
    table = with_titles({"logit_rank_share": "share of the width", "qk_top_half": "share of the weights"})
    table = with_cells(table, qk_top_half=np.linspace(0.97, 1, 12).tolist(), qk_top_half_se=[None] * 12)
    drawn = draw_picture([table])
    found = {" ".join(one["title"]): one["values"] for one in legends(drawn)}
    assert found["share of the weights"] == [0.5, 0.75, 1.0]
    assert found["share of the width"][0] == 0
    assert "0.5, the least possible: all singular values alike" in drawn.rendered("svg").decode()
