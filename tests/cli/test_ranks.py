"""Several processes give the table of one."""

import os
import shlex
import socket
import subprocess
import sys

import numpy as np
import pandas
import pytest
import torch

from attnprobe.run.process_group import _open_store

pytestmark = pytest.mark.slow

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
from attnprobe.__main__ import main
from attnprobe.run import state

Stage, marker = state.Stage, Path(sys.argv.pop(1))
state.State.__init__.__defaults__, state._REST = (0.0,), 0
reached = Stage.mark_batch_done

def struck(self, snapshot):
    if os.environ["RANK"] == "1" and marker.exists():
        marker.write_text(marker.read_text() or str(self.done))
    elif os.environ["RANK"] == "1" and self.done == 2:
        marker.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    reached(self, snapshot)

Stage.mark_batch_done = struck
main()
"""
#: Runs one command line after the other, each line of a file.
SEVERAL = """
import shlex, sys
from pathlib import Path
from attnprobe.cli.app import run

for line in Path(sys.argv[1]).read_text().splitlines():
    sys.argv = ["attnprobe", *shlex.split(line)]
    if code := run(sys.argv[1:]):
        sys.exit(code)
"""


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("\n".join(LINES))
    return path


def torchrun(*words, restarts=0, processes=2):
    """Start processes, one thread each."""
    start = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", processes]
    command = [*start, "--max-restarts", restarts, *words]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    return subprocess.run(
        list(map(str, command)), capture_output=True, text=True, check=False, env=environment, timeout=240
    )


def assert_same(*paths):
    """Compare two tables up to the rounding of sums that are made in another order."""
    alone, shared = map(pandas.read_csv, paths)
    numbers = alone.select_dtypes("number").columns
    assert list(alone.columns) == list(shared.columns)
    assert alone.drop(columns=numbers).equals(shared.drop(columns=numbers))
    np.testing.assert_allclose(shared[numbers], alone[numbers], rtol=0, atol=1e-10)


def test_two_processes_give_the_table_of_one(invoke, text, tmp_path):
    """Start two, and kill one on the way: torchrun starts both again, and they go on."""
    words, target, script = ["census", "demo", "-d", text], tmp_path / "two.csv", tmp_path / "killed.py"
    more = ["--batch-tokens", "1", "--threads", "1"]
    assert invoke(*words, *more, "-o", tmp_path / "one.csv")[0] == 0
    script.write_text(KILLED)
    kept = ["--resume", tmp_path / "state", "-o", target]
    done = torchrun(script, tmp_path / "marker", *words, *more, *kept, restarts=1)
    assert done.returncode == 0, done.stderr
    assert done.stdout == ""
    assert done.stderr.count("attnprobe: wrote") == 2  # the table and its record, once each
    assert "of 8 batches are done" not in done.stderr.replace("of 4 batches are done", "")
    assert (tmp_path / "marker").read_text() == "2"
    assert sorted(path.name for path in tmp_path.glob("state*")) == ["state.0", "state.1"]
    assert_same(tmp_path / "one.csv", target)


@pytest.mark.exhaustive
def test_every_command(invoke, classifier, reviews, text, tmp_path):
    """Shared among two processes, some among three; of few batches, an ablation's cuts are shared as well."""
    data = ["-d", reviews / "all.tsv", "--threads", 1]
    sides = ["--in-domain", reviews / "all.tsv", "--out-domain", reviews / "first.tsv"]
    ablation = ["--measure", "ablation", "--metric", "loss", "--by", "head"]
    commands = {
        "importance": ["importance", classifier, *data, "--batch-tokens", 16],
        "ablate": ["ablate", classifier, *data],
        "mcc": ["ablate", classifier, *data, "--metric", "mcc", "--keep-one", "--batch-tokens", 16],
        "prune": ["prune", classifier, *data, "--step", "0.5", "--rerank", "--random-orders", 1],
        "correlate": ["correlate", classifier, *sides, *ablation],
        "distance": ["distance", "demo", "-d", text, "--all-pairs", "--batch-tokens", 64],
        "syntax": ["syntax", "demo", "-L", 20, "--batch-tokens", 64, "--min-links", 2],
        "roles": ["roles", "demo", "-L", 20, "--batch-tokens", 128],
        "rank": ["rank", "demo", "-d", text, "--batch-tokens", 64],
        "patch": ["patch", "demo", "-L", 9, "--threads", 1, "--batch-tokens", 16],
        "positions": ["patch", "demo", "-L", 5, "--threads", 1, "--batch-tokens", 16, "--positions"],
        "one batch": ["entropy", "demo", "-d", text, "-L", 1],
        "control": ["positional", classifier, *data, "--control", "--batch-tokens", 16],
        "induction": ["induction", "demo", "--sequences", 7, "--length", 9],
        "mixing": ["mixing", classifier, *data, "--by", "pair", "--batch-tokens", 16],
        "groups": ["census", classifier, *data, "--by-group", "label", "--batch-tokens", 16],
        "compare": ["compare", classifier, "demo", *data, "--batch-tokens", 16],
        "outputs": ["compare", classifier, "demo", *data, "--match", "outputs", "--batch-tokens", 16],
        "dynamics": [
            "dynamics", classifier, classifier, "--steps", "1,2", "--measure", "entropy", *data,
            "--batch-tokens", 16, "--resume", tmp_path / "steps",
        ],
    }  # fmt: skip
    for name, words in commands.items():
        assert invoke(*words, "-o", tmp_path / f"{name} of 1.csv")[0] == 0
    (tmp_path / "several.py").write_text(SEVERAL)
    # Shares that are not equal.
    odd = ("importance", "mcc", "syntax", "mixing", "groups", "positions", "one batch")
    for processes, names in ((2, tuple(commands)), (3, odd)):
        lines = [
            shlex.join(map(str, [*commands[name], "-o", tmp_path / f"{name} of {processes}.csv"]))
            for name in names
        ]
        (tmp_path / "lines").write_text("\n".join(lines))
        done = torchrun(tmp_path / "several.py", tmp_path / "lines", processes=processes)
        assert done.returncode == 0, done.stderr
        # Said once a command.
        assert done.stderr.count("the objective is classification") == {2: 5, 3: 2}[processes]
        for name in names:
            assert_same(tmp_path / f"{name} of 1.csv", tmp_path / f"{name} of {processes}.csv")


