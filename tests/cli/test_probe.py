"""probe on the command line: columns, state, record, processes, and what is refused."""

import json

import numpy as np
import pytest

COLUMNS = [
    *("model", "dataset", "relation", "n", "accuracy", "accuracy_se", "direction", "layer", "head", "chosen"),
    *("best_head_accuracy", "best_head_accuracy_se", "gain", "gain_se", "p", "p_adjusted"),
    *("baseline", "baseline_se", "baseline_rule"),
]
WORDS = ["probe", "demo", "-L", 40, "-q", "--threads", 1]


def test_columns(tabulate):
    table = tabulate(*WORDS)
    assert list(table) == COLUMNS
    assert list(table["relation"][:1]) == ["all"]
    np.testing.assert_allclose(table["gain"], table["accuracy"] - table["best_head_accuracy"], atol=1e-12)
    table = tabulate(*WORDS, "--labels", "det,case")
    assert sorted(table["relation"]) == ["case", "det"]
    heads = tabulate(*WORDS, "--by", "head")
    assert list(heads) == ["model", "dataset", "layer", "head", "direction", "n", "weight", "share"]
    assert len(heads) == 48
    assert heads["share"].sum() == pytest.approx(1)


def test_state_and_record(invoke, tmp_path):
    """A finished state gives the same; another penalty goes on from it, as reading does not depend on it."""
    state, path = tmp_path / "state", tmp_path / "found.csv"
    code, out, error = invoke(*WORDS, "--resume", state)
    assert code == 0, error
    assert invoke(*WORDS, "--resume", state)[1] == out
    again = invoke(*WORDS, "--resume", state, "--penalty", 1)
    assert again[0] == 0, again[2]
    assert invoke(*WORDS, "-o", path)[0] == 0
    record = json.loads(path.with_name(f"{path.name}.json").read_text())["provenance"]
    assert record["asked"]["penalty"] == 100
    code, _, error = invoke("merge", path, path)
    assert code == 2
    assert "is no record of a table that can be merged" in error
