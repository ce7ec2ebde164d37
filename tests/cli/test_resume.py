"""``--resume`` from the command line: killed processes, full disks, and states of other runs."""

import errno
import os
import random
import signal
import subprocess
import sys
import time

import pytest
import torch

from attnprobe import files

pytestmark = pytest.mark.slow  # runs are stopped and go on

LINES = [
    "The parcel came late.", "She signed for it, grumbling, and shut the door.", "Who rang?",
    "the river bank", "a bird ran", "the dog and the cat", "stone", "never stop by the river at night",
    "blue water and red light",
]  # fmt: skip


def held(folder):
    """Name what a folder holds, hidden files too."""
    return sorted(path.name for path in folder.iterdir())


class Stop(BaseException):
    """Stops the process on the spot: nobody catches this."""


@pytest.fixture
def lines(tmp_path):
    """Write the lines of a text, and give its file."""

    def write(text, name="lines.txt"):
        path = tmp_path / name
        path.write_text("".join(f"{line}\n" for line in text))
        return path

    return write


# The same table, however often it was stopped


COMMANDS = [["census"], ["distance", "--all-pairs"], ["ablate", "--metric", "mcc"], ["importance"]]
#: Commands that pass over their examples more than once.
SEVERAL = [
    ["prune", "--step", "0.25", "--rerank", "--random-orders", "1"],
    ["ablate", "--with", "resample", "--metric", "loss"],
    ["correlate"],
    ["compare", "demo", "--match", "model"],
]


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_same_bytes(invoke, passes, classifier, reviews, tmp_path, command):
    path = tmp_path / "state"
    words = [command[0], classifier, "-d", reviews / "all.tsv", *command[1:], "--batch-tokens", "8"]
    code, expected, _ = invoke(*words)
    total, passes["batches"] = passes["batches"], 0
    assert (code, total >= 10) == (0, True)
    for stop in (3, 4):
        passes |= {"batches": 0, "stop": stop}
        code, out, error = invoke(*words, "--resume", path)
        assert (code, out) == (130, "")
        assert error.endswith("attnprobe: stopped; give the same command again to go on.\n")
    passes |= {"batches": 0, "stop": None}
    code, out, error = invoke(*words, "--resume", path)
    assert (code, out) == (0, expected)
    assert passes["batches"] == total - 7
    assert f"going on from {path}: 7 of {total} batches are done." in error
    content, passes["batches"] = path.read_bytes(), 0
    code, out, error = invoke(*words, "--resume", path)
    assert (code, out, passes["batches"]) == (0, expected, 0)
    assert f"{total} of {total} batches are done." in error
    assert path.read_bytes() == content


