"""What the commands that switch heads off refuse before any model is looked at, and what they let pass."""

import io
import json
import shutil

import numpy as np
import pandas
import pytest

from attnprobe.model.load import load_checkpoint
from attnprobe.model.pruning import save_pruned
from attnprobe.model.removing import remove_heads


@pytest.fixture
def refused_early(invoke, monkeypatch):
    """Run a command line that must end in one sentence before any checkpoint is loaded."""

    def looked(*_, **__):
        raise AssertionError("a model was looked at")

    def call(*words):
        with monkeypatch.context() as patched:
            patched.setattr("attnprobe.model.load.load_checkpoint", looked)
            patched.setattr("attnprobe.run.preparation.examine", looked)
            code, out, error = invoke(*words)
        assert (code, out) == (2, ""), error
        assert "unexpected" not in error
        return error.splitlines()[-1]

    return call


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["prune", "demo", "--save", "x", "--share", "1"], "--share"),
        (["prune", "demo", "--save", "file/x", "--share", "0.5"], "is a file"),
        (["prune", "demo", "-d", "-", "--rank-data", "-"], "read once"),
        (["correlate", "demo", "--in-domain", "-", "--out-domain", "-"], "read once"),
        (["correlate", "demo", "--in-domain", "", "--out-domain", "text.csv"], "both sides"),
        (["importance", "demo", "--force-head", "-d", "text.csv"], "--objective"),
        (["importance", "demo", "-d", "twice.csv"], "more than one column 'label'"),
        (["importance", "demo", "-d", "text.csv", "--label-column", "text", "--text-column", "text"], "both"),
        (
            ["importance", "demo", "-d", "text.csv", "--text-column", "label", "--label-column", "label"],
            "both",
        ),
    ],
)
def test_refused_before_any_model(refused_early, tmp_path, monkeypatch, words, says):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.stdin", io.StringIO("the dog\n"))
    (tmp_path / "file").touch()
    (tmp_path / "text.csv").write_text("text,label\nthe dog,0\na cat,1\n")
    (tmp_path / "twice.csv").write_text("text,label,label\nthe dog,0,1\na cat,1,0\n")
    assert says in refused_early(*words)


def test_a_layer_without_heads(invoke, classifier, reviews, tmp_path):
    """A checkpoint that lost a layer's heads is a checkpoint all the same."""
    whole = load_checkpoint(str(classifier))
    keep = np.ones((3, 4), bool)
    keep[1] = False
    save_pruned(remove_heads(whole, keep), whole, keep, tmp_path / "pruned", physical=False, record={})
    words = ("-d", reviews / "all.tsv", "--objective", "representation")
    code, out, error = invoke("importance", tmp_path / "pruned", *words)
    assert code == 0, error
    found = pandas.read_csv(io.StringIO(out))
    assert (found["importance"].to_numpy().reshape(3, 4) > 0).tolist() == keep.tolist()
    assert found["importance_normalized"].isna().to_numpy().reshape(3, 4).tolist() == (~keep).tolist()


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["entropy", "caf\udce9"], "no UTF-8"),
        (["entropy", "demo", "-d", "gone\udce9.txt"], "there is no file"),
        (["entropy", "demo", "-d", "table.csv", "--text-column", "caf\udce9"], "has no column"),
        (["links", "demo", "-d", "lone.jsonl"], "half a surrogate pair"),
        (["patch", "demo", "-d", "lone.jsonl"], "half a surrogate pair"),
    ],
)
def test_bytes_that_are_no_utf8(invoke, saved, tmp_path, monkeypatch, words, says):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "table.csv").write_text("text\nthe dog\n")
    lone = {"text": "a \ud800", "links": [], "clean": "a \ud800", "corrupted": "b", "answer": "c"}
    (tmp_path / "lone.jsonl").write_text(json.dumps(lone) + "\n")
    shutil.copytree(saved("bert"), tmp_path / "caf\udce9")
    code, out, error = invoke(*words)
    assert (code, out, error.count("\n")) == (2, "", 1)
    assert says in error
    assert "codec" not in error


def test_a_file_whose_name_is_no_utf8_is_read(invoke, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "caf\udce9.txt").write_text("the dog\n")
    assert invoke("entropy", "demo", "-d", "caf\udce9.txt", "-o", "heads.csv")[0] == 0


LONG = "x" * 200_000


@pytest.mark.parametrize(
    "words",
    [
        ("entropy", LONG),
        ("entropy", "demo", "-d", LONG),
        ("entropy", "demo", "-d", "a " * 100_000),
        ("entropy", "demo", "--text-column", LONG, "-d", "table.csv"),
        ("entropy", "demo", f"--{LONG}"),
        ("entropy", "demo", "--device", LONG),
        ("entropy", "demo", "-o", f"{LONG}.csv"),
        ("census", "demo", "--statistics", LONG),
        ("merge", LONG, LONG),
        (LONG,),
    ],
)
def test_no_name_fills_a_screen(invoke, tmp_path, monkeypatch, words):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "table.csv").write_text(f"{LONG}y,text\n1,2\n")
    code, out, error = invoke(*words)
    assert (code, out) == (2, "")
    assert "unexpected" not in error
    assert 0 < len(error) < 9_000
