"""Relations: sorted by gain, n and names beside the line, ties visible, and stars only by the adjusted p."""

import re
from html import unescape

import numpy as np
import picture_tables as tables
import pytest

from attnprobe.reports.pictures.choosing import draw_picture
from attnprobe.table.head_table import HeadTable
from attnprobe.table.relation_names import RELATION_NAMES, name_relation
from attnprobe.table.table import Column

MARKS = {
    "more": "attention head finds more",
    "same": "attention head: no significant difference",
    "less": "attention head finds less",
}
SIGNS = {
    "finds more, *: adjusted p": "more",
    "finds less: the whole bar lies below 0": "less",
    "no significant difference: the bar covers 0": "covers",
    "the bar lies above 0 without *": "unsure",
}


def found(**cells):
    """Give the table of relations, with the error of the gain and with other cells."""
    table = tables.found()
    gain = (np.array(table.data["accuracy"]) - np.array(table.data["baseline"])).tolist()
    data = {**table.data, "gain": gain, "gain_se": [0.01] * len(table), **cells}
    return HeadTable("syntax", [*table.columns, Column("gain_se", role="error")], data)


def charts_of(drawn):
    """Give the rows of each direction, as they are drawn from top to bottom."""
    charts = {}
    for rows in drawn.spec["datasets"].values():
        if "accuracy" in rows[0]:
            charts[rows[0]["panel"]] = rows
    return charts


def test_numbers_are_those_of_the_table():
    table = found()
    drawn = {
        (row["said"], side.replace(" ", "_")): row
        for side, rows in charts_of(draw_picture([table])).items()
        for row in rows
    }
    assert len(drawn) == len(table)
    fields = {"gain_error": "gain_se", "error": "accuracy_se", "p": "p_adjusted"}
    fields |= {name: name for name in ("accuracy", "baseline", "gain", "n")}
    for row, key in enumerate(zip(table.data["relation"], table.data["direction"], strict=True)):
        assert {field: drawn[key][field] for field in fields} == {
            field: table.data[name][row] for field, name in fields.items()
        }
        low, high = (table.data["gain"][row] + sign * 1.96 * 0.01 for sign in (-1, 1))
        assert (drawn[key]["low"], drawn[key]["high"]) == (pytest.approx(low), pytest.approx(high))
        assert (drawn[key]["own_low"], drawn[key]["own_high"]) == (None, None)


def test_lines_are_sorted_by_gain_and_all_links_stand_first():
    """Each direction has the order of the first, whatever its own gains are; its own labels come last."""
    table = found(relation=["det", "det", "all", "all", "amod", "amod"],
                  gain=[0.3, -0.2, -0.5, 0.1, 0.4, None])  # fmt: skip
    drawn = draw_picture([table])
    said = {side: [row["said"] for row in rows] for side, rows in charts_of(drawn).items()}
    assert said == {side: ["all", "amod", "det"] for side in ("dependent to head", "head to dependent")}
    axes = [one["encoding"].get("y", {}) for one in drawn_layers(drawn)]
    sorts = [axis["sort"] for axis in axes if "sort" in axis]
    assert ["all", "adjectival modifier (amod)", "determiner (det)"] in sorts
    other = found(
        relation=["det", "obj", "amod", "nsubj", "obl", "det"], gain=[0.1, 0.9, 0.2, 0.3, 0.3, -0.2]
    )
    second = charts_of(draw_picture([other]))["head to dependent"]
    assert [row["said"] for row in second] == ["det", "obj", "nsubj"]


def drawn_layers(drawn):
    for side in drawn.spec["vconcat"][0]["concat"]:
        for chart in side.get("hconcat", [side]):
            yield from chart["layer"]


def encoded(drawn):
    """Give what is drawn along an axis of numbers: the field, the one at its other end, and the mark."""
    return [
        (across["field"], one["encoding"].get("x2", {}).get("field"), one["mark"]["type"])
        for one in drawn_layers(drawn)
        if (across := one["encoding"].get("x", {})).get("type") == "quantitative"
    ]


