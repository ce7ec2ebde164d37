"""Which picture a table has, and that its numbers are the table's, all of them and to the last digit."""

import math
from dataclasses import replace
from typing import get_args

import picture_tables as tables
import pytest
from altair.utils import schemapi

from attnprobe.errors import AttnprobeError
from attnprobe.reports.columns import name_source
from attnprobe.reports.pictures.choosing import draw_picture, list_kinds
from attnprobe.table.head_table import HeadTable
from attnprobe.table.kinds import PictureKind
from attnprobe.table.table import Column


def numbers_of(spec, field="value"):
    """Collect what the data of a chart hold under a name."""
    return [row[field] for rows in spec["datasets"].values() for row in rows if field in row]


def plain(cells):
    return [None if cell is None or not math.isfinite(cell) else cell for cell in cells]


def sorted_numbers(cells):
    return sorted(cell for cell in cells if cell is not None)


@pytest.mark.parametrize("kind", tables.NATURAL)
def test_every_table_has_a_picture_by_nature(kind):
    table = tables.NATURAL[kind][0]()
    assert list_kinds(table)[0] == kind
    drawn = draw_picture([table])
    assert drawn.kind == kind
    assert drawn.rendered("svg").startswith(b"<svg")


def test_every_kind_is_somebodys():
    every = {kind for make, _ in tables.NATURAL.values() for kind in list_kinds(make())}
    assert every == set(get_args(PictureKind))


@pytest.mark.parametrize(
    ("kind", "field"),
    [
        ("heatmap", "value"), ("roles", "value"), ("errors", "value"), ("curves", "value"),
        ("lines", "value"), ("scatter", "x"), ("matrix", "value"), ("depth", "value"),
        ("positions", "value"), ("alignments", "value"),
    ],
)  # fmt: skip
def test_every_row_is_there_digit_for_digit(kind, field):
    make, column = tables.NATURAL[kind]
    table = make()
    found = numbers_of(draw_picture([table]).spec, field)
    if kind == "scatter":
        assert len(found) == len(table) + 2  # and the two ends of the line of equality
        assert set(table.data[column]) <= set(found)
    else:
        assert found == plain(table.data[column])
    assert sum(value is not None for value in found) >= len(table) - (kind == "alignments")


def test_layers_of_two_models_are_drawn_against_depth():
    found = tables.by_layer()
    keys = [Column("model_b", role="key"), *found.columns]
    both = HeadTable(found.title, keys, {"model_b": ["other"] * 3, **found.data})
    assert draw_picture([both]).kind == "depth"


def test_errors_and_places_are_the_rows_own():
    table = tables.of_heads("entropy")
    (rows,) = draw_picture([table]).spec["datasets"].values()
    assert [(row["layer"], row["head"], row["error"], row["n"]) for row in rows] == list(
        zip(table.data["layer"], table.data["head"], table.data["entropy_se"], table.data["n"], strict=True)
    )


def test_the_map_has_every_pair_within_a_layer_and_every_head():
    table = tables.all_pairs()
    spec = draw_picture([table]).spec
    within = [
        jsd
        for one, other, jsd in zip(
            table.data["layer_a"], table.data["layer_b"], table.data["jsd"], strict=True
        )
        if one == other
    ]
    assert numbers_of(spec) == within
    heads = [(row["layer"], row["head"]) for rows in spec["datasets"].values() for row in rows if "x" in row]
    assert heads == [(layer, head) for layer in range(3) for head in range(4)]


def test_settling_and_intervals_and_change():
    table = tables.orders()
    found = numbers_of(draw_picture([table]).spec)
    lines = ("spearman_last", "spearman_previous", "kendall_last", "kendall_previous")
    assert found == [value for name in lines for value in table.data[name]]
    table = tables.correlation()
    (rows,) = draw_picture([table]).spec["datasets"].values()
    assert [(row["value"], row["low"], row["high"]) for row in rows] == [
        (0.5, 0.25, 0.75), (0.5, None, None), (0.5, None, None), (0.5, None, None),
    ]  # fmt: skip
    table = tables.change()
    found = [[row["value"] for row in rows] for rows in draw_picture([table]).spec["datasets"].values()]
    # Heads differ surely in the last five of the seven measures.
    wanted = ["jsd", *(f"{name}_delta" for name in ("next", "self", "first", "other", "separator"))]
    assert found == [table.data[name] for name in wanted]


