"""Several processes give the table of one."""

import os
import subprocess
import sys

import numpy as np
import pandas
import pytest

LINES = [
    f"The {noun} came {time}."
    for noun in ("parcel", "dog", "old miller", "train")
    for time in ("late", "in the night")
]
TORCHRUN = ("-m", "torch.distributed.run", "--nproc-per-node", "2", "-m", "attnprobe")


def launch(*words, processes=2):
    started = TORCHRUN if processes == 2 else ("-m", "attnprobe")
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    command = [sys.executable, *started, *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment, timeout=120)


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("\n".join(LINES))
    return path


def test_two_processes_give_the_table_of_one(text, tmp_path):
    tables = []
    for processes in (1, 2):
        target = tmp_path / f"{processes}.csv"
        words = ["census", "demo", "-d", text, "--batch-tokens", "1", "-o", target]
        if processes == 2:
            words += ["--resume", tmp_path / "state"]
        done = launch(*words, processes=processes)
        assert done.returncode == 0, done.stderr
        assert done.stdout == ""
        assert done.stderr.count("attnprobe: wrote") == 2  # the table and its record, once each
        tables.append(pandas.read_csv(target))
    numbers = tables[0].select_dtypes("number").columns
    assert set(tables[1]["n"]) == {len(LINES)}
    np.testing.assert_allclose(tables[1][numbers], tables[0][numbers], rtol=0, atol=1e-10)
    assert sorted(path.name for path in tmp_path.glob("state*")) == ["state.0", "state.1"]


def in_two(monkeypatch, *words):
    """Run as the first of two processes, up to where they would meet."""
    from attnprobe.cli.app import run

    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("RANK", "0")
    return run([str(word) for word in words])


def test_more_processes_than_batches(monkeypatch, text, capfd):
    assert in_two(monkeypatch, "entropy", "demo", "-d", text, "-L", "1") == 2
    assert "1 batches for 2 processes" in capfd.readouterr().err


def test_standard_input_and_other_commands(monkeypatch, capfd):
    assert in_two(monkeypatch, "entropy", "demo", "-d", "-") == 2
    assert "one process only" in capfd.readouterr().err
    for command in ("importance", "ablate", "prune", "doctor"):
        assert in_two(monkeypatch, command, "demo") == 2
        assert "without torchrun" in capfd.readouterr().err
