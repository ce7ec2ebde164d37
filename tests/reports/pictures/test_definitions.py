"""What measures of layers mean: definitions, lines at values that mean something, trends over depth."""

from dataclasses import replace

import numpy as np
import picture_tables as tables
import pytest
import torch
from scipy.stats import spearmanr

from attnprobe.attention.block import build_uniform_block
from attnprobe.reports.headline import write_number
from attnprobe.reports.pictures.choosing import draw_picture
from attnprobe.table.head_table import HeadTable
from attnprobe.table.table import Column


def mixing(layers=6, error=0.01, record=None, **cells):
    values = {
        "effective_heads": [4.0, 3.5, 3.1, 2.6, 2.4, 2.2][:layers],
        "cancellation": [1.2, 1.1, 1.7, 1.15, 1.05, 1.3][:layers],
    } | cells  # fmt: skip
    columns = {name: numbers for one, some in values.items()
               for name, numbers in ((one, some), (f"{one}_se", [error] * layers))}  # fmt: skip
    found = tables.table("mixing", {**tables.named(layers), "layer": list(range(layers))}, **columns)
    titles = {"effective_heads": ("effective number of heads", "heads"), "cancellation": ("norms", "ratio")}
    described = [
        replace(one, title=titles[one.name][0], unit=titles[one.name][1]) if one.name in titles else one
        for one in found.columns
    ]
    return HeadTable("mixing", described, found.data, (), record or {})


def charts(drawn):
    (whole,) = drawn.spec["vconcat"]
    return whole.get("concat", [whole])


def lines(drawn, place=0):
    """Find the values at which a chart has dashes."""
    layers = [one for one in charts(drawn)[place]["layer"] if "strokeDash" in str(one["mark"])]
    return [row["at"] for one in layers for row in drawn.spec["datasets"][one["data"]["name"]]]


def test_a_measure_is_defined_and_lines_are_where_its_limits_are():
    record = {"architecture": {"heads": 4, "removed": []}}
    drawn = draw_picture([mixing(record=record)])
    heads, norms = charts(drawn)
    assert lines(drawn) == [1, 4]
    assert lines(drawn, 1) == [1]
    said = [" ".join(one["title"]["subtitle"]) for one in (heads, norms)]
    assert "participation ratio H\u00b2 / \u03a3 r\u00b2" in said[0]
    assert "dashes: 1 where all are copies, 4 where none correlate" in said[0]
    assert "|\u03a3 c|\u00b2 / \u03a3 |c|\u00b2" in said[1]
    assert "dashes: 1 where heads are orthogonal" in said[1]
    for unknown in ({}, {"architecture": {"heads": 4, "removed": [[0, 1]]}}):
        assert lines(draw_picture([mixing(record=unknown)])) == [1]
    other = draw_picture([mixing(record=record)], measures=["cancellation"])
    assert lines(other) == [1]


def test_lines_are_where_the_measures_are_by_their_formulas():
    """Copies give 1, and unrelated heads their number; orthogonal contributions give 1."""
    from attnprobe.statistics.mixing import cancellation, effective_heads

    assert effective_heads(np.ones(6)) == pytest.approx(1)
    assert effective_heads(np.zeros(6)) == pytest.approx(4)
    layout = build_uniform_block(4).layout
    for vectors, expected in ((torch.eye(3), 1), (torch.ones(3, 5), 3), (torch.tensor([[1.0], [-1.0]]), 0)):
        assert cancellation((vectors @ vectors.T)[None], layout).item() == pytest.approx(expected)


@pytest.mark.parametrize(("error", "seen"), [(0.001, False), (0.3, True)])
def test_bars_are_named_only_where_one_can_be_seen(error, seen):
    drawn = draw_picture([mixing(error=error)], measures=["effective_heads"])
    (chart,) = charts(drawn)
    said = " ".join(chart["title"]["subtitle"])
    low, high = next(
        one["encoding"]["y"]["scale"]["domain"] for one in chart["layer"] if "x" in one["encoding"]
    )
    pixels = 1.96 * error / (high - low) * chart["height"]
    assert bool(pixels > np.sqrt(44 / np.pi)) is seen
    assert ("bars: 95 % intervals" in said) is seen
    assert ("95 % intervals: smaller than the points" in said) is not seen


