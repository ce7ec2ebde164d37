"""roles from the command line: who is named, the map, thresholds, several corpora, interruptions."""

import pytest

COLUMNS = ["layer", "head", "role", "measure", "value", "value_se", "threshold", "also", "pattern"]


def test_the_neighbour_heads_of_the_embedded_encoder_are_named(read_rows):
    table = read_rows("roles", "demo")
    assert list(table[0]) == ["model", "dataset", *COLUMNS]
    heads = {(int(row["layer"]), int(row["head"])): row for row in table}
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
def test_thresholds(refused, read_rows):
    words = ["roles", "demo", "-L", 60, "-q"]
    usual = {row["role"] for row in read_rows(*words)}
    strict = {row["role"] for row in read_rows(*words, "--thresholds", "positional=0.999, broad=1")}
    assert {"previous", "next", "broad"} <= usual
    assert not {"previous", "next", "broad"} & strict
    for thresholds, why in (
        ("possitional=1", "There is no threshold 'possitional'; choose from positional, delimiter"),
        ("broad=x", "The threshold broad must be above 0 and at most 1, not 'x'"),
    ):
        assert why in refused(*words, "--thresholds", thresholds)


def test_refusals(refused, photos):
    assert "for images and sound, see census" in refused("roles", "demo", "-d", photos)
    assert "there is no file missing.conllu" in refused("roles", "demo", "--treebank", "missing.conllu")
