"""Probes: the conditions of each label, sorted, and the online code that stands on record."""

import re
from dataclasses import replace
from html import unescape

import picture_tables as tables
import pytest

from attnprobe.reports.pictures.choosing import draw_picture
from attnprobe.reports.theme import JOURNALS, parse_width
from attnprobe.table.head_table import HeadTable
from attnprobe.table.table import Column

CODE = [
    {"before": 0, "links": 3, "bits": 4.5, "uniform": 4.5},
    {"before": 3, "links": 3, "bits": 4.0, "uniform": 4.25},
    {"before": 6, "links": 6, "bits": 2.5, "uniform": 4.375},
]
UNIFORM = "uniform code: every word alike"


def rows_of(picture):
    return [row for rows in picture.spec["datasets"].values() for row in rows]


def test_every_condition_of_every_label_is_there():
    table = tables.probes()
    rows = rows_of(draw_picture([table]))
    marks = {"all heads together": "accuracy", "best attention head": "best_head_accuracy",
             "best simple rule": "baseline", "a model with random weights": "control"}  # fmt: skip
    for mark, name in marks.items():
        assert [row["value"] for row in rows if row["by"] == mark] == table.data[name]
    assert {row["text"] for row in rows} == {"300", "120", "40"}


@pytest.mark.parametrize(
    ("accuracy", "error", "p", "mark"),
    [
        (0.6, 0.01, 0.01, "more than the best head"),
        (0.6, 0.01, 0.2, "no significant difference"),
        (0.3, 0.01, 1.0, "less than the best head"),
        (0.3, 0.1, 1.0, "no significant difference"),
        (0.3, None, 1.0, "no significant difference"),
    ],
)
def test_all_heads_find_more_less_or_neither(accuracy, error, p, mark):
    """More goes by the adjusted p; less by the interval of the gain, of 1.96 standard errors."""
    table = tables.probes()
    data = {**table.data, "accuracy": [accuracy] * 3, "best_head_accuracy": [0.4] * 3, "p_adjusted": [p] * 3}
    columns = [*table.columns, Column("gain_se", role="error")]
    drawn = draw_picture([HeadTable(table.title, columns, {**data, "gain_se": [error] * 3})])
    rows = rows_of(drawn)
    assert {row["mark"] for row in rows if row["by"] == "all heads together"} == {
        f"all heads together: {mark}"
    }
    svg = unescape(drawn.rendered("svg").decode())
    for other in ("more than the best head", "no significant difference", "less than the best head"):
        assert (f">all heads together: {other}</text>" in svg) is (other == mark)
    assert ("more than the best head: adjusted p" in svg) is mark.startswith("more")
    assert ("less than the best head: the 95 % interval" in svg) is mark.startswith("less")
    assert "a guess without a model, such as: " in svg
    assert "rows share links, and don't add up" in svg


def test_a_rule_above_the_interval_of_all_heads_is_broad():
    """Of 1.96 standard errors; the legend and the remark say so where there is such a rule."""
    table = tables.probes()
    data = {
        **table.data,
        "accuracy": [0.5] * 3,
        "accuracy_se": [0.1, 0.05, None],
        "baseline": [0.6, 0.6, 0.9],
    }
    drawn = draw_picture([HeadTable(table.title, table.columns, data)])
    marks = {row["said"]: row["mark"] for row in rows_of(drawn) if row["by"] == "best simple rule"}
    ahead = "best simple rule: above the interval of all heads"
    assert list(marks.values()) == ["best simple rule", ahead, "best simple rule"]
    svg = unescape(drawn.rendered("svg").decode())
    assert f">{ahead}</text>" in svg
    data["accuracy_se"] = [0.1] * 3
    data["baseline"] = [0.6] * 3
    assert ahead not in draw_picture([HeadTable(table.title, table.columns, data)]).rendered("svg").decode()


def test_labels_are_sorted_by_what_all_heads_find():
    table = tables.probes()
    table.data["accuracy"][:] = [0.1, 0.2, 0.9]
    (sort,) = {tuple(sort) for sort in find_sorts(draw_picture([table]).spec)}
    assert sort == ("all", "object (obj)", "determiner (det)")


def test_all_links_stand_apart_from_labels():
    """A line without a name is between; a table of one label has none."""
    lines = [one["scale"]["domain"] for one in find_fields(draw_picture([tables.probes()]).spec, "label")]
    assert lines
    assert all(one == ["all", " ", "determiner (det)", "object (obj)"] for one in lines)
    table = tables.probes()
    whole = HeadTable("t", table.columns, {name: cells[:1] for name, cells in table.data.items()})
    assert next(find_fields(draw_picture([whole]).spec, "label"))["scale"]["domain"] == ["all"]


def test_the_rule_looks_as_it_does_beside_the_best_heads():
    looks = []
    for table in (tables.probes(), tables.found()):
        (first, *_) = find_fields(draw_picture([table]).spec, "mark")
        places = [one["scale"] for one in find_fields(draw_picture([table]).spec, "mark")]
        rule = first["scale"]["domain"].index("best simple rule")
        looks.append({scale["range"][rule] for scale in places})
    assert looks[0] == looks[1]
    assert len(looks[0]) == 2  # the tick, and one colour for line and filling


def test_numbers_at_the_right_have_a_name():
    rows = draw_picture([tables.probes()]).rendered("svg").decode()
    assert rows.count(">links</text>") == 1


def find_fields(node, field):
    if isinstance(node, dict):
        if node.get("field") == field and "scale" in node:
            yield node
        for part in node.values():
            yield from find_fields(part, field)
    elif isinstance(node, list):
        for part in node:
            yield from find_fields(part, field)


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
    drawn = draw_picture([table])
    rows = [row for row in rows_of(drawn) if "step" in row]
    found = {by: [(row["step"], row["links"], row["value"]) for row in rows if row["by"] == by]
             for by in ("probe", UNIFORM)}  # fmt: skip
    for by, name in (("probe", "bits"), (UNIFORM, "uniform")):
        assert found[by] == [(one["before"], one["links"], one[name]) for one in CODE]
    # The legend of the list is above the code, whose lines have names of their own below it.
    svg = drawn.rendered("svg").decode()
    heading = "bits per link of the online code"
    places = [svg.index(f">{said}</text>") for said in ("best simple rule", heading, UNIFORM)]
    assert all(place > 0 for place in places)
    inner = drawn.spec if "resolve" in drawn.spec else drawn.spec["vconcat"][0]
    assert {*inner["resolve"]["scale"].values()} == {"independent"}


@pytest.mark.parametrize("code", [None, [], "x", CODE[:1], [{"before": 0}] * 3, [None, None]])
def test_a_record_without_a_code_has_the_list_alone(code):
    table = replace(tables.probes(), provenance={"code": code})
    assert not any("step" in row for row in rows_of(draw_picture([table])))


def test_one_column_holds_long_names_and_the_code():
    """Names of rows are no part of a chart's width, so that legends and the code may stand too far right."""
    table = tables.probes()
    names = ["all", "acl", "ccomp"]  # adnominal clause, clausal complement
    data = {
        **table.data,
        "relation": names,
        "baseline": [0.99] * 3,
        "accuracy": [0.2] * 3,
        "accuracy_se": [0.1] * 3,
    }
    table = replace(HeadTable(table.title, table.columns, data), provenance={"code": CODE})
    svg = draw_picture([table], columns=1, journal="acl").rendered("svg").decode()
    assert "best simple rule: above the interval of all heads" in svg
    assert float(re.search(r'width="([\d.]+)"', svg)[1]) <= 1.1 * parse_width(JOURNALS["acl"].columns[0])
