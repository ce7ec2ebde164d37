"""Runs that are stopped and go on, and states that are not what they seem.

A real process is killed in tests/cli/test_resume.py.
"""

import errno
import hashlib
import io
import json
import os
import pickle
import signal
import subprocess
import sys
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from attnprobe import files
from attnprobe.corpus.document import Document
from attnprobe.errors import AttnprobeError, AttnprobeWarning
from attnprobe.model.check.dry_run import inspect
from attnprobe.run.options import CorpusOptions
from attnprobe.run.passes import Run
from attnprobe.run.preparation import tokenise
from attnprobe.run.progress import SilentProgress
from attnprobe.run.state import EVERY, State, Terminated, check_state
from attnprobe.statistics import census_statistics
from attnprobe.statistics.distance import ALL_PAIRS
from attnprobe.sums.base import Measurement
from attnprobe.survey.measure import open_evaluator

MAGIC = b"attnprobe state 3\n"
KEY = {"model": "m", "dataset": "d", "setting": "s"}
WORDS = ("the", "river", "bank", "house", "dog", "parcel", "came", "late", "slow", "red", "blue")


def done_of(path):
    """Tell how many batches are done in the only stage of a state, which must be ours."""
    if not path.exists():
        return 0
    State(path, KEY)
    head = path.read_bytes()[len(MAGIC) + 32 :].partition(b"\n")[0]
    (stage,) = json.loads(head)["stages"]
    assert stage["name"] == "passing"
    return stage["done"]


def list_names(folder):
    """List the names of the files of a folder, hidden ones too."""
    return sorted(path.name for path in folder.iterdir())


def sentences(number):
    rng = np.random.default_rng(3)
    return [Document(" ".join(rng.choice(WORDS, rng.integers(1, 12)))) for _ in range(number)]


@contextmanager
def open_census(checkpoint):
    """Yield what runs a census of a few batches, from a state on, and lists the arrays of its sums."""
    architecture, statistics = inspect(checkpoint), [*census_statistics(), ALL_PAIRS]
    restore = partial(Measurement.from_arrays, kinds={each.name: each.sums for each in statistics})
    with tokenise(checkpoint, sentences(120), CorpusOptions(batch_tokens=24)) as corpus:
        batches = corpus.batches.follow(corpus.batches.plan[::9])

        def run(state, progress=None):
            run = Run(state=state, progress=progress or SilentProgress())
            with state.save_on_exit(), open_evaluator(checkpoint, architecture, statistics) as measure:
                sums = run.total("passing", batches, measure.measurement, restore)
            return [np.array([sums.sequences, sums.tokens]), *sums.arrays().values()]

        yield run


def assert_same(arrays, expected):
    assert len(arrays) == len(expected) > 2
    for ours, theirs in zip(arrays, expected, strict=True):
        assert ours.dtype == theirs.dtype
        assert ours.tobytes() == theirs.tobytes()


class Stopping(SilentProgress):
    """Stops a run after some steps, as Ctrl-C does."""

    def __init__(self, steps):
        self.left = steps

    def advance(self, steps):
        self.left -= 1
        if not self.left:
            raise KeyboardInterrupt


def test_stopped_and_resumed(checkpoint, tmp_path):
    path = tmp_path / "state"
    with open_census(checkpoint("bert")) as run:
        expected = run(State())
        for steps, done in ((3, 3), (2, 4), (1, 4)):  # the first step of a run that goes on is what is done
            with pytest.raises(KeyboardInterrupt):
                run(State(path, KEY), Stopping(steps))
            assert done_of(path) == done
        assert_same(run(State(path, KEY)), expected)
    assert list_names(tmp_path) == ["state"]


# Signals and threads


def test_sigterm(checkpoint, tmp_path):
    path, before = tmp_path / "state", signal.getsignal(signal.SIGTERM)
    handlers = []

    class Struck(SilentProgress):
        def advance(self, steps):
            handlers.append(signal.getsignal(signal.SIGTERM))
            if len(handlers) == 4:
                os.kill(os.getpid(), signal.SIGTERM)

    def ignore(*_):
        pytest.fail("the signal came when the run was over")

    with open_census(checkpoint("bert")) as run:
        signal.signal(signal.SIGTERM, ignore)
        try:
            with pytest.raises(Terminated):
                run(State(path, KEY), Struck())
            assert signal.getsignal(signal.SIGTERM) is ignore
            assert ignore not in handlers
            assert done_of(path) == 4
            arrays = run(State(path, KEY))
            assert signal.getsignal(signal.SIGTERM) is ignore
        finally:
            signal.signal(signal.SIGTERM, before)
        assert_same(arrays, run(State()))


# Full disks


