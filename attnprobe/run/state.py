"""The state of a long run, kept on disk, so that a run that was stopped goes on where it was.

A state holds, for each pass over a corpus, how many batches are done and the numbers they gave, exactly.
Batches come in a fixed order and sums are made in that order, so a run that goes on gives, bit for bit, what
an undisturbed one gives on the same machine.
"""

import hashlib
import io
import json
import signal
import threading
import time
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from attnprobe.errors import StateError, first_line
from attnprobe.files import reason, write_together
from attnprobe.sums.base import Arrays, part_of

#: What stands at the beginning of the file, before the SHA-256 of the rest.
_MAGIC = b"attnprobe state 3\n"
#: The same of versions whose sums are others: halves and blocks of documents went by their numbers.
_EARLIER = b"attnprobe state 2\n"
#: Seconds between two writings.
EVERY = 60.0
#: Writing takes at most one part in so many of the time.
_REST = 100


class Terminated(KeyboardInterrupt):
    """SIGTERM came: somebody wants the process to end, and it can still put things away."""


@dataclass(frozen=True)
class _Kept:
    """What is kept of a stage: what it depends on, how many batches are done, and what they gave."""

    key: Mapping[str, str]
    done: int
    arrays: Callable[[], Arrays]


class State:
    """A state file. A run that passes over its corpus more than once keeps a stage for each pass."""

    def __init__(self, path: Path | None, key: Mapping[str, str], every: float = EVERY) -> None:
        """Take up the state at ``path`` if there is one.

        Args:
            path: The file, or None to keep nothing.
            key: What the state depends on, each by a name that a person understands.
            every: Seconds between two writings.

        Raises:
            StateError: When the file is no state, is damaged, or belongs to another run.
        """
        self.path, self._key, self._every = path, dict(key), every
        self._stages: dict[str, _Kept] = {}
        self._changed = False
        self._written, self._pause = time.monotonic(), every
        if path is not None:
            self._take_up(path)

    def stage(self, name: str, key: Mapping[str, str] | None = None) -> "Stage":
        """Take up a stage, or begin it.

        Args:
            name: Which pass it is.
            key: What this pass depends on, beside what the whole run does.

        Raises:
            StateError: When the stage that was kept is one of other data.
        """
        key = dict(key or {})
        kept = self._stages.get(name)
        if kept is not None:
            self._refuse_others(kept.key, key)
            return Stage(self, name, key, kept.done, kept.arrays())
        return Stage(self, name, key, 0, {})

    def keep(self, name: str, key: Mapping[str, str], done: int, snapshot: Callable[[], Arrays]) -> None:
        """Note how far a stage is; ``snapshot`` gives what there is to keep."""
        if self.path is None:
            return
        # In one step, since Ctrl-C may come between any two.
        self._stages[name] = _Kept(key, done, snapshot)
        self._changed = True
        if time.monotonic() - self._written >= self._pause:
            self.write()

    def write(self) -> None:
        """Write the state down, whole or not at all."""
        if self.path is None or not self._changed:
            return
        began, buffer = time.perf_counter(), io.BytesIO()
        stages = dict(self._stages)
        arrays = {
            f"{place}/{name}": array
            for place, kept in enumerate(stages.values())
            for name, array in kept.arrays().items()
        }
        np.savez(buffer, **arrays)  # type: ignore[arg-type]
        listed = [{"name": name, "key": kept.key, "done": kept.done} for name, kept in stages.items()]
        head = json.dumps({"key": self._key, "stages": listed}).encode() + b"\n"
        body = head + buffer.getvalue()
        write_together({self.path: _MAGIC + hashlib.sha256(body).digest() + body})
        self._written = time.monotonic()
        self._pause = max(self._every, _REST * (time.perf_counter() - began))

    @contextmanager
    def guarded(self) -> Iterator[None]:
        """Write the state down however the work inside ends, at Ctrl-C and SIGTERM too."""
        if self.path is None:
            yield
            return
        before = None
        if threading.current_thread() is threading.main_thread():
            before = signal.signal(signal.SIGTERM, _terminate)
        try:
            yield
        finally:
            try:
                self.write()
            finally:
                if before is not None:
                    signal.signal(signal.SIGTERM, before)

    def _take_up(self, path: Path) -> None:
        check_state(path)
        if not path.exists():
            return
        try:
            content = path.read_bytes()
        except OSError as error:
            raise StateError(f"The state {path} can't be read: {error.strerror}.") from error
        digest, body = content[len(_MAGIC) :][:32], content[len(_MAGIC) + 32 :]
        if hashlib.sha256(body).digest() != digest:
            raise StateError(f"The state {path} is damaged; delete it to start over.")
        head, _, numbers = body.partition(b"\n")
        try:
            found = json.loads(head)
            key = dict(found["key"])
            with np.load(io.BytesIO(numbers), allow_pickle=False) as loaded:
                arrays = dict(loaded)
            stages = {
                str(one["name"]): _Kept(
                    dict(one["key"]), int(one["done"]), partial(part_of, arrays, str(place))
                )
                for place, one in enumerate(found["stages"])
            }
        except (ValueError, KeyError, TypeError, OSError, zipfile.BadZipFile) as error:
            raise StateError(f"The state {path} is damaged; delete it to start over.") from error
        self._refuse_others(key, self._key)
        self._stages = stages

    def _refuse_others(self, kept: Mapping[str, str], ours: Mapping[str, str]) -> None:
        for name, mine in ours.items():
            if kept.get(name) != mine:
                raise StateError(
                    f"The state {self.path} belongs to a run with another {name}; go on with the same "
                    "command, or delete it to start over."
                )


def check_state(path: Path) -> None:
    """Refuse early what can't be a state; whether it is the right one is told when the model is known."""
    try:
        if path.exists():
            with path.open("rb") as content:
                begin = content.read(len(_MAGIC))
        elif not path.resolve().parent.is_dir():
            raise StateError(f"There is no folder {path.parent} to keep the state {path.name} in.")
        else:
            return
    except (OSError, RuntimeError, ValueError) as error:
        said = reason(error) if isinstance(error, OSError) else first_line(error)
        raise StateError(f"The state {path} can't be read: {said}.") from error
    if begin == _EARLIER:
        raise StateError(
            f"The state {path} is one of another version of attnprobe, which sums up otherwise; delete it to "
            "start over."
        )
    if begin != _MAGIC:
        raise StateError(f"{path} is no state of attnprobe; give another name to --resume.")


class Stage:
    """One pass over a corpus.

    Attributes:
        done: Batches that were done when the stage was taken up.
        arrays: What they gave.
    """

    def __init__(self, state: State, name: str, key: Mapping[str, str], done: int, arrays: Arrays) -> None:
        """Go on behind so many batches."""
        self._state, self._name, self._key = state, name, key
        self.done, self.arrays = done, arrays
        self._reached = done

    def reached(self, snapshot: Callable[[], Arrays]) -> None:
        """Note that one more batch is done; ``snapshot`` gives what there is to keep."""
        self._reached += 1
        self._state.keep(self._name, self._key, self._reached, snapshot)


def _terminate(*_: object) -> None:
    raise Terminated