@pytest.mark.parametrize("command", SEVERAL, ids=" ".join)
def test_same_bytes_of_several_passes(invoke, passes, classifier, reviews, tmp_path, command):
    path, rng = tmp_path / "state", random.Random(" ".join(command))
    data = ["-d", reviews / "all.tsv"]
    if command[0] == "correlate":
        data = ["--in-domain", reviews / "all.tsv", "--out-domain", reviews / "first.tsv"]
    words = [command[0], classifier, *data, *command[1:], "--batch-tokens", "8"]
    invoke(*words)  # what is checked of a model once in a process is not counted
    passes["batches"] = 0
    code, expected, _ = invoke(*words)
    total, done, stops = passes["batches"], 0, 0
    assert code == 0
    while True:
        stop = rng.randint(2, max(3, total // 3))
        passes |= {"batches": 0, "stop": stop}
        code, out, _ = invoke(*words, "--resume", path)
        done += passes["batches"]
        if code == 0:
            break
        assert (code, out) == (130, "")
        # Of a batch, one model, or some of the examples that replace heads, may be asked again.
        stops += {"compare": 1, "ablate": 9}.get(command[0], 0)
    assert out == expected
    assert total <= done <= total + stops


#: The program, but a state is written twenty times a second.
HASTY = """
from attnprobe.run.state import State
State.__init__.__defaults__ = (0.05,)
from attnprobe.__main__ import main
main()
"""


def test_real_signals(invoke, tmp_path):
    """Send SIGTERM; SIGKILL comes in test_ranks.py."""
    path, rng = tmp_path / "state", random.Random(1)
    # Long enough to be hit while it measures, short enough for a test.
    words = ["census", "demo", "--batch-tokens", "64", "-L", "200", "--threads", "1", "-q"]

    command = [sys.executable, "-c", HASTY, *words, "--resume", str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        deadline = time.monotonic() + 60
        while not path.exists():
            assert process.poll() is None, process.stderr.read()
            assert time.monotonic() < deadline
            time.sleep(0.005)
        time.sleep(rng.uniform(0, 0.2))
        process.send_signal(signal.SIGTERM)
        out, error = process.communicate(timeout=60)
    assert (process.returncode, out) == (143, "")
    assert error == "\nattnprobe: stopped; give the same command again to go on.\n"
    code, expected, _ = invoke(*words)
    assert (code, expected.count("\n") > 2) == (0, True)
    words.remove("-q")
    code, out, error = invoke(*words, "--resume", path)
    assert "going on from" in error
    assert (code, out) == (0, expected)


# States of other runs


def half_done(invoke, passes, path, *words):
    """Stop a run in the middle, and give what its state holds."""
    passes |= {"batches": 0, "stop": 3}
    assert invoke(*words, "--resume", path)[0] == 130
    passes |= {"batches": 0, "stop": None}
    return path.read_bytes()


@pytest.fixture
def differs(invoke, refused, passes, saved, lines, tmp_path):
    """Give a function that runs the command of a half done census with other words, and must be refused."""
    path, model, text = tmp_path / "state", saved("bert"), lines(LINES)
    content = half_done(
        invoke, passes, path, "census", model, "-d", text, "--batch-tokens", 8, "--threads", 1, "-q"
    )

    def call(*more, model=model, text=text, command="census", batch=8, threads=1):
        words = [command, model, "-d", text, "--batch-tokens", batch, "--threads", threads, *more]
        sentence = refused(*words, "-q", "--resume", path)
        assert path.read_bytes() == content
        assert passes["batches"] == 0
        return sentence.partition(" belongs to a run with another ")[2].partition(";")[0]

    yield call
    torch.set_num_threads(1)


@pytest.mark.parametrize(
    "text",
    [[*LINES, "One more."], LINES[:-1], LINES[::-1], [*LINES[:-1], "blue"]],
    ids=["one more", "truncated", "another order", "another word"],
)
def test_another_text(differs, lines, text):
    assert differs(text=lines(text, "other.txt")) == "dataset"


@pytest.mark.parametrize(
    "more", [["--content-only"], ["--max-length", "50"], ["--truncate"], ["--limit", "1000"]], ids=" ".join
)
def test_another_setting(differs, more):
    assert differs(*more) == "setting"


# Files that are no states, and disks that take none


def test_disk_full(invoke, refused, passes, saved, lines, tmp_path, monkeypatch):
    path, words = tmp_path / "state", ["census", saved("bert"), "-d", lines(LINES), "--batch-tokens", 8, "-q"]
    _, expected, _ = invoke(*words)
    total, content = passes["batches"], half_done(invoke, passes, path, *words)

    def full(file, content):
        file.write_bytes(content[:100])
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(files, "_write_through", full)
        passes |= {"batches": 0, "stop": None}
        code, out, error = invoke(*words[:-1], "--resume", path)
        assert (code, out) == (0, expected)  # the state is lost, the table is not
    assert f"could not write {path}: No space left on device; the run goes on without its state" in error
    assert path.read_bytes() == content
    assert held(tmp_path) == ["lines.txt", "state"]
    passes |= {"batches": 0, "stop": None}
    assert invoke(*words, "--resume", path)[:2] == (0, expected)
    assert passes["batches"] == total - 3
