"""roles from the command line: who is named, the map, thresholds, several corpora, interruptions."""

import csv
import io

import pytest

COLUMNS = ["layer", "head", "role", "measure", "value", "value_se", "threshold", "also", "pattern"]


def rows_of(out):
    return list(csv.DictReader(io.StringIO(out)))


def by_head(table):
    return {(int(row["layer"]), int(row["head"])): row for row in table}


def test_the_neighbour_heads_of_the_embedded_encoder_are_named(invoke):
    code, out, _ = invoke("roles", "demo")
    table = rows_of(out)
    assert code == 0
    assert list(table[0]) == ["model", "dataset", *COLUMNS]
    heads = by_head(table)
    assert {place for place, row in heads.items() if row["role"] == "previous"} == {(3, 2)}
    assert {place for place, row in heads.items() if row["role"] == "next"} == {(3, 1)}
    assert float(heads[3, 2]["value"]) - float(heads[3, 2]["threshold"]) > 3 * float(heads[3, 2]["value_se"])
    mixed = [row for row in table if row["role"] == "mixed"]
    assert mixed
    assert all(row["value"] == row["measure"] == row["also"] == "" for row in mixed)
    assert {place for place, row in heads.items() if row["pattern"] == "diagonal"} >= {(3, 1), (3, 2)}
    assert {row["pattern"] for row in table} == {"diagonal", "heterogeneous"}
    assert not any(row["role"] == "rare words" for row in table)  # the text is too small to say


@pytest.mark.slow
def test_thresholds(invoke):
    words = ["roles", "demo", "-L", 60, "-q"]
    usual = {row["role"] for row in rows_of(invoke(*words)[1])}
    strict = {row["role"] for row in rows_of(invoke(*words, "--thresholds", "positional=0.999, broad=1")[1])}
    assert {"previous", "next", "broad"} <= usual
    assert not {"previous", "next", "broad"} & strict
    for thresholds, why in (
        ("possitional=1", "There is no threshold 'possitional'; choose from positional, delimiter"),
        ("broad=x", "The threshold broad must be above 0 and at most 1, not 'x'"),
    ):
        code, out, error = invoke(*words, "--thresholds", thresholds)
        assert (code, out) == (2, "")
        assert why in error


def test_refusals(invoke, photos):
    code, out, error = invoke("roles", "demo", "-d", photos)
    assert (code, out) == (2, "")
    assert "for images and sound, see census" in error
    code, _, error = invoke("roles", "demo", "--treebank", "missing.conllu")
    assert code == 2
    assert "there is no file missing.conllu" in error