@pytest.mark.parametrize(
    ("gain", "error", "p", "covers", "mark"),
    [
        (0.05, 0.01, 0.001, False, "more"),
        (0.05, 0.01, 0.2, False, "same"),
        (0.01, 0.01, 0.2, True, "same"),
        (0.0, 0.0, 0.5, True, "same"),
        (-0.3, 0.01, 1.0, False, "less"),
        (-0.0195, 0.01, 1.0, True, "same"),
        (-0.0197, 0.01, 1.0, False, "less"),
        (0.05, 0.04, 0.02, False, "more"),
        (-0.05, 0.04, 0.02, True, "same"),
    ],
)
def test_covered_rules_and_stars(gain, error, p, covers, mark):
    """The bar covers a rule within the interval; more goes by the adjusted p, less by the interval."""
    star = mark == "more"
    table = found(gain=[gain] * 6, gain_se=[error] * 6, p=[0.0001] * 6, p_adjusted=[p] * 6)
    rows = [row for rows in charts_of(draw_picture([table], width=760)).values() for row in rows]
    assert {row["covers"] for row in rows} == {covers}
    assert {row["gained_text"].endswith(" *") for row in rows} == {star}
    assert {row["mark"] for row in rows} == {MARKS[mark]}


@pytest.mark.parametrize(
    ("gain", "p", "there"),
    [
        (0.3, 0.01, {"more"}),
        (0.3, 0.2, {"unsure"}),
        (0.0, 0.6, {"covers"}),
        (-0.3, 1.0, {"less"}),
        (None, None, set()),
    ],
)
def test_the_legend_and_the_remark_explain_what_occurs_alone(gain, p, there):
    table = found(gain=[gain] * 6, p_adjusted=[p] * 6)
    svg = draw_picture([table]).rendered("svg").decode()
    assert {name for name, mark in MARKS.items() if f">{mark}</text>" in svg} == (
        {*there} & {*MARKS} or {"same"}
    )
    assert {sign for said, sign in SIGNS.items() if said in svg} == there
    assert ">best simple rule</text>" in svg
    untested = found(gain=[gain] * 6, p_adjusted=[None] * 6)
    assert "the bar lies above 0" not in draw_picture([untested]).rendered("svg").decode()


def test_marks_differ_in_shape_or_filling_and_in_colour():
    table = found(gain=[0.3, 0.0, -0.3] * 2, p_adjusted=[0.01, 0.9, 1.0] * 2)
    layers = list(drawn_layers(draw_picture([table])))
    looks = next(one["encoding"] for one in layers if "shape" in one["encoding"])
    seen = zip(*(looks[name]["scale"]["range"] for name in ("shape", "fill", "stroke")), strict=True)
    more, same, less, rule = seen
    assert looks["shape"]["scale"]["domain"] == [*MARKS.values(), "best simple rule"]
    assert more[0] == same[0] != less[0] != rule[0]
    assert more[1] != same[1]
    assert rule[0] == "M0,-1L0,1"  # upright, as it is drawn
    assert not any("angle" in one["mark"] for one in layers if isinstance(one["mark"], dict))
    assert len({more[2], less[2], rule[2]}) == 3


def test_figures_are_the_interval_that_the_bar_is():
    """Both are 1.96 standard errors of the gain, about the gain."""
    draw = np.random.default_rng(3)
    gain, error = draw.uniform(-0.9, 0.9, 6), draw.uniform(0.01, 0.2, 6)
    table = found(gain=gain.tolist(), gain_se=error.tolist())
    for rows in charts_of(draw_picture([table], width=760)).values():
        for row in rows:
            place = int(np.flatnonzero(gain == row["gain"])[0])
            written = [
                float(one.replace("\u2212", "-"))
                for one in re.findall(r"[+\u2212]?\d\.\d\d", row["gained_text"])
            ]
            ends = [gain[place] + sign * 1.96 * error[place] for sign in (-1, 1)]
            assert written == pytest.approx([gain[place], *ends], abs=0.0051)
            assert [row[name] for name in ("low", "high")] == pytest.approx(ends)
    assert ">gain [95 %]</text>" in draw_picture([table], width=760).rendered("svg").decode()


