"""What the commands that switch heads off refuse before any model is looked at, and what they let pass."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["entropy", "caf\udce9"], "UTF-8"),
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


def test_a_name_steers_no_terminal(invoke, tmp_path, monkeypatch):
    """Neither in an error nor in a remark."""
    monkeypatch.chdir(tmp_path)
    rows = [{"text": "the dog", "genre": genre} for genre in ("a", "b", None)]
    Path("\x1b[31mred.jsonl").write_text("\n".join(map(json.dumps, rows)))
    words = ["entropy", "demo", "-d", "\x1b[31mred.jsonl", "--by-group"]
    assert "attnprobe: red.jsonl has no column 'kind'" in invoke(*words, "kind")[2]
    assert "attnprobe: Texts of red.jsonl without 'genre' are left out: 1." in invoke(*words, "genre")[2]


@pytest.mark.parametrize(
    ("size", "rank", "says"),
    [
        *((size, rank, "are no numbers") for size, rank in (("", "0"), ("two", "0"), ("2", "-1"))),
        ("2", "1", "The processes can't find each other"),
    ],
)
def test_processes_that_are_no_numbers_or_have_no_address(refused, monkeypatch, size, rank, says):
    monkeypatch.setenv("WORLD_SIZE", size)
    monkeypatch.setenv("RANK", rank)
    assert says in refused("entropy", "demo")


def test_standard_input_that_is_closed(refused, monkeypatch):
    monkeypatch.setattr(sys, "stdin", None)
    assert "standard input is closed" in refused("entropy", "demo", "-d", "-")


def test_streams_that_the_shell_closed(tmp_path):
    line = 'exec "$0" -m attnprobe entropy demo -L 2 -o "$1" >&- 2>&-'
    done = subprocess.run(["sh", "-c", line, sys.executable, tmp_path / "heads.csv"], check=False)
    assert done.returncode == 0
    assert (tmp_path / "heads.csv").exists()


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
        ("entropy", "demo", "--text-column", LONG, "-d", "table.csv"),
        ("entropy", "demo", f"--{LONG}"),
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
