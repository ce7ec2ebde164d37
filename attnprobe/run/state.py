"""The state of a long run, kept on disk, so that a run that was stopped goes on where it was.

A state holds how many batches are done and the numbers they gave, exactly. Batches come in a fixed
order and sums are made in that order, so a run that goes on gives, bit for bit, what an undisturbed one
gives on the same machine and with as many threads.
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
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnprobe.errors import AttnprobeError
from attnprobe.files import write_together

Arrays = Mapping[str, NDArray[Any]]
#: What stands at the beginning of the file, before the SHA-256 of the rest.
_MAGIC = b"attnprobe state 1\n"
#: Seconds between two writings.
EVERY = 60.0
#: Writing takes at most one part in so many of the time.
_REST = 100


class Terminated(KeyboardInterrupt):
    """SIGTERM came: somebody wants the process to end, and it can still put things away."""


class State:
    """A state file.

    Attributes:
        done: Batches that were done when the state was taken up.
        arrays: What they gave.
    """

    def __init__(self, path: Path | None, key: Mapping[str, str], every: float = EVERY) -> None:
        """Take up the state at ``path`` if there is one.

        Args:
            path: The file, or None to keep nothing.
            key: What the state depends on, each by a name that a person understands.
            every: Seconds between two writings.

        Raises:
            AttnprobeError: When the file is no state, is damaged, or belongs to another run.
        """
        self._path, self._key, self._every = path, dict(key), every
        self.done = 0
        self.arrays: Arrays = {}
        # Both at once, since Ctrl-C may come between any two steps.
        self._latest: tuple[int, Callable[[], Arrays]] | None = None
        self._written, self._pause = time.monotonic(), every
        if path is not None:
            self._take_up(path)

    def reached(self, snapshot: Callable[[], Arrays]) -> None:
        """Note that one more batch is done; ``snapshot`` gives what there is to keep."""
        done = (self._latest[0] if self._latest else self.done) + 1
        self._latest = done, snapshot
        if time.monotonic() - self._written >= self._pause:
            self.write()

    def write(self) -> None:
        """Write the state down, whole or not at all."""
        if self._path is None or self._latest is None:
            return
        (done, snapshot), began = self._latest, time.perf_counter()
        buffer = io.BytesIO()
        np.savez(buffer, **snapshot())  # type: ignore[arg-type]
        head = json.dumps({"key": self._key, "done": done}).encode() + b"\n"
        body = head + buffer.getvalue()
        write_together({self._path: _MAGIC + hashlib.sha256(body).digest() + body})
        self._written = time.monotonic()
        self._pause = max(self._every, _REST * (time.perf_counter() - began))

    @contextmanager
    def guarded(self) -> Iterator[None]:
        """Write the state down however the work inside ends, at Ctrl-C and SIGTERM too."""
        if self._path is None:
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
        try:
            if not path.exists():
                if not path.parent.is_dir():
                    raise AttnprobeError(
                        f"There is no folder {path.parent} to keep the state {path.name} in."
                    )
                return
            content = path.read_bytes()
        except OSError as error:
            raise AttnprobeError(f"The state {path} can't be read: {error.strerror}.") from error
        digest, body = content[len(_MAGIC) :][:32], content[len(_MAGIC) + 32 :]
        if not content.startswith(_MAGIC):
            raise AttnprobeError(f"{path} is no state of attnprobe; give another name to --resume.")
        if hashlib.sha256(body).digest() != digest:
            raise AttnprobeError(f"The state {path} is damaged; delete it to start over.")
        head, _, numbers = body.partition(b"\n")
        try:
            found = json.loads(head)
            key, done = dict(found["key"]), int(found["done"])
            with np.load(io.BytesIO(numbers), allow_pickle=False) as arrays:
                kept = dict(arrays)
        except (ValueError, KeyError, TypeError, OSError, zipfile.BadZipFile) as error:
            raise AttnprobeError(f"The state {path} is damaged; delete it to start over.") from error
        for name, ours in self._key.items():
            if key.get(name) != ours:
                raise AttnprobeError(
                    f"The state {path} belongs to a run with another {name}; go on with the same command, or "
                    "delete it to start over."
                )
        self.done, self.arrays = done, kept


class Unkept(State):
    """The state of a run that keeps none."""

    def __init__(self) -> None:
        """Begin at the beginning."""
        super().__init__(None, {})


def _terminate(*_: object) -> None:
    raise Terminated
