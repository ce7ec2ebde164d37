"""Tokenised sequences on disk, shuffled, and without what comes twice."""

import contextlib
import hashlib
import pickle
import tempfile
from array import array
from collections.abc import Iterable, Iterator
from threading import Lock
from typing import Self

import numpy as np
from numpy.typing import NDArray

from attnprobe.attention.tokens import TokenAnnotation
from attnprobe.corpus.document import Label
from attnprobe.corpus.tokens import TokenSequence
from attnprobe.errors import DataError
from attnprobe.files import reason
from attnprobe.sums.documents import name_documents


class Spool:
    """Bytes in an unnamed temporary file, which several threads may read, and which ends with the process."""

    def __init__(self, what: str) -> None:
        self._what, self._end = what, 0
        with self._explain_full_disk():
            self._file = tempfile.TemporaryFile(prefix="attnprobe-")  # noqa: SIM115 - closed in __exit__
        self._reading = Lock()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(OSError):  # what did not fit once does not fit now
            self._file.close()

    def append(self, content: bytes) -> int:
        """Write behind what is there; give where it begins."""
        start = self._end
        with self._explain_full_disk():
            self._file.seek(start)
            self._file.write(content)
        self._end += len(content)
        return start

    def read(self, start: int, size: int) -> bytes:
        with self._reading, self._explain_full_disk():  # seeking writes what waits
            self._file.seek(start)
            return self._file.read(size)

    @contextlib.contextmanager
    def _explain_full_disk(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            where = tempfile.tempdir or "of this machine"
            full = f"{self._what} does not fit the temporary folder {where} ({reason(error)})"
            raise DataError(f"{full}; point TMPDIR at a larger disk.") from error


#: The annotation of a sequence, and that of attention to it from what a decoder reads.
Annotations = tuple[TokenAnnotation | None, TokenAnnotation | None]
_FACTS = 6  # that are known of each sequence


class SequenceStore(Spool):
    """Token ids in an unnamed temporary file, and in memory only where each sequence is, and of what."""

    def __init__(self, vocabulary: int) -> None:
        super().__init__("The tokenised text")
        self.counts: NDArray[np.int64] = np.zeros(vocabulary, np.int64)  # of each token, by its id
        self.labels: dict[int, Label] = {}
        self.annotated = False  # whether a sequence has an annotation
        self.groups: list[str] = []  # the names of those in which sequences count
        # Of each sequence: start, tokens, bytes of annotation, second text, document, group.
        self._facts, self._names = array("q"), array("Q")
        self._digest = hashlib.sha256()

    def __len__(self) -> int:
        return len(self._names)

    def _column(self, place: int) -> NDArray[np.int64]:
        return np.array(self._facts, np.int64)[place::_FACTS]

    @property
    def lengths(self) -> NDArray[np.int32]:
        return self._column(1).astype(np.int32)

    @property
    def documents(self) -> NDArray[np.int64]:
        return self._column(4)

    @property
    def names(self) -> NDArray[np.int64]:
        return name_documents(np.array(self._names, np.uint64))

    @property
    def group_numbers(self) -> NDArray[np.int64]:
        return self._column(5)

    @property
    def digest(self) -> str:
        """Name the content: sequences, pairs and labels, in their order."""
        return self._digest.hexdigest()

    def extend(self, sequences: Iterable[TokenSequence]) -> "SequenceStore":
        for sequence in sequences:
            ids = np.asarray(sequence.ids, np.int32)
            if ids.max() >= len(self.counts):
                self.counts = np.pad(self.counts, (0, int(ids.max()) + 1 - len(self.counts)))
            np.add.at(self.counts, ids, 1)
            annotations: Annotations = (sequence.annotation, sequence.crossed)
            written, content = "", b""
            if annotations != (None, None):
                self.annotated = True
                written, content = repr(annotations), pickle.dumps(annotations)
            marks = f"|{sequence.second}|{sequence.label!r}|{sequence.document}|{sequence.name}|{written}"
            group = -1
            if sequence.group is not None:
                marks += f"{sequence.group!r}|"
                if sequence.group not in self.groups:  # there are few
                    self.groups.append(sequence.group)
                group = self.groups.index(sequence.group)
            self._digest.update(ids.tobytes() + marks.encode("utf-8", "surrogatepass"))
            if sequence.label is not None:
                self.labels[len(self)] = sequence.label
            start = self.append(ids.tobytes() + content)
            self._facts.extend((start, len(ids), len(content), sequence.second, sequence.document, group))
            self._names.append(sequence.name)
        return self

    def ids(self, index: int) -> NDArray[np.int32]:
        start, length = self._facts[_FACTS * index : _FACTS * index + 2]
        return np.frombuffer(self.read(start, 4 * length), np.int32)

    def annotations(self, index: int) -> Annotations:
        start, length, size = self._facts[_FACTS * index : _FACTS * index + 3]
        return pickle.loads(self.read(start + 4 * length, size)) if size else (None, None)

    def second(self, index: int) -> int:
        """Where the second text of a pair begins, 0 for a single text."""
        return self._facts[_FACTS * index + 3]


def replace_repeated(
    ids: NDArray[np.integer], special: NDArray[np.bool_], ordinary: NDArray[np.int64]
) -> NDArray[np.integer]:
    """Put another token in the place of each that came before in a sequence; the tokens alone seed the draw.

    >>> ids = replace_repeated(np.array([1, 7, 8, 7, 8, 2]), np.arange(6) % 5 == 0, np.arange(7, 11))
    >>> ids[[0, 1, 2, 5]].tolist(), sorted(ids[3:5].tolist())
    ([1, 7, 8, 2], [9, 10])
    """
    again = np.ones(len(ids), bool)
    again[np.unique(ids, return_index=True)[1]] = False
    places = np.flatnonzero(again & ~special)
    replaced, others = ids.copy(), np.setdiff1d(ordinary, ids)
    replaced[places] = _open_random(ids.astype(np.int64).tobytes()).choice(others, len(places), replace=False)
    return replaced


def shuffle_tokens(
    ids: NDArray[np.int32], fixed: NDArray[np.bool_], parts: NDArray[np.integer], seed: int
) -> NDArray[np.int32]:
    """Put the tokens of a sequence in a random order, each of the ``parts`` (position,) within itself."""
    random, shuffled = _open_random(f"{seed}|".encode() + ids.tobytes()), ids.copy()
    for part in np.unique(parts):
        places = np.flatnonzero(~fixed & (parts == part))
        shuffled[places] = ids[random.permutation(places)]
    return shuffled


def _open_random(content: bytes) -> np.random.Generator:
    return np.random.default_rng(int.from_bytes(hashlib.sha256(content).digest(), "little"))