def with_rules(
    label="relation", said=("det", "det", "nsubj", "nsubj", "amod", "amod"), rules=("offset -1",) * 6
):
    table = found()
    columns = [Column(label, role="key") if one.name == "relation" else one for one in table.columns]
    data = {(label if name == "relation" else name): cells for name, cells in table.data.items()}
    columns = [*columns, Column("baseline_rule", role="text")]
    return HeadTable("t", columns, {**data, label: list(said), "baseline_rule": list(rules)})


def test_rules_are_named():
    rules = ["offset -1", "offset -1", "nearest VERB", "NOUN after", "ADP before", "offset +2"]
    drawn = draw_picture([with_rules(rules=rules)], width=800)
    svg = drawn.rendered("svg").decode()
    assert "simple rule: a guess without a model, such as: previous word" in svg
    for rule in ("previous word", "nearest VERB", "next NOUN", "previous ADP", "2 words after"):
        assert f">{rule}</text>" in svg
    narrow = draw_picture([with_rules(rules=rules)], columns=1).rendered("svg").decode()
    assert "such as: previous word" in narrow
    assert ">previous word</text>" not in narrow
    mentions = draw_picture([with_rules("mention", rules=["nearest"] * 6)]).rendered("svg").decode()
    assert "such as: nearest mention" in mentions


@pytest.mark.parametrize(
    ("label", "said", "shared"),
    [
        ("relation", ["det", "det", "nsubj", "nsubj", "amod", "amod"], False),
        ("relation", ["all", "all", "nsubj", "nsubj", "amod", "amod"], True),
        ("mention", ["pronoun", "pronoun", "masculine", "masculine", "a", "a"], True),
        ("mention", ["pronoun"] * 6, False),
        ("label", ["all"] * 6, False),
    ],
)
def test_rows_that_share_links_are_said_not_to_add_up(label, said, shared):
    table = with_rules(label, said)
    svg = draw_picture([table]).rendered("svg").decode()
    assert ("rows share links, and don't add up" in unescape(svg)) is shared


def test_the_heads_of_a_dependency_are_not_those_of_attention():
    svg = draw_picture([found()], width=760).rendered("svg").decode()
    assert ">from the dependent to its syntactic head</text>" in svg
    assert ">from the syntactic head to its dependent</text>" in svg
    assert ">attention head</text>" in svg


def test_texts_say_the_gain_with_its_error_where_there_is_room():
    table = found(gain=[-0.126] * 6, gain_se=[0.0149] * 6, n=[1234] * 6, p_adjusted=[0.5] * 6)
    wide, narrow = (
        next(iter(charts_of(draw_picture([table], **how)).values()))[0] for how in ({}, {"columns": 1})
    )
    assert (wide["gained_text"], narrow["gained_text"]) == (
        "\u22120.13 [\u22120.16, \u22120.10]",
        "\u22120.13",
    )
    assert (wide["n_text"], wide["name_text"]) == ("1,234", wide["name"])
    svg = draw_picture([table], columns=1).rendered("svg").decode()
    assert all(f">{said}</text>" in svg for said in ("links", "head", "gain", "1,234", "determiner (det)"))


def test_a_table_without_errors_of_gains_has_those_of_accuracies():
    drawn = draw_picture([tables.found()])
    rows = [row for rows in charts_of(drawn).values() for row in rows]
    assert all(row["own_high"] - row["accuracy"] == pytest.approx(1.96 * row["error"]) for row in rows)
    assert all(row["accuracy"] - row["own_low"] == pytest.approx(1.96 * row["error"]) for row in rows)
    assert {row["low"] for row in rows} == {None}
    svg = drawn.rendered("svg").decode()
    assert "bars: 95 % intervals of what heads find" in svg
    assert "bars: its 95 % interval" not in svg


