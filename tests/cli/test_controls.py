"""`positional --control` and `induction` from a command line."""

import json

import pytest

KEYS = ["model", "dataset", "layer", "head", "n"]
OFFSET = ["previous", "next", "offset_share"]


def with_errors(*names):
    return [column for name in names for column in (name, f"{name}_se")]


def test_columns_of_a_control(tabulate, saved, text):
    words = ["positional", saved("bert"), "-d", text]
    more = [f"{measure}_shuffled" for measure in OFFSET]
    assert list(tabulate(*words, "--control")) == [*tabulate(*words), *with_errors(*more)]


def test_columns_of_induction(invoke, tabulate, saved, tmp_path):
    measures = with_errors("induction", "duplicate", "previous", "copying")
    table = tabulate("induction", saved("gpt2"), "--length", 9, "--sequences", 3)
    assert list(table) == KEYS + measures
    table = tabulate("induction", saved("bart"), "--length", 9, "--sequences", 3)
    assert list(table) == [*KEYS[:2], "attention", *KEYS[2:], *measures]
    path = tmp_path / "heads.json"
    assert invoke("induction", saved("gpt2"), "--length", 9, "--sequences", 3, "-o", path)[0] == 0
    record = json.loads(path.read_text())["provenance"]
    assert record["dataset"]["length"] == 9


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (
            ["induction", "demo", "--length", "500"],
            "more than demo takes or its vocabulary has; give at most --length 63.",
        ),
        (["induction", "demo", "--layers", "9"], "no layer 9"),
    ],
)
def test_refused(refused, words, says):
    assert says in refused(*words)