def test_measures_are_chosen():
    table = tables.of_heads("entropy", "previous", "next")
    spec = draw_picture([table], measures=["next", "entropy"]).spec
    assert numbers_of(spec) == [*table.data["next"], *table.data["entropy"]]
    compared = tables.change()
    assert numbers_of(draw_picture([compared], measures=["first"]).spec) == compared.data["first_delta"]


def test_headlines_come_first_and_p_values_are_not_drawn():
    table = tables.of_heads("a", "b", "p_adjusted")
    assert len(draw_picture([table]).spec["datasets"]) == 2
    columns = [
        Column("b", role="measure", headline=True) if one.name == "b" else one for one in table.columns
    ]
    assert numbers_of(draw_picture([HeadTable("x", columns, table.data)]).spec) == table.data["b"]


def test_several_tables_make_one_picture():
    one, two = (tables.of_heads("entropy", dataset=name) for name in ("in_a.csv", "in_b.csv"))
    spec = draw_picture([one, two]).spec
    (rows,) = spec["datasets"].values()
    assert [row["value"] for row in rows] == [*one.data["entropy"], *two.data["entropy"]]
    assert list(dict.fromkeys(row["place"] for row in rows)) == ["in_a.csv", "in_b.csv"]
    again = draw_picture([one, one]).spec  # what neither model nor dataset tells apart
    (rows,) = again["datasets"].values()
    assert list(dict.fromkeys(row["place"] for row in rows)) == ["1 heads", "2 heads"]
    curves = draw_picture([tables.pruning("a"), tables.pruning("b")])
    (rows,) = curves.spec["datasets"].values()
    assert list(dict.fromkeys(row["panel"] for row in rows)) == ["a", "b"]


def test_two_tables_are_a_scatter():
    one, two = (tables.of_heads("importance", dataset=name) for name in ("in", "out"))
    spec = draw_picture([one, two], kind="scatter").spec
    rows = next(rows for rows in spec["datasets"].values() if "layer" in rows[0])
    assert [row["x"] for row in rows] == one.data["importance"]
    assert [row["y"] for row in rows] == two.data["importance"]
    assert [row["y_error"] for row in rows] == two.data["importance_se"]
    assert [row["x_error"] for row in rows] == one.data["importance_se"]


def test_a_row_of_equal_tables_is_a_line():
    one = tables.of_heads("importance", dataset="in")
    two = HeadTable(one.title, one.columns, {**one.data, "dataset": ["out"] * len(one)})
    rows = next(
        rows
        for rows in draw_picture([one, two], kind="scatter").spec["datasets"].values()
        if "layer" in rows[0]
    )
    assert [row["x"] for row in rows] == [row["y"] for row in rows] == one.data["importance"]


@pytest.mark.parametrize(
    ("make", "asked", "says"),
    [
        (lambda: [tables.of_heads("a")], {"kind": "dendrogram"}, "it can with heatmap, depth"),
        (lambda: [tables.of_heads("a")], {"kind": "pie"}, "kind is one of atlas, roles, "),
        (lambda: [tables.of_heads("a")], {"measures": ["b"]}, "no such measure; it has n, a"),
        (lambda: [tables.of_heads("a")], {"theme": "neon"}, "light, dark, paper"),
        (lambda: [tables.of_heads("a")], {"width": 20}, "from 200 to 4000"),
        (lambda: [tables.found()], {"measures": ["accuracy"]}, "leave --measure out"),
        (lambda: [tables.of_heads("a"), tables.found()], {}, "different kinds"),
        (lambda: [tables.of_heads("a")] * 3, {"kind": "scatter"}, "two tables at most"),
        (lambda: [], {}, "needs a table"),
        (lambda: [tables.table("x", {"word": ["a"]}, score=[1.0])], {}, "can't be drawn"),
        (lambda: [tables.table("x", tables.named(0), score=[])], {}, "no rows"),
        (lambda: [tables.table("x", tables.places())], {}, "it has no column of numbers"),
        (lambda: [tables.table("x", tables.places(), a=["b"] * 12)], {}, "it has no column of numbers"),
        (lambda: [tables.table("x", {"layer": [0, 0], "head": [1, 1]}, a=[1.0, 2.0])], {},
         "several rows have the same layer, head"),
    ],
)  # fmt: skip
def test_what_cannot_be_drawn_is_refused_with_what_can(make, asked, says):
    with pytest.raises(AttnprobeError, match=says):
        draw_picture(make(), **asked)


