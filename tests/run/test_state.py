"""Runs stopped at random places, in every way a run can be stopped, and states that are not what they seem.

A stopped process is played inside the test: Ctrl-C and SIGTERM as the exceptions they become, ``kill -9``
as one after which nothing is written and nothing is tidied up. A real process is killed in
tests/cli/test_resume.py.
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
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from attnprobe import files
from attnprobe.corpus.document import Document
from attnprobe.errors import AttnprobeError, AttnprobeWarning
from attnprobe.model.check.dry_run import inspect
from attnprobe.run.options import CorpusOptions
from attnprobe.run.passes import Run
from attnprobe.run.preparation import tokenise
from attnprobe.run.process_group import ProcessGroup, Ranks
from attnprobe.run.progress import SilentProgress
from attnprobe.run.state import EVERY, Stage, State, Terminated, check_state
from attnprobe.statistics import census_statistics
from attnprobe.statistics.distance import ALL_PAIRS
from attnprobe.sums.base import Measurement
from attnprobe.survey.measure import open_evaluator

MAGIC = b"attnprobe state 3\n"
KEY = {"model": "m", "dataset": "d", "setting": "s"}
WORDS = ("the", "river", "bank", "house", "dog", "parcel", "came", "late", "slow", "red", "blue")


class Killed(BaseException):
    """The process is gone: nothing of it runs any more."""


ERRORS = {"kill": Killed, "interrupt": KeyboardInterrupt, "terminate": Terminated}


class Gremlin:
    """Knows the places that a run passes, and stops it at one of them."""

    def __init__(self, monkeypatch):
        self.passed, self.stopped_at, self.noted = Counter(), Counter(), 0
        self._left, self._place, self._error, self._dead = 0, "", None, False
        reached, write = Stage.mark_batch_done, State.write
        write_through, remove, replace = files._write_through, files._remove, Path.replace

        def watched_reached(stage, snapshot):
            def watched():
                found = snapshot()
                self.passes("inside the snapshot")
                return found

            self.passes("before reached")
            self.noted += 1
            reached(stage, watched)
            self.passes("after reached")

        def watched_write_through(path, content):
            path.write_bytes(content[: len(content) // 2])
            self.passes("half written")
            path.unlink()
            write_through(path, content)

        def watched_replace(path, target):
            ours = path.name.startswith(".attnprobe-")
            if ours:
                self.passes("before the rename")
            found = replace(path, target)
            if ours:
                self.passes("after the rename")
            return found

        monkeypatch.setattr(Stage, "mark_batch_done", watched_reached)
        monkeypatch.setattr(State, "write", lambda state: None if self._dead else write(state))
        monkeypatch.setattr(files, "_write_through", watched_write_through)
        monkeypatch.setattr(files, "_remove", lambda path: None if self._dead else remove(path))
        monkeypatch.setattr(Path, "replace", watched_replace)

    def lie_in_wait(self, kind, after, place):
        """Stop the run when it has passed a place so often."""
        self._error, self._left, self._place = ERRORS[kind], after, place

    def go_away(self):
        self._error, self._dead, self.noted = None, False, 0
        self.passed.clear()

    def passes(self, place, *_):
        self.passed[place] += 1
        if self._dead or self._error is None or self._place != place:
            return
        self._left -= 1
        if not self._left:
            error, self._error = self._error, None
            self._dead = error is Killed
            self.stopped_at[place, error.__name__] += 1
            raise error


@dataclass
class Long:
    """A run of many batches, and what it gives, as arrays."""

    batches: int
    run: Callable[[State], list]


@pytest.fixture
def gremlin(monkeypatch, checkpoint):
    """Let a gremlin watch the runs of the test."""
    gremlin = Gremlin(monkeypatch)
    handle = checkpoint("bert").body.register_forward_pre_hook(lambda *_: gremlin.passes("forward"))
    yield gremlin
    handle.remove()


@pytest.fixture
def clock(monkeypatch):
    """Let time pass in steps, one a look at the clock."""
    clock = SimpleNamespace(now=0.0, step=0.0)

    def monotonic():
        clock.now += clock.step
        return clock.now

    monkeypatch.setattr(
        "attnprobe.run.state.time", SimpleNamespace(monotonic=monotonic, perf_counter=lambda: 0.0)
    )
    return clock


def nowhere():
    """Give the state of a run that keeps none."""
    return State(None, {})


def done_of(path):
    """Tell how many batches the only stage of a state holds, which must be one of ours."""
    if not path.exists():
        return 0
    State(path, KEY)
    head = path.read_bytes()[len(MAGIC) + 32 :].partition(b"\n")[0]
    (stage,) = json.loads(head)["stages"]
    assert stage["name"] == "passing"
    return stage["done"]


def held(folder):
    """Name what a folder holds, hidden files too."""
    return sorted(path.name for path in folder.iterdir())


def sentences(number):
    rng = np.random.default_rng(3)
    return [Document(" ".join(rng.choice(WORDS, rng.integers(1, 12)))) for _ in range(number)]


def a_run(state, progress=None):
    """Take a run of one process up where the state is."""
    return Run(ProcessGroup(Ranks(), None), state, progress or SilentProgress())


def restored(statistics):
    return partial(Measurement.from_arrays, kinds={one.name: one.sums for one in statistics})


@contextmanager
def a_census(checkpoint, every=1) -> Iterator[Long]:
    architecture, statistics = inspect(checkpoint), [*census_statistics(), ALL_PAIRS]
    with tokenise(checkpoint, sentences(120), CorpusOptions(batch_tokens=24)) as corpus:
        batches = corpus.batches.follow(corpus.batches.plan[::every])

        def run(state):
            with state.save_on_exit(), open_evaluator(checkpoint, architecture, statistics) as measure:
                found = a_run(state).total("passing", batches, measure.measurement, restored(statistics))
            return [np.array([found.sequences, found.tokens]), *found.arrays().values()]

        yield Long(len(batches), run)


def assert_same(found, expected):
    assert len(found) == len(expected) > 2
    for one, other in zip(found, expected, strict=True):
        assert one.dtype == other.dtype
        assert one.tobytes() == other.tobytes()


def stop(long, path):
    """Run until something stops it; how many batches were done before."""
    before = done_of(path)
    try:
        long.run(State(path, KEY))
    except (KeyboardInterrupt, Killed):
        return before
    return pytest.fail("nothing stopped the run")


PLACES = (
    "forward", "before reached", "inside the snapshot", "half written", "before the rename",
    "after the rename", "after reached",
)  # fmt: skip


@pytest.mark.parametrize("kind", ERRORS)
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.slow
def test_stopped_anywhere(gremlin, clock, checkpoint, tmp_path, place, kind):
    path, clock.step = tmp_path / "state", EVERY
    with a_census(checkpoint("bert"), 9) as long:
        expected = long.run(nowhere())
        gremlin.go_away()
        gremlin.lie_in_wait(kind, 4, place)
        assert stop(long, path) == 0
        assert gremlin.stopped_at == {(place, ERRORS[kind].__name__): 1}
        done = done_of(path)
        written = PLACES.index(place) > PLACES.index("before the rename")
        noted = PLACES.index(place) > PLACES.index("before reached")
        assert done == (3 + written if kind == "kill" else 3 + noted)
        gremlin.go_away()
        assert_same(long.run(State(path, KEY)), expected)
        assert gremlin.passed["forward"] == long.batches - done
    # Only a process that is killed while it writes leaves anything beside the state.
    assert len(held(tmp_path)) == 1 + (kind == "kill" and place in ("half written", "before the rename"))


# Signals and threads


def test_sigterm(gremlin, checkpoint, tmp_path):
    path, before = tmp_path / "state", signal.getsignal(signal.SIGTERM)
    handlers = []

    class Struck(SilentProgress):
        def advance(self, steps):
            handlers.append(signal.getsignal(signal.SIGTERM))
            if len(handlers) == 4:
                os.kill(os.getpid(), signal.SIGTERM)

    def ignore(*_):
        pytest.fail("the signal came when the run was over")

    architecture, statistics = inspect(checkpoint("bert")), census_statistics("entropy")
    with tokenise(checkpoint("bert"), sentences(30), CorpusOptions(batch_tokens=24)) as corpus:

        def run(state, progress=None):
            given = ("passing", corpus.batches)
            with (
                state.save_on_exit(),
                open_evaluator(checkpoint("bert"), architecture, statistics) as measure,
            ):
                return a_run(state, progress).total(*given, measure.measurement, restored(statistics))

        signal.signal(signal.SIGTERM, ignore)
        try:
            with pytest.raises(Terminated):
                run(State(path, KEY), Struck())
            assert signal.getsignal(signal.SIGTERM) is ignore
            assert ignore not in handlers
            assert done_of(path) == 4
            found = run(State(path, KEY))
            assert signal.getsignal(signal.SIGTERM) is ignore
        finally:
            signal.signal(signal.SIGTERM, before)
        expected = run(nowhere())
    assert_same(list(found.arrays().values()), list(expected.arrays().values()))


# Full disks


def full(*_):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_disk_full(gremlin, clock, checkpoint, tmp_path, monkeypatch):
    path, write_through = tmp_path / "state", files._write_through

    def half(file, content):
        file.write_bytes(content[: len(content) // 2])
        full()

    with a_census(checkpoint("bert"), 9) as long:
        expected = long.run(nowhere())
        gremlin.go_away()
        gremlin.lie_in_wait("interrupt", 3, "forward")
        stop(long, path)
        old = path.read_bytes()
        for when in (0, EVERY):  # at the end, after the next batch
            clock.step = when
            monkeypatch.setattr(files, "_write_through", half)
            with pytest.warns(AttnprobeWarning, match=r"could not write .*state: the disk is full; the run"):
                assert_same(long.run(State(path, KEY)), expected)
            assert path.read_bytes() == old
            assert held(tmp_path) == ["state"]
        monkeypatch.setattr(files, "_write_through", write_through)
        assert done_of(path) == 2
        assert_same(long.run(State(path, KEY)), expected)


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
    found, content = State(state, KEY), state.read_bytes()
    stage = found.stage("passing", STAGE)
    assert stage.done == 2
    assert {name: values.tolist() for name, values in stage.arrays.items()} == {"a": [0, 1, 2], "b": [[2.5]]}
    state.unlink()
    found.write()  # nothing new: nothing is written
    assert not state.exists()
    state.write_bytes(content)
    stage.mark_batch_done(lambda: {})
    found.write()
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
    assert held(tmp_path) == []


def test_a_state_that_cannot_be_written_is_refused_early(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("attnprobe.run.state.try_writing", full)
    with pytest.raises(AttnprobeError, match=r"The state .*state can't be written: the disk is full"):
        check_state(tmp_path / "state")
