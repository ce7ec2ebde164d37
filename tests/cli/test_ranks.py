"""Several processes give the table of one."""

import io
import os
import subprocess
import sys
from contextlib import nullcontext

import numpy as np
import pandas
import pytest
import torch

from attnprobe.run.ranks import Ranks, _meeting_place
from attnprobe.run.state import State

LINES = [
    f"The {noun} came {time}."
    for noun in ("parcel", "dog", "old miller", "train")
    for time in ("late", "in the night")
]
#: The program, but a state is written after every batch, and the second of two processes is killed once,
#: when it has kept two batches and has done a third; what it goes on with is noted.
KILLED = """
import os, signal, sys
from pathlib import Path
from attnprobe.cli.app import main
from attnprobe.run import state

State, marker = state.State, Path(sys.argv.pop(1))
State.__init__.__defaults__, state._REST = (0.0,), 0
reached = State.reached

def struck(self, snapshot):
    if os.environ["RANK"] == "1" and marker.exists():
        marker.write_text(marker.read_text() or str(self.done))
    elif os.environ["RANK"] == "1" and self._latest and self._latest[0] == 2:
        marker.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    reached(self, snapshot)

State.reached = struck
main()
"""


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("\n".join(LINES))
    return path


class Killed(BaseException):
    """The process is gone on the spot: nobody catches this."""


@pytest.fixture
def each(invoke, monkeypatch):
    """Give a function that runs a command line as one of two processes, the second first.

    Nothing travels between them but what the second gives to the first.
    """
    sent = []

    def gather(found, into):
        if into is None:
            sent[:] = [found]
        else:
            into[:] = [found, *sent]

    monkeypatch.setattr(Ranks, "joined", lambda _: nullcontext())
    monkeypatch.setattr(torch.distributed, "gather_object", gather)

    def call(rank, *words):
        monkeypatch.setenv("WORLD_SIZE", "2")
        monkeypatch.setenv("RANK", str(rank))
        return invoke(*words, "--batch-tokens", 1, "--threads", 1)

    return call


def test_two_processes_give_the_table_of_one(invoke, each, text, tmp_path):
    """Start two, and kill one on the way: torchrun starts both again, and they go on."""
    words, target, script = ["census", "demo", "-d", text], tmp_path / "two.csv", tmp_path / "killed.py"
    one = pandas.read_csv(io.StringIO(invoke(*words, "--batch-tokens", 1, "--threads", 1)[1]))
    assert each(1, *words)[:2] == (0, "")
    undisturbed = each(0, *words)[1]

    script.write_text(KILLED)
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--max-restarts", "1"]
    more = ["--batch-tokens", "1", "--threads", "1", "--resume", tmp_path / "state", "-o", target]
    command = [*torchrun, script, tmp_path / "marker", *words, *more]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        list(map(str, command)), capture_output=True, text=True, check=False, env=environment, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == ""
    assert done.stderr.count("attnprobe: wrote") == 2  # the table and its record, once each
    assert "of 8 batches are done" in done.stderr
    assert (tmp_path / "marker").read_text() == "2"
    assert sorted(path.name for path in tmp_path.glob("state*")) == ["state.0", "state.1"]

    assert target.read_text() == undisturbed
    two = pandas.read_csv(target)
    numbers = one.select_dtypes("number").columns
    assert set(two["n"]) == {len(LINES)}
    np.testing.assert_allclose(two[numbers], one[numbers], rtol=0, atol=1e-10)


def test_what_a_killed_process_left_is_not_found_by_the_next(monkeypatch):
    """torchrun keeps its store: the address of the dead would be waited for."""
    kept = torch.distributed.TCPStore("localhost", 0, is_master=True)
    for name, value in {
        "MASTER_ADDR": "localhost", "MASTER_PORT": kept.port, "RANK": 1,
        "WORLD_SIZE": 2, "LOCAL_WORLD_SIZE": 2, "TORCHELASTIC_USE_AGENT_STORE": True,
    }.items():  # fmt: skip
        monkeypatch.setenv(name, str(value))
    stores = []
    for restarts in (0, 0, 1):
        monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", str(restarts))
        stores.append(_meeting_place())
    stores[0].set("address", "of a process")
    assert [store.check(["address"]) for store in stores] == [True, True, False]


def test_killed_before_anything_was_kept(each, text, tmp_path, monkeypatch):
    words = ["census", "demo", "-d", text]
    each(1, *words)
    expected = each(0, *words)[1]

    def killed(*_):
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(State, "reached", killed)
        patch.setattr(State, "write", lambda _: None)
        with pytest.raises(Killed):
            each(1, *words, "--resume", tmp_path / "state")
    assert not (tmp_path / "state.1").exists()
    assert each(1, *words, "--resume", tmp_path / "state")[:2] == (0, "")
    assert each(0, *words, "--resume", tmp_path / "state")[1] == expected
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