def test_the_others_say_that_the_first_process_is_gone(text, tmp_path):
    """Kill process 0, which keeps the store of all, after its first batch."""
    script = tmp_path / "killed.py"
    script.write_text(
        "import os, signal, sys\n"
        "from attnprobe.__main__ import main\n"
        "from attnprobe.run.state import Stage\n"
        "def struck(self, snapshot):\n"
        "    if os.environ['RANK'] == '0':\n"
        "        os.kill(os.getpid(), signal.SIGKILL)\n"
        "Stage.mark_batch_done = struck\n"
        "main()\n"
    )
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    shared = {"WORLD_SIZE": "2", "MASTER_ADDR": "localhost", "MASTER_PORT": str(port), "OMP_NUM_THREADS": "1"}
    words = [sys.executable, str(script), "entropy", "demo", "-d", str(text), "-o", str(tmp_path / "a.csv")]
    processes = [
        subprocess.Popen(words, env=os.environ | shared | {"RANK": rank}, stderr=subprocess.PIPE, text=True)
        for rank in ("0", "1")
    ]
    (_, _), (_, error) = (process.communicate(timeout=240) for process in processes)
    assert processes[1].returncode == 2, error
    assert "attnprobe: Another process of this run is gone" in error
    assert not (tmp_path / "a.csv").exists()


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
        stores.append(_open_store())
    stores[0].set("address", "of a process")
    assert [store.check(["address"]) for store in stores] == [True, True, False]
