"""Heads by two numbers: which are named, what the axes and the title say."""

from dataclasses import replace

import numpy as np
import picture_tables as tables
import pytest
from scipy.stats import norm, pearsonr

from attnprobe.reports.pictures.choosing import draw_picture
from attnprobe.table.head_table import HeadTable


def both(x, y, error=None, **titles):
    """Make a table of one measure on two sides, of heads in layers of four."""
    rows = len(x)
    keys = {**tables.named(rows), "model_out": ["n"] * rows, **tables.places(rows // 4, 4)}
    errors = {} if error is None else {f"x_{side}_se": [error] * rows for side in ("in", "out")}
    found = tables.table("both", keys, x_in=list(x), x_out=list(y), **errors)
    columns = [replace(one, title=titles.get(one.name, "")) for one in found.columns]
    return HeadTable("both", columns, found.data)


def points(drawn):
    return [row for rows in drawn.spec["datasets"].values() for row in rows if "layer" in row]


def named(drawn):
    return {(row["layer"], row["head"]) for row in points(drawn) if row.get("name")}


def find_encodings(node):
    if isinstance(node, dict):
        if "encoding" in node:
            yield node["encoding"]
        for part in node.values():
            yield from find_encodings(part)
    elif isinstance(node, list):
        for part in node:
            yield from find_encodings(part)


DRAW = np.random.default_rng(3)
X = DRAW.uniform(0.2, 0.8, 12)
Y = X + np.array([0.3, -0.2, 0.01, 0.15, 0.0, 0.02, -0.01, 0.1, 0.03, -0.12, 0.005, 0.015])


def remark(drawn):
    return " ".join(drawn.spec["vconcat"][0]["title"]["text"])


def test_the_heads_farthest_from_the_line_of_equality_are_named():
    drawn = draw_picture([both(X, Y)], "scatter")
    order = np.argsort(-np.abs(Y - X))[:5]
    assert named(drawn) == {divmod(int(row), 4) for row in order}
    assert "dashes: both are equal; named: the 5 heads farthest from the dashes" in remark(drawn)
    assert "bars" not in remark(drawn)


def test_with_errors_those_are_named_that_differ_significantly():
    error = 0.04
    drawn = draw_picture([both(X, Y, error)], "scatter")
    sure = np.flatnonzero(np.abs(Y - X) > norm.ppf(1 - 0.025 / 12) * np.hypot(error, error))
    assert 0 < len(sure) < 5
    assert named(drawn) == {divmod(int(row), 4) for row in sure}
    assert f"named: the {len(sure)} heads farthest from the dashes, significantly" in remark(drawn)
    assert "bars: 95 % intervals" in remark(drawn)
    assert not named(draw_picture([both(X, Y, 9.0)], "scatter"))


def test_two_measures_name_those_apart_in_standard_deviations():
    table = tables.of_heads("entropy", "previous")
    drawn = draw_picture([table], "scatter")
    x, y = (np.array(table.data[name]) for name in ("entropy", "previous"))
    apart = np.abs((y - y.mean()) / y.std() - (x - x.mean()) / x.std())
    wanted = [row for row in np.argsort(-apart)[:5] if apart[row] > 1]
    assert named(drawn) == {divmod(int(row), 4) for row in wanted}
    assert "dashes" not in remark(drawn)
    assert f"named: the {len(wanted)} heads farthest apart in standard deviations" in remark(drawn)


def test_without_errors_the_correlation_is_stated_with_its_interval():
    found = pearsonr(X, Y)
    low, high = found.confidence_interval(0.95)
    text = draw_picture([both(X, Y)], "scatter").title
    assert text == (
        f"X of the same heads correlates: Pearson {found.statistic:.2f} (95 %: {low:.2f} to {high:.2f}); "
        f"L0 H0 differs most: {X[0]:.2f} in m, {Y[0]:.2f} in n"
    )
    unrelated = np.random.default_rng(5).uniform(0.2, 0.8, 12)
    assert pearsonr(X, unrelated).confidence_interval(0.95)[0] < 0
    assert draw_picture([both(X, unrelated)], "scatter").title == "both"
    assert draw_picture([both(X[:4], Y[:4])], "scatter").title == "both"
    several = both(X, Y)
    several.data["model_out"][3] = "o"
    assert draw_picture([several], "scatter").title == "both"


@pytest.mark.parametrize(
    ("titles", "said"),
    [
        ({"x_in": "x in demo", "x_out": "x in genre"}, ["x in demo (share)", "x in genre (share)"]),
        ({"x_in": "x", "x_out": "x"}, ["x (share), in domain", "x (share), out of domain"]),
        ({}, ["x (share), in domain", "x (share), out of domain"]),
    ],
)
def test_axes_have_the_names_of_both_sides(titles, said):
    every = list(find_encodings(draw_picture([both(X, Y, **titles)], "scatter").spec))
    for side, wanted in zip("xy", said, strict=True):
        assert {" ".join(one[side]["title"]) for one in every if "title" in one.get(side, {})} == {wanted}


@pytest.mark.parametrize(("least", "begins"), [(0.2, True), (0.5, False)])
def test_an_axis_begins_at_0_where_numbers_begin_near_it(least, begins):
    x = np.linspace(least, 1.0, 12)
    every = find_encodings(draw_picture([both(x, x[::-1])], "scatter").spec)
    low, high = next(one["x"]["scale"]["domain"] for one in every if "scale" in one.get("x", {}))
    assert low == pytest.approx(0 if begins else least - 0.04 * (1 - least))
    assert high > 1


def test_layers_that_have_colours_alike_have_other_shapes():
    every = find_encodings(draw_picture([both(X, Y)], "scatter").spec)
    (shapes,) = {tuple(one["shape"]["scale"]["range"]) for one in every if "shape" in one}
    assert len(shapes) == len(set(shapes)) == 3
    many = tables.of_heads("entropy", "previous", layers=20, heads=2)
    assert not [one for one in find_encodings(draw_picture([many], "scatter").spec) if "shape" in one]


@pytest.mark.parametrize(
    ("models", "end"),
    [(("m", None), "in domain, {} out of domain"), (("m", "m"), ", {}"), (("m", "n"), "in m, {} in n")],
)
def test_sides_have_names_that_tell_them_apart(models, end):
    table = both(X, Y)
    data = {**table.data, "model": [models[0]] * len(X), "model_out": [models[1]] * len(X)}
    title = draw_picture([HeadTable(table.title, table.columns, data)], "scatter").title
    said = end.format(f"{Y[0]:.2f}")
    assert title.endswith(f"L0 H0 differs most: {X[0]:.2f}{said if said.startswith(',') else ' ' + said}")
