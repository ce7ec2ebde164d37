"""The state of a long run, kept on disk, so that a run that was stopped goes on where it was.

A state holds, for each pass, how many batches are done and the numbers they gave, exactly. Batches and sums
come in a fixed order, so a run that goes on gives, bit for bit, what an undisturbed one gives.
"""

import hashlib
import io
import json
import os
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from attnprobe.errors import AttnprobeError, AttnprobeWarning, DataError, first_line
from attnprobe.files import lock, reason, try_writing, write_together
from attnprobe.run.process_group import Ranks
from attnprobe.sums.base import Arrays, select_prefix

#: What stands at the beginning of the file, before the SHA-256 of the rest.
_MAGIC = b"attnprobe state 3\n"
#: Seconds between two writings.
EVERY = 60.0
#: Writing takes at most one part in so many of the time.
_REST = 100


class Terminated(KeyboardInterrupt):
    """SIGTERM came: the process is to end, and can still save its state."""


class Stage:
    """One pass over a corpus: what it depends on, how many batches are done, and what they gave."""

    def __init__(self, state: "State", key: Mapping[str, str], done: int, arrays: Arrays) -> None:
        self._state, self.key = state, key
        # In one tuple, since Ctrl-C may come between any two steps.
        self.kept: tuple[int, Callable[[], Arrays]] = done, lambda: arrays

    @property
    def done(self) -> int:
        return self.kept[0]

    def mark_batch_done(self, snapshot: Callable[[], Arrays]) -> None:
        """Keep that one more batch is done; ``snapshot`` gives the arrays."""
        self.kept = self.done + 1, snapshot
        self._state.note_change()


class State:
    """A state file. A run that passes over its corpus more than once keeps a stage for each pass."""

    def __init__(self, path: Path | None = None, key: Mapping[str, str] = {}, every: float = EVERY) -> None:
        """Load the state at ``path`` if there is one; without a path, nothing is kept.

        ``key`` is what it depends on, each by a name for people; ``every`` are seconds between two writings.
        """
        self.path, self._key, self._every = path, dict(key), every
        self._changed = False
        self._written, self._pause = time.monotonic(), every
        self._stages = {} if path is None else self._load(path)

    def stage(self, name: str, key: Mapping[str, str] | None = None) -> Stage:
        """Restore a stage or begin it, or refuse one with another ``key``, what it alone depends on."""
        stages = {} if self.path is None else self._stages
        stage = stages.setdefault(name, Stage(self, dict(key or {}), 0, {}))
        self._check_key(stage.key, key or {})
        return stage

    def note_change(self) -> None:
        """Note that a batch more is done, and write the file where it is time to."""
        self._changed = True
        if time.monotonic() - self._written >= self._pause:
            self.write()

    def write(self) -> None:
        """Write the file, whole or not at all, if something changed; a failure is only a warning."""
        if self.path is None or not self._changed:
            return
        try:
            self._write(self.path)
        except AttnprobeError as error:
            warnings.warn(f"{error}; the run goes on without its state.", AttnprobeWarning, stacklevel=2)
            self._written = time.monotonic()

    def _write(self, path: Path) -> None:
        began, buffer = time.perf_counter(), io.BytesIO()
        kept = [stage.kept for stage in self._stages.values()]
        arrays: dict[str, Any] = {
            f"{place}/{name}": array
            for place, (_, snapshot) in enumerate(kept)
            for name, array in snapshot().items()
        }
        np.savez(buffer, **arrays)
        listed = [
            {"name": name, "key": stage.key, "done": done}
            for (name, stage), (done, _) in zip(self._stages.items(), kept, strict=True)
        ]
        head = json.dumps({"key": self._key, "stages": listed}).encode() + b"\n"
        body = head + buffer.getvalue()
        write_together({path: _MAGIC + hashlib.sha256(body).digest() + body})
        self._written = time.monotonic()
        self._pause = max(self._every, _REST * (time.perf_counter() - began))

    @contextmanager
    def save_on_exit(self) -> Iterator[None]:
        """Hold the state, and write it however the work inside ends, at Ctrl-C and SIGTERM too."""
        if self.path is None:
            yield
            return
        with ExitStack() as stack:
            stack.enter_context(hold_state(self.path))
            if threading.current_thread() is threading.main_thread():
                before = signal.signal(signal.SIGTERM, _terminate)
                stack.callback(signal.signal, signal.SIGTERM, before or signal.SIG_DFL)
            stack.callback(self.write)
            yield

    def _load(self, path: Path) -> dict[str, Stage]:
        """Load the stages in a file by name, if it exists; refuse a damaged one or one of another run."""
        check_state(path)
        if not path.exists():
            return {}
        try:
            content = path.read_bytes()
            digest, body = content[len(_MAGIC) :][:32], content[len(_MAGIC) + 32 :]
            if hashlib.sha256(body).digest() != digest:
                raise ValueError("of another content")
            head, _, numbers = body.partition(b"\n")
            about = json.loads(head)
            key, stages = dict(about["key"]), about["stages"]
            with np.load(io.BytesIO(numbers), allow_pickle=False) as loaded:
                arrays = dict(loaded)
        except OSError as error:
            raise DataError(f"The state {path} can't be read: {reason(error)}.") from error
        except (ValueError, KeyError, TypeError) as error:
            raise DataError(f"The state {path} is damaged; delete it to start over.") from error
        self._check_key(key, self._key)
        return {
            stage["name"]: Stage(self, stage["key"], stage["done"], select_prefix(arrays, str(place)))
            for place, stage in enumerate(stages)
        }

    def _check_key(self, kept: Mapping[str, str], ours: Mapping[str, str]) -> None:
        for name, mine in ours.items():
            if kept.get(name) != mine:
                raise DataError(
                    f"The state {self.path} belongs to a run with another {name}; go on with the same "
                    "command, or delete it to start over."
                )