@pytest.mark.parametrize("kind", [*tables.NATURAL, "dendrogram"])
def test_charts_hold_against_the_schema_though_drawing_does_not_ask(kind, monkeypatch):
    """A hundred thousand rows took 39 seconds when each was held against it, and take 3."""
    make = tables.all_pairs if kind == "dendrogram" else tables.NATURAL[kind][0]
    validate = schemapi.validate_jsonschema

    def without_rows(part, *rest, **more):
        assert "'values': [{" not in str(part)
        return validate(part, *rest, **more)

    with monkeypatch.context() as patch:
        patch.setattr(schemapi, "validate_jsonschema", without_rows)
        drawn = draw_picture([make()], kind)
        assert drawn.spec["vconcat"]
    drawn.chart.to_dict()


@pytest.mark.parametrize("kind", tables.NATURAL)
@pytest.mark.parametrize("theme", ["dark", pytest.param("paper", marks=pytest.mark.slow)])
def test_every_picture_in_every_theme(kind, theme):
    drawn = draw_picture([tables.NATURAL[kind][0]()], theme=theme, width=500)
    assert drawn.spec["config"]["background"] == {"dark": "#16181d", "paper": "#ffffff"}[theme]
    assert drawn.rendered("svg").startswith(b"<svg")


def test_a_csv_without_a_description_is_drawn_as_far_as_its_columns_say(tmp_path):
    table = tables.of_heads("entropy")
    path, *_ = table.save(tmp_path / "heads.csv")
    path.with_name(f"{path.name}.json").unlink()
    assert numbers_of(draw_picture([HeadTable.read(path)]).spec) == table.data["entropy"]


@pytest.mark.parametrize("ending", ["csv", "json", "parquet", "xlsx"])
def test_files_give_the_same_numbers(tmp_path, ending):
    table = tables.of_heads("entropy")
    path, *_ = table.save(tmp_path / f"heads.{ending}")
    assert draw_picture([HeadTable.read(path)]).spec == draw_picture([table]).spec


@pytest.mark.parametrize(
    ("record", "cells", "said"),
    [
        ({}, {}, "model m, data d"),
        ({"dataset": {"name": "d"}}, {}, "model m, texts d"),
        ({"dataset": {"kind": "text"}}, {}, "model m, texts d"),
        ({"dataset": {"kind": "image"}}, {}, "model m, images d"),
        ({"dataset": {"kind": "image+text"}}, {}, "model m, images and texts d"),
        ({}, {"dataset": ["embedded"] * 12}, "model m, texts embedded"),
        ({}, {"dataset": ["texts"] * 12}, "model m, texts"),
        ({}, {"dataset": ["random tokens, repeated"] * 12}, "model m, random tokens, repeated"),
        ({}, {"dataset": [None] * 12}, "model m"),
        ({}, {"model": [None] * 12}, "data d"),
        ({}, {"model": ["b", "a"] * 6, "dataset": ["x", "y", "z"] * 4},
         "models b and a, data x, y and 1 more"),
    ],
)  # fmt: skip
def test_below_the_title_stand_the_models_and_what_data_are(record, cells, said):
    table = tables.of_heads("a")
    table = replace(table, data={**table.data, **cells}, provenance=record)
    assert name_source(table) == said
    if "model" not in cells:
        subtitle = draw_picture([table]).spec["title"]["subtitle"]
        assert subtitle[-1:] == [said]


def test_of_two_checkpoints_both_are_named():
    assert name_source(tables.change()) == "models before and after, data d"