def full(*_):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_disk_full(checkpoint, tmp_path, monkeypatch):
    path, write_through = tmp_path / "state", files._write_through

    def half(file, content):
        file.write_bytes(content[: len(content) // 2])
        full()

    with open_census(checkpoint("bert")) as run:
        expected = run(State())
        with pytest.raises(KeyboardInterrupt):
            run(State(path, KEY), Stopping(2))
        old = path.read_bytes()
        for every in (EVERY, 0.0):  # at the end, after the next batch
            monkeypatch.setattr(files, "_write_through", half)
            with pytest.warns(AttnprobeWarning, match=r"could not write .*state: No space left .*; the run"):
                assert_same(run(State(path, KEY, every)), expected)
            assert path.read_bytes() == old
            assert list_names(tmp_path) == ["state"]
        monkeypatch.setattr(files, "_write_through", write_through)
        assert done_of(path) == 2
        assert_same(run(State(path, KEY)), expected)


# Files that are no state of this run


STAGE = {"plan of batches": "p"}


@pytest.fixture
def state(tmp_path):
    """Write a small state, and give its file."""
    state = State(tmp_path / "state", KEY)
    stage = state.stage("passing", STAGE)
    stage.mark_batch_done(lambda: {"a": np.arange(3.0), "b": np.array([[1.5]])})
    stage.mark_batch_done(lambda: {"a": np.arange(3.0), "b": np.array([[2.5]])})
    state.write()
    return tmp_path / "state"


def test_round_trip(state):
    loaded, content = State(state, KEY), state.read_bytes()
    stage = loaded.stage("passing", STAGE)
    assert stage.done == 2
    assert {name: values.tolist() for name, values in stage.kept[1]().items()} == {
        "a": [0, 1, 2],
        "b": [[2.5]],
    }
    state.unlink()
    loaded.write()  # nothing new: nothing is written
    assert not state.exists()
    state.write_bytes(content)
    stage.mark_batch_done(lambda: {})
    loaded.write()
    assert State(state, KEY).stage("passing", STAGE).done == 3


def assert_refused(path, content, match="damaged|no state|another version"):
    path.write_bytes(content)
    with pytest.raises(AttnprobeError, match=match) as caught:
        State(path, KEY)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)
    assert path.read_bytes() == content


def test_truncated(state):
    content = state.read_bytes()
    for length in range(0, len(content), 7):
        assert_refused(state, content[:length])


def test_flipped(state):
    content = bytearray(state.read_bytes())
    for place in range(0, len(content), 7):
        for bit in (1, 128):
            content[place] ^= bit
            assert_refused(state, bytes(content))
            content[place] ^= bit
    assert_refused(state, bytes(content) + b"\0", "damaged")


@pytest.mark.parametrize(
    "content",
    [b"", b"layer,head\n0,0\n", b"PK\x03\x04", b"attnprobe state 1\n" + bytes(64), b"\x80\x04N."],
)
def test_another_file(tmp_path, content):
    assert_refused(tmp_path / "state", content, "no state of attnprobe")


def sealed(head, numbers):
    body = json.dumps(head).encode() + b"\n" + numbers
    return MAGIC + hashlib.sha256(body).digest() + body


class Bomb:
    """Leaves a file behind when it is unpickled."""

    def __init__(self, target):
        self.target = target

    def __reduce__(self):
        return Path.touch, (self.target,)


def test_no_pickle_is_run(tmp_path):
    buffer, path, sign = io.BytesIO(), tmp_path / "state", tmp_path / "sign"
    np.savez(buffer, a=np.array([Bomb(sign)], object))
    for numbers in (buffer.getvalue(), pickle.dumps(Bomb(sign))):
        path.write_bytes(sealed({"key": KEY, "stages": [{"name": "passing", "key": {}, "done": 1}]}, numbers))
        with pytest.raises(AttnprobeError, match="damaged"):
            State(path, KEY)
        assert not sign.exists()
    with np.load(io.BytesIO(buffer.getvalue()), allow_pickle=True) as arrays:
        assert arrays["a"].shape == (1,)
    assert sign.exists()  # the bomb is one


def test_a_state_that_another_run_holds(tmp_path: Path):
    """The second of two runs is refused while the first goes on, and reads the state afterwards."""
    path = tmp_path / "state"
    state = State(path, KEY)
    holder = "import sys; from pathlib import Path; from attnprobe.run.state import hold_state\n"
    holder += "with hold_state(Path(sys.argv[1])): print('held', flush=True); sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", holder, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"held\n"
        with pytest.raises(AttnprobeError, match="Another run holds the state"), state.save_on_exit():
            pass
        other.communicate()
    with state.save_on_exit():
        pass
    assert list_names(tmp_path) == []


def test_a_state_that_cannot_be_written_is_refused_early(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("attnprobe.run.state.try_writing", full)
    with pytest.raises(AttnprobeError, match=r"The state .*state can't be written: No space left on device"):
        check_state(tmp_path / "state")
