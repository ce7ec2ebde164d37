"""Probes: the conditions of each label, sorted, and the online code that stands on record."""

from dataclasses import replace

import picture_tables as tables
import pytest

from attnprobe.reports.pictures.choosing import draw_picture

CODE = [
    {"before": 0, "links": 3, "bits": 4.5, "uniform": 4.5},
    {"before": 3, "links": 3, "bits": 4.0, "uniform": 4.25},
    {"before": 6, "links": 6, "bits": 2.5, "uniform": 4.375},
]


def rows_of(picture):
    return [row for rows in picture.spec["datasets"].values() for row in rows]


def test_every_condition_of_every_label_is_there():
    table = tables.probes()
    rows = rows_of(draw_picture([table]))
    marks = {"all heads": "accuracy", "best head": "best_head_accuracy", "simple rule": "baseline",
             "random weights": "control"}  # fmt: skip
    for mark, name in marks.items():
        assert [row["value"] for row in rows if row["by"] == mark] == table.data[name]
    assert {row["text"] for row in rows} == {"300 *", "120", "40"}  # a star goes by the adjusted p


def test_labels_are_sorted_by_what_all_heads_find():
    table = tables.probes()
    table.data["accuracy"][:] = [0.1, 0.2, 0.9]
    (sort,) = {tuple(sort) for sort in find_sorts(draw_picture([table]).spec)}
    assert sort == ("all", "object (obj)", "determiner (det)")


def find_sorts(node):
    if isinstance(node, dict):
        if node.get("field") == "label" and "sort" in node:
            yield node["sort"]
        for part in node.values():
            yield from find_sorts(part)
    elif isinstance(node, list):
        for part in node:
            yield from find_sorts(part)


def test_the_code_is_drawn_as_it_stands_on_record():
    table = replace(tables.probes(), provenance={"code": CODE})
    rows = [row for row in rows_of(draw_picture([table])) if "step" in row and "name" not in row]
    found = {by: [(row["step"], row["links"], row["value"]) for row in rows if row["by"] == by]
             for by in ("probe", "uniform code")}  # fmt: skip
    for by, name in (("probe", "bits"), ("uniform code", "uniform")):
        assert found[by] == [(one["before"], one["links"], one[name]) for one in CODE]


@pytest.mark.parametrize("code", [None, [], "x", CODE[:1], [{"before": 0}] * 3, [None, None]])
def test_a_record_without_a_code_has_the_list_alone(code):
    table = replace(tables.probes(), provenance={"code": code})
    assert not any("step" in row for row in rows_of(draw_picture([table])))
