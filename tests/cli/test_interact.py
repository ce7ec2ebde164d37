"""interact, and ablate --with, on the command line: columns, state, record, the same numbers again."""

import io
import json

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
    code, out, said = invoke(*words)
    assert code == 0, said
    found = pandas.read_csv(io.StringIO(out))
    assert list(found) == PAIRS
    assert len(found) == 3
    assert (found["proposed"].abs().diff().dropna() <= 0).all()


@pytest.mark.slow
def test_state_and_record(invoke, words, tmp_path):
    """A finished state gives the same; other pairs are another question."""
    state, path = tmp_path / "state", tmp_path / "pairs.csv"
    code, out, said = invoke(*words, "--resume", state)
    assert code == 0, said
    assert invoke(*words, "--resume", state)[1] == out
    code, _, said = invoke(*[4 if word == 3 else word for word in words], "--resume", state)
    assert code == 2
    assert "--pairs" in said
    assert invoke(*words, "-o", path)[0] == 0
    record = json.loads(path.with_name(f"{path.name}.json").read_text())
    assert record["provenance"]["task"]["objective"] == "masked-lm"


@pytest.mark.slow
def test_a_replacement_is_another_question(invoke, tmp_path):
    state = tmp_path / "state"
    words = ["ablate", "demo", "-L", 6, "-q", "--threads", 1]
    assert invoke(*words, "--with", "mean", "--resume", state)[0] == 0
    code, _, said = invoke(*words, "--with", "resample", "--resume", state)
    assert code == 2
    assert "--with" in said


def test_refusals(invoke):
    assert (
        invoke("ablate", "demo", "--draws", 8)[2].splitlines()[-1]
        == "attnprobe: --draws is for --with resample."
    )
    code, _, said = invoke("interact", "demo", "-L", 2)
    assert code == 2
    assert "interact needs at least two documents in either half of the data; give more." in said