def check_state(path: Path) -> None:
    """Refuse early a file that can't be a state; its key is checked once the model is known."""
    begin = _MAGIC
    try:
        folder = path.resolve().parent
        if path.exists():
            with path.open("rb") as content:
                begin = content.read(len(_MAGIC))
        elif not folder.is_dir():
            raise DataError(f"There is no folder {path.parent} to keep the state {path.name} in.")
    except (OSError, RuntimeError, ValueError) as error:
        why = reason(error) if isinstance(error, OSError) else first_line(error)
        raise DataError(f"The state {path} can't be read: {why}.") from error
    if begin != _MAGIC:
        raise DataError(f"{path} is no state of attnprobe; give another name to --resume.")
    try:
        try_writing(folder)
    except OSError as error:
        raise DataError(f"The state {path} can't be written: {reason(error)}.") from error


@contextmanager
def hold_state(path: Path) -> Iterator[None]:
    """Hold a state while a run goes on; refuse one that another run holds."""
    file = path.resolve()
    beside = file.with_name(f"{file.name}.lock")
    beside.touch()
    descriptor = lock(beside)
    if descriptor is None and sys.platform != "win32":
        raise DataError(
            f"Another run holds the state {path}; wait until it ends, or give another name to --resume."
        )
    try:
        yield
    finally:
        beside.unlink(missing_ok=True)
        if descriptor is not None:
            os.close(descriptor)


def open_state(path: Path | None, key: Mapping[str, str]) -> State:
    """Load the state of this process, if there is one at ``path``; of several processes, each has its own."""
    ranks = Ranks.detect()
    if path is not None and ranks.size > 1:
        path = path.with_name(f"{path.name}.{ranks.rank}")
        key = {**key, "number of processes": f"{ranks.rank} of {ranks.size}"}
    return State(path, key)


def _terminate(*_: object) -> None:
    raise Terminated