def test_an_axis_holds_all_intervals_and_no_label_stands_over_it():
    (chart,) = charts(draw_picture([mixing(error=0.3)], measures=["effective_heads"]))
    low, high = next(
        one["encoding"]["y"]["scale"]["domain"] for one in chart["layer"] if "x" in one["encoding"]
    )
    assert low == 0
    assert high == pytest.approx(1.06 * (4.0 + 1.96 * 0.3))
    below = mixing(cancellation=[-1.0, 0.5, 0.2, 0.1, 0.3, 0.4], error=0.0)
    (chart,) = charts(draw_picture([below], measures=["cancellation"]))
    low, high = next(
        one["encoding"]["y"]["scale"]["domain"] for one in chart["layer"] if "x" in one["encoding"]
    )
    assert (low, high) == pytest.approx((-1 - 0.06 * 2, 1 + 0.06 * 2))  # 1 is that of the line


@pytest.mark.parametrize("seed", range(8))
def test_a_trend_is_stated_where_ranks_follow_depth(seed):
    draw = np.random.default_rng(seed)
    one, other = (draw.normal(5, 1, 9) + slope * np.arange(9) for slope in draw.choice([-0.8, 0, 0.3], 2))
    columns = {"one": one.tolist(), "two": other.tolist()}
    table = tables.table("t", {**tables.named(9), "layer": list(range(9))}, **columns)
    found = [spearmanr(np.arange(9), values) for values in (one, other)]
    said = draw_picture([table]).title
    for name, values, trend in zip(columns, (one, other), found, strict=True):
        if 2 * trend.pvalue < 0.05:
            verb = "rises" if trend.statistic > 0 else "falls"
            assert said == (
                f"{name.capitalize()} {verb} with depth, from {write_number(values[0])} in layer 0 to "
                f"{write_number(values[-1])} in layer 8"
            )
            return
    assert said == "t"


def test_of_two_measures_a_trend_has_half_of_the_level():
    """Ranks of nine layers whose p is between 0.025 and 0.05: enough for one measure, not for one of two."""
    draws = (np.random.default_rng(seed).permutation(9).astype(float) for seed in range(1000))
    values = next(one for one in draws if 0.025 < spearmanr(np.arange(9), one).pvalue < 0.05)
    keys = {**tables.named(9), "layer": list(range(9))}
    two = tables.table("t", keys, one=values.tolist(), two=[1.0] * 9)
    assert draw_picture([two]).title == "t"
    assert draw_picture([tables.table("t", keys, one=np.arange(9.0).tolist(), two=[1.0] * 9)]).title == (
        "One rises with depth, from 0 in layer 0 to 8.0 in layer 8"
    )


def test_a_trend_needs_layers_in_order_and_three_of_them():
    assert draw_picture([mixing()]).title == (
        "Effective number of heads falls with depth, from 4.0 in layer 0 to 2.2 in layer 5"
    )
    assert draw_picture([mixing(4)]).title == "mixing"  # of 24 orders, two are as extreme: p = .083
    assert draw_picture([mixing(2)]).title == "mixing"
    table = mixing()
    order = HeadTable(table.title, table.columns, {**table.data, "layer": [5, 4, 3, 2, 1, 0]})
    assert draw_picture([order]).title == "mixing"


def test_importance_is_defined_by_its_unit():
    keys = {**tables.named(12), **tables.places()}
    table = tables.table("t", keys, importance_in=tables.numbers(12), importance_out=tables.numbers(12))
    for unit, there in (("|dL/dmask|", True), ("share", False)):
        columns = [
            Column(one.name, unit, title=f"importance in {one.name[-2:]}")
            if "importance" in one.name
            else one
            for one in table.columns
        ]
        drawn = draw_picture([HeadTable("t", columns, table.data)], "scatter")
        said = " ".join(drawn.spec["vconcat"][0]["title"]["text"])
        assert ("size of the derivative of the loss" in said) is there
