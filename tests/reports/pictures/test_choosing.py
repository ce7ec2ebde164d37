"""Which picture tables have, what is stated of them, and what is refused."""

import numpy as np
import picture_tables as tables
import pytest
from scipy.stats import norm

from attnprobe.errors import AttnprobeError
from attnprobe.reports.charts.draw import draw_picture
from attnprobe.reports.findings import state_finding


def rows_of(drawn):
    return [row for rows in drawn.spec["datasets"].values() for row in rows]


def numbers_of(drawn):
    return [row["value"] for row in rows_of(drawn) if "value" in row]


def test_measures_are_chosen():
    table = tables.of_heads("entropy", "previous", "next")
    assert numbers_of(draw_picture([table], measures=["next", "entropy"])) == [
        *table.data["next"], *table.data["entropy"],
    ]  # fmt: skip
    compared = tables.change()
    assert numbers_of(draw_picture([compared], measures=["first"])) == compared.data["first_delta"]


def test_two_tables_are_a_scatter():
    inside, outside = (tables.of_heads("importance", dataset=name) for name in ("in", "out"))
    rows = [row for row in rows_of(draw_picture([inside, outside], kind="scatter")) if "layer" in row]
    assert [row["x"] for row in rows] == inside.data["importance"]
    assert [row["y"] for row in rows] == outside.data["importance"]
    assert [row["y_error"] for row in rows] == outside.data["importance_se"]
    gaps = np.abs(np.array(inside.data["importance"]) - outside.data["importance"])
    named = {row["name"] for row in rows if row.get("name")}
    assert named == {f"L{head // 4} H{head % 4}" for head in np.argsort(-gaps)[:3]}


@pytest.mark.parametrize(
    ("make", "options", "says"),
    [
        (lambda: [tables.of_heads("a")], {"kind": "clustermap"}, "it can with heatmap, depth"),
        (lambda: [tables.of_heads("a")], {"width": 20}, "from 200 to 4000"),
        (lambda: [tables.best_heads()], {"measures": ["accuracy"]}, "leave --only out"),
        (lambda: [tables.of_heads("a"), tables.best_heads()], {}, "different kinds"),
        (lambda: [tables.of_heads("a")] * 3, {"kind": "scatter"}, "two tables at most"),
        (lambda: [tables.of_heads("a_in", "a_out", "b")], {"kind": "scatter", "measures": ["b"]}, "is a$"),
        (lambda: [], {}, "needs a table"),
        (lambda: [tables.table("x", {**tables.places(), "measure": "a" * 12}, value=[1.0] * 12)],
         {"kind": "heatmap"}, "no column of the table holds the same"),
        (lambda: [tables.table("x", {"word": ["a"]}, score=[1.0])], {}, "can't be drawn"),
        (lambda: [tables.table("x", tables.named(0), score=[])], {}, "no rows"),
        (lambda: [tables.table("x", tables.places(), a=["b"] * 12)], {}, "no column of numbers"),
        (lambda: [tables.table("x", {"layer": [0, 0], "head": [1, 1]}, a=[1.0, 2.0])], {},
         "several rows of the same layer, head"),
    ],
)  # fmt: skip
def test_what_cannot_be_drawn_is_refused_with_what_can(make, options, says):
    with pytest.raises(AttnprobeError, match=says):
        draw_picture(make(), **options)


def effects(values, errors, p=None):
    keys = {**tables.named(len(values)), **tables.places(len(values) // 4, 4)}
    more = {} if p is None else {"p_adjusted": p}
    return tables.table("x", keys, delta=list(values), delta_se=list(errors), **more)


DRAW = np.random.default_rng(2)
VALUES, ERRORS = DRAW.normal(0, 0.3, 24), DRAW.uniform(0.05, 0.2, 24)


@pytest.mark.parametrize("p", [None, DRAW.uniform(0, 0.1, 24).tolist()])
def test_marks_of_a_map_and_its_finding_are_by_one_rule(p):
    """Without p, intervals hold for all heads together: 1.96 errors would mark more."""
    table = effects(VALUES, ERRORS, p)
    drawn = draw_picture([table])
    marked = [bool(row["sign"]) for row in rows_of(drawn)]
    assert [not row["pale"] for row in rows_of(drawn)] == marked
    number = sum(marked)
    assert 0 < number < 24
    row = max((row for row in range(24) if marked[row]), key=lambda row: abs(VALUES[row]))
    finding = drawn.spec["title"]["subtitle"][1]
    assert finding == state_finding(table, table.column("delta"))
    assert finding.startswith(f"{number} of 24 significant; strongest L{row // 4} H{row % 4}, ")
    if p is None:
        assert not any(np.array(marked) & (np.abs(VALUES) <= norm.ppf(1 - 0.025 / 24) * ERRORS))
        assert number < (np.abs(VALUES) > 1.96 * ERRORS).sum()
    else:
        assert marked == [one < 0.05 for one in p]