def test_the_interval_of_the_gain_is_drawn_on_an_axis_of_gains():
    """A bar about the head's own number would read as the interval of that."""
    drawn = draw_picture([found()], width=760)
    marks = encoded(drawn)
    side = len(marks) // 2
    assert marks[:side] == marks[side:]
    assert marks[:side] == [
        ("accuracy", "baseline", "rule"), ("own_low", "own_high", "rule"), ("accuracy", None, "point"),
        ("baseline", None, "point"),
        ("zero", None, "rule"), ("low", "high", "rule"), ("gain", None, "point"),
    ]  # fmt: skip
    scales = [one["encoding"]["x"]["scale"]["domain"] for one in drawn_layers(drawn)
              if "scale" in one["encoding"].get("x", {})]  # fmt: skip
    shares, gains = ([one for one in scales if (one == [0, 1]) is of_shares] for of_shares in (True, False))
    assert len(shares) == 8
    assert len(gains) == 6
    assert all(one == gains[0] for one in gains)  # of both directions: gains compare


@pytest.mark.parametrize(
    ("gain", "error", "ends"),
    [
        ([-0.31, 0.0], 0.0, [-0.4, 0.1]),
        ([-0.31, 0.42], 0.05, [-0.5, 0.6]),
        ([0.4, 0.4], 0.0, [-0.1, 0.4]),
        ([-0.9, 0.95], 0.1, [-1.0, 1.0]),
        ([None, None], 0.0, [-0.1, 0.1]),
    ],
)
def test_the_axis_of_gains_holds_0_and_all_intervals(gain, error, ends):
    table = found(gain=gain * 3, gain_se=[error] * 6)
    layers = drawn_layers(draw_picture([table]))
    (domain,) = {
        tuple(one["encoding"]["x"]["scale"]["domain"])
        for one in layers
        if one["encoding"].get("x", {}).get("field") == "gain"
    }
    assert domain == pytest.approx(tuple(ends))


def test_a_narrow_picture_has_the_gains_alone():
    drawn = draw_picture([found()], columns=1, journal="plain")
    assert {field for field, *_ in encoded(drawn)} == {"zero", "low", "gain"}
    svg = drawn.rendered("svg").decode()
    assert ">best simple rule</text>" not in svg
    assert ">gain</text>" in svg
    assert ">determiner (det)</text>" in svg


def test_the_axis_has_the_unit_of_the_figures():
    """Gains and titles are fractions; so are the ticks of shares."""
    svg = draw_picture([found()], width=760).rendered("svg").decode()
    assert "%</text>" not in svg.replace("gain [95 %]", "")
    assert ">0.5</text>" in svg
    assert ">share of links found</text>" in svg


def test_the_rule_is_drawn_in_front_of_the_head():
    layers = list(drawn_layers(draw_picture([found()])))
    fields = [one["encoding"].get("x", {}).get("field") for one in layers]
    assert fields.index("baseline") > fields.index("accuracy")


def test_long_names_are_labels_where_there_is_no_room():
    table = found(relation=["csubj:pass"] * 2 + ["nsubj"] * 2 + ["amod"] * 2)

    def labels(**how):
        return {row["label"] for rows in charts_of(draw_picture([table], **how)).values() for row in rows}

    assert "passive clausal subject (csubj:pass)" in labels()
    assert labels(columns=1) == {"csubj:pass", "subject (nsubj)", "adjectival modifier (amod)"}


def test_labels_of_others_stay_as_they_are():
    table = found()
    columns = [Column("mention", role="key") if one.name == "relation" else one for one in table.columns]
    data = {("mention" if name == "relation" else name): cells for name, cells in table.data.items()}
    drawn = draw_picture([HeadTable("coreference", columns, data)])
    assert {row["label"] for rows in charts_of(drawn).values() for row in rows} == {"det", "nsubj", "amod"}


def test_names_of_relations():
    assert name_relation("nsubj") == "subject (nsubj)"
    assert name_relation("nsubj:pass") == "passive subject (nsubj:pass)"
    assert name_relation("obl:arg") == "oblique nominal (obl:arg)"
    assert name_relation("dobj") == "direct object (dobj)"
    assert [name_relation(one) for one in ("list", "parataxis", "my-link", "")] == [
        "list",
        "parataxis",
        "my-link",
        "",
    ]
    longest = max(len(name_relation(label)) for label in RELATION_NAMES)
    assert longest <= 36  # which is where labels are cut
