"""What a report says in sentences is borne out by its tables."""

import pytest

from attnprobe.reports.report_page.measures import Heads, Measure
from attnprobe.reports.report_page.report import Contents
from attnprobe.reports.report_page.text import (
    describe_heads,
    describe_inputs,
    explain_effects,
    list_limits,
)
from attnprobe.table.head_table import HeadTable
from attnprobe.table.table import Column

HEADS = Heads([("", 0, head) for head in range(3)])
SIGNIFICANT = "significantly"


def measure(name, values, errors=(None, None, None), headline=True, unit=""):
    return Measure("ablation", Column(name, unit, headline=headline), values, errors)


@pytest.mark.parametrize(
    ("p", "errors", "said", "unsaid"),
    [
        ((0.01, 0.2, 0.9), (0.1, 0.1, 0.1), "(adjusted p of 0.05 or more)", "standard errors"),
        (None, (0.1, 0.1, 0.1), "a faint cell lies within 1.96 standard errors of 0", SIGNIFICANT),
        (None, (None, None, None), "orange above.", "faint"),
        ((None, None, None), (None, None, None), "orange above.", SIGNIFICANT),
    ],
)
def test_significantly_is_said_only_where_there_is_an_adjusted_p(p, errors, said, unsaid):
    measures = [measure("delta", (0.5, -0.1, 0.0), errors)]
    measures += [] if p is None else [measure("p_adjusted", p, headline=False, unit="probability")]
    sentence = explain_effects(measures)
    assert said in sentence
    assert unsaid not in sentence
    assert explain_effects([measure("entropy", (0.5, 0.1, 0.0), errors), *measures[1:]]) == ""


def test_both_rules_are_said_where_maps_have_both():
    other = Measure("importance", Column("gain", headline=True), (0.1, 0.2, 0.3), (0.1, 0.1, 0.1))
    p = measure("p_adjusted", (0.01, 0.2, 0.9), headline=False)
    sentence = explain_effects([measure("delta", (0.5, -0.1, 0.0)), p, other])
    assert "(adjusted p of 0.05 or more), or, without a p, lies within 1.96 standard errors of 0." in sentence


def table(documents, **options):
    provenance = {"corpus": {"documents": documents, "tokens": 7 * documents}, "options": options}
    return HeadTable("heads", [Column("model")], {"model": ["m"]}, provenance=provenance)


def test_sections_that_read_as_much_as_it_takes_are_not_said_to_have_read_the_same():
    tables = {"census": {"census": table(256)}, "roles": {"roles": table(1_128)}}
    assert describe_heads(Contents(tables), HEADS).endswith(" Each section read 256 to 1,128 texts.")
    tables["roles"]["roles"] = table(256)
    assert describe_heads(Contents(tables), HEADS).endswith(" They read 256 texts, 1,792 tokens.")


def test_options_are_those_of_the_sections_that_had_them():
    tables = {"census": {"census": table(9, sample=9)}, "roles": {"roles": table(8, sample=8)}}
    asked = dict(describe_inputs(Contents({**tables, "distance": {"distance": table(9, sample=9)}})))
    assert asked["Options of census and distance"] == ["sample: 9"]
    assert asked["Options of roles"] == ["sample: 8"]
    alone = dict(describe_inputs(Contents({"census": {"census": table(9, sample=9, limit=None)}})))
    assert alone["Options"] == ["sample: 9"]


def test_no_limit_names_a_section_that_is_not_there():
    tables = {"importance": {"importance": table(9)}}
    assert not any("pruning" in one for one in list_limits(Contents(tables), []))
    assert any(
        "pruning tells more" in one for one in list_limits(Contents({**tables, "prune": {"p": table(9)}}), [])
    )
