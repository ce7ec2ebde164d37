"""interact, and ablate --with, on the command line: columns, state, record, the same numbers again."""

import io

import pandas
import pytest


@pytest.fixture
def words(tmp_path):
    return ["interact", "demo", "-L", 12, "--pairs", 3, "-q", "--threads", 1]


PAIRS = [
    *("model", "dataset", "objective", "layer_a", "head_a", "layer_b", "head_b", "n"),
    *("proposed", "interaction", "interaction_se", "p", "p_adjusted"),
]


def test_columns(invoke, words):
    code, out, error = invoke(*words)
    assert code == 0, error
    table = pandas.read_csv(io.StringIO(out))
    assert list(table) == PAIRS
    assert len(table) == 3
    assert (table["proposed"].abs().diff().dropna() <= 0).all()
