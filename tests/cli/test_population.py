"""``--population corpus``: errors about the documents of one corpus alone, which run out."""

import io
import json
import math

import numpy as np
import pandas as pd
import pytest

import attnprobe
from attnprobe.errors import AttnprobeError

RANDOM = np.random.default_rng(8)
WORDS = "the dog ran to old house by a river and slept under green trees".split()  # noqa: SIM905
LINES = [" ".join(RANDOM.choice(WORDS, RANDOM.integers(3, 9))) + f" {place} ." for place in range(180)]


@pytest.fixture
def corpus(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "text.txt").write_text("\n".join(LINES) + "\n")
    return tmp_path


def test_errors_are_those_of_text_like_it_less_what_was_read(invoke, corpus):
    """And numbers are the same, of the same documents."""
    words = ("entropy", "demo", "-d", "text.txt", "--until", "entropy=1")
    code, out, error = invoke(*words)
    assert code == 0, error
    usual = pd.read_csv(io.StringIO(out))
    code, out, error = invoke(*words, "--population", "corpus", "-o", "corpus.csv")
    assert code == 0, error
    assert "Standard errors are about the 180 documents of this corpus alone" in error
    found = pd.read_csv(corpus / "corpus.csv")
    for name in usual.columns[4:]:
        factor = math.sqrt(1 - 128 / 180) if name.endswith("_se") else 1
        np.testing.assert_allclose(found[name], usual[name] * factor, rtol=1e-9, err_msg=name)
    record = json.loads((corpus / "corpus.csv.json").read_text())["provenance"]
    assert record["options"]["population"] == record["until"]["population"] == "corpus"
    assert (record["until"]["documents"], record["until"]["of"]) == (128, 180)
    code, _, error = invoke("rerun", "corpus.csv")
    assert code == 0, error
    assert "digit for digit" in error


def test_of_all_documents_nothing_is_left_to_chance(corpus):
    """By blocks, by groups and one document alone too; what has no number has no error."""
    for table in (
        attnprobe.mixing("demo", LINES[:20], until=1e-9, population="corpus"),
        attnprobe.entropy("demo", LINES[:1], until=1e-9, population="corpus"),
        attnprobe.census("demo", ["a b", "c d"], until=1e-9, population="corpus"),
        attnprobe.syntax("demo", by="head", until=1e-9, population="corpus"),
    ):
        errors = [column.name for column in table.columns if column.role == "error"]
        assert errors
        for name in errors:
            value, error = (np.array(table.data[one], float) for one in (name.removesuffix("_se"), name))
            np.testing.assert_array_equal(error, np.where(np.isnan(value), np.nan, 0.0), err_msg=name)


def test_refusals(invoke, corpus):
    code, _, error = invoke("entropy", "demo", "-d", "text.txt", "--population", "corpus")
    assert code == 2
    assert "--population corpus is about --until; give that too." in error
    code, _, error = invoke("entropy", "demo", "-d", "text.txt", "--population", "town")
    assert code == 2
    table = attnprobe.entropy("demo", LINES, until=1, population="corpus")
    with pytest.raises(AttnprobeError, match="errors about one corpus alone"):
        attnprobe.merge([table, attnprobe.entropy("demo", ["a b"])])
    assert "population" not in attnprobe.entropy("demo", LINES, until=1).provenance["options"]


def test_a_state_goes_on_to_the_same_errors(invoke, corpus):
    words = ("entropy", "demo", "-d", "text.txt", "--population", "corpus", "--resume", "state")
    first = invoke(*words, "--until", "entropy=1")
    assert first[0] == 0, first[2]
    assert invoke(*words, "--until", "entropy=1")[1] == first[1]
    code, out, _ = invoke(*words, "--until", "entropy=0.0001")
    assert code == 0
    assert (pd.read_csv(io.StringIO(out))["entropy_se"] == 0).all()
