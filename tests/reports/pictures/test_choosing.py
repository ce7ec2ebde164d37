"""Which picture tables have, what is stated of them, and what is refused."""

from dataclasses import replace

import numpy as np
import picture_tables as tables
import pytest
from scipy.stats import norm

import attnprobe
from attnprobe.errors import AttnprobeError
from attnprobe.reports.columns import name_source
from attnprobe.reports.headline import state_finding
from attnprobe.reports.pictures.choosing import draw_picture
from attnprobe.table.head_table import HeadTable
from attnprobe.table.table import Column


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


def test_headlines_come_first_and_p_values_are_not_drawn():
    table = tables.of_heads("a", "b", "p_adjusted")
    assert len(draw_picture([table]).spec["datasets"]) == 2
    columns = [
        Column("b", role="measure", headline=True) if one.name == "b" else one for one in table.columns
    ]
    assert numbers_of(draw_picture([HeadTable("x", columns, table.data)])) == table.data["b"]


def test_an_unknown_measure_is_refused_with_all_there_are_and_the_nearest():
    names = [f"measure_{number}" for number in range(30)]
    table = tables.of_heads("previous", *names)
    with pytest.raises(AttnprobeError) as failed:
        attnprobe.plot(table, measure="previus")
    assert "(the nearest is previous)" in str(failed.value)
    assert all(f" {name}" in str(failed.value) for name in ("n", "previous", *names))
    with pytest.raises(AttnprobeError, match="no such measure; it has n, previous"):
        attnprobe.plot(table, measure="zzz")


def test_several_tables_make_one_picture():
    one, two = (tables.of_heads("entropy", dataset=name) for name in ("in_a.csv", "in_b.csv"))
    rows = rows_of(draw_picture([one, two]))
    assert [row["value"] for row in rows] == [*one.data["entropy"], *two.data["entropy"]]
    assert list(dict.fromkeys(row["place"] for row in rows)) == ["in_a.csv", "in_b.csv"]
    again = rows_of(draw_picture([one, one]))  # what neither model nor dataset tells apart
    assert list(dict.fromkeys(row["place"] for row in again)) == ["1 heads", "2 heads"]
    curves = rows_of(draw_picture([tables.pruning("a"), tables.pruning("b")]))
    assert list(dict.fromkeys(row["panel"] for row in curves)) == ["a", "b"]


def test_two_tables_are_a_scatter():
    one, two = (tables.of_heads("importance", dataset=name) for name in ("in", "out"))
    rows = [row for row in rows_of(draw_picture([one, two], kind="scatter")) if "layer" in row]
    assert [row["x"] for row in rows] == one.data["importance"]
    assert [row["y"] for row in rows] == two.data["importance"]
    assert [row["y_error"] for row in rows] == two.data["importance_se"]
    apart = np.abs(np.array(one.data["importance"]) - two.data["importance"])
    named = {row["name"] for row in rows if row.get("name")}
    assert named == {f"L{head // 4} H{head % 4}" for head in np.argsort(-apart)[:3]}


@pytest.mark.parametrize("kind", ["dendrogram", "checks", "errors", "shares", "pie"])
def test_what_is_no_kind_is_refused(kind):
    with pytest.raises(AttnprobeError, match="kind is one of atlas, roles, "):
        draw_picture([tables.all_pairs()], kind)


@pytest.mark.parametrize(
    ("make", "asked", "says"),
    [
        (lambda: [tables.of_heads("a")], {"kind": "clustermap"}, "it can with heatmap, depth"),
        (lambda: [tables.of_heads("a")], {"theme": "neon"}, "light, dark, paper"),
        (lambda: [tables.of_heads("a")], {"width": 20}, "from 200 to 4000"),
        (lambda: [tables.found()], {"measures": ["accuracy"]}, "leave --measure out"),
        (lambda: [tables.of_heads("a"), tables.found()], {}, "different kinds"),
        (lambda: [tables.of_heads("a")] * 3, {"kind": "scatter"}, "two tables at most"),
        (lambda: [], {}, "needs a table"),
        (lambda: [tables.table("x", {"word": ["a"]}, score=[1.0])], {}, "can't be drawn"),
        (lambda: [tables.table("x", tables.named(0), score=[])], {}, "no rows"),
        (lambda: [tables.table("x", tables.places(), a=["b"] * 12)], {}, "it has no column of numbers"),
        (lambda: [tables.table("x", {"layer": [0, 0], "head": [1, 1]}, a=[1.0, 2.0])], {},
         "several rows have the same layer, head"),
    ],
)  # fmt: skip
def test_what_cannot_be_drawn_is_refused_with_what_can(make, asked, says):
    with pytest.raises(AttnprobeError, match=says):
        draw_picture(make(), **asked)


@pytest.mark.parametrize("ending", ["csv", "json", "parquet", "xlsx"])
def test_files_give_the_same_numbers(tmp_path, ending):
    table = tables.of_heads("entropy")
    path, *_ = table.save(tmp_path / f"heads.{ending}")
    assert draw_picture([HeadTable.read(path)]).spec == draw_picture([table]).spec


@pytest.mark.parametrize(
    ("record", "cells", "said"),
    [
        ({}, {}, "model m, data d"),
        ({"dataset": {"kind": "text"}}, {}, "model m, texts d"),
        ({"dataset": {"kind": "image+text"}}, {}, "model m, images and texts d"),
        ({}, {"dataset": ["embedded"] * 12}, "model m, texts embedded"),
        ({}, {"dataset": [None] * 12}, "model m"),
        ({}, {"model": ["b", "a"] * 6, "dataset": ["x", "y", "z"] * 4},
         "models b and a, data x, y and 1 more"),
    ],
)  # fmt: skip
def test_below_the_title_stand_the_models_and_what_data_are(record, cells, said):
    table = tables.of_heads("a")
    table = replace(table, data={**table.data, **cells}, provenance=record)
    assert name_source(table) == said
    if "model" not in cells:
        assert draw_picture([table]).spec["title"]["subtitle"][0] == said


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
    said = drawn.spec["title"]["subtitle"][1]
    assert said == state_finding(table, table.column("delta"))
    assert said.startswith(f"{number} of 24 significant; strongest L{row // 4} H{row % 4}, ")
    if p is None:
        assert not any(np.array(marked) & (np.abs(VALUES) <= norm.ppf(1 - 0.025 / 24) * ERRORS))
        assert number < (np.abs(VALUES) > 1.96 * ERRORS).sum()
    else:
        assert marked == [one < 0.05 for one in p]


def test_a_finding_is_one_line_of_one_measure():
    none = effects(VALUES, [9.0] * 24)
    assert state_finding(none, none.column("delta")) == "0 of 24 significant"
    table = tables.of_heads("entropy", "next")
    table.data["entropy"][5], table.data["entropy_se"][5] = 1.25, 0.021
    assert state_finding(table, table.column("entropy")) == "highest L1 H1, 1.250 \u00b1 0.021"
    assert len(draw_picture([table]).spec["title"]["subtitle"]) == 1
    found = tables.found()
    assert state_finding(found, found.column("gain")).startswith("3 of 6 significant; strongest ")
    own = draw_picture([none], title="own").spec["title"]
    assert (own["text"], own["subtitle"]) == ("own", ["model m, data d"])
