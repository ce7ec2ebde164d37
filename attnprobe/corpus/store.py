"""Samples, parts and random orders of documents; and their tokenised sequences, on disk.

Items with the same ``part_of`` are parts of one document; an item without it is a whole document.
"""

import contextlib
import hashlib
import pickle
import sys
import tempfile
from array import array
from collections.abc import Iterable, Iterator
from dataclasses import replace
from heapq import heappop, heappush
from itertools import chain, islice
from threading import Lock
from typing import Any, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from attnprobe.attention.tokens import TokenAnnotation
from attnprobe.corpus.document import Document, DocumentNumbers, Label
from attnprobe.corpus.media import MediaFolder
from attnprobe.corpus.source import Order
from attnprobe.corpus.tokens import TokenSequence
from attnprobe.errors import DataError
from attnprobe.files import reason
from attnprobe.sums.documents import name_documents

#: The number of a part of the documents, from 1, and how many parts there are.
Part = tuple[int, int]
Drawn = TypeVar("Drawn")


def select(documents: Any, limit: int | None, sample: int | None, seed: int, part: Part | None = None) -> Any:
    """Select the first ``limit`` items, a ``sample`` of documents of those, and a part of these, in order.

    A document is drawn with all its items, and counts once; the limit counts items.
    """
    folder = isinstance(documents, MediaFolder)
    items: Iterable[Any] = documents.items if folder else documents
    chosen = islice(items, None if limit is None else min(limit, sys.maxsize))
    chosen = chosen if sample is None else draw_documents(chosen, sample, seed)
    chosen = chosen if part is None else take_part(chosen, part)
    return replace(documents, items=tuple(chosen)) if folder else iter(chosen)


def take_part(items: Iterable[Drawn], part: Part) -> Iterator[Drawn]:
    """Take every N-th document, from the K-th on, for part K of N; nothing is read ahead."""
    (number, of), numbers, count = part, DocumentNumbers(), 0
    for item in items:
        place = numbers.number(getattr(item, "part_of", None))
        count = max(count, place + 1)
        if place % of == number - 1:
            yield item
    if count < number:
        there = "there is only 1 document" if count == 1 else f"there are only {count:,} documents"
        raise DataError(f"Part {number}/{of} holds nothing: {there}; give fewer parts.")


def draw_documents(items: Iterable[Drawn], number: int, seed: int) -> list[Drawn]:
    """Draw a number of documents at random, all subsets being equally likely; items stay in order.

    Those with the smallest keys are drawn, so that a larger sample contains a smaller one.

    References:
        Efraimidis and Spirakis (2006), Weighted random sampling with a reservoir, with equal weights.
    """
    drawn: dict[int, list[tuple[int, Drawn]]] = {}  # by key
    largest: list[int] = []  # a heap of negative keys, the largest key first
    for place, item in enumerate(items):
        key = _draw_key(seed, item, place)
        if key not in drawn:
            heappush(largest, -key)
        drawn.setdefault(key, []).append((place, item))
        if len(drawn) > number:
            del drawn[-heappop(largest)]
    return [item for _, item in sorted(chain.from_iterable(drawn.values()), key=lambda entry: entry[0])]


def _draw_key(seed: int, item: Any, place: int) -> int:
    group = getattr(item, "part_of", None)
    name = f"place {place}" if group is None else f"group {group}"
    content = f"{seed}|{name}".encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.blake2b(content, digest_size=8).digest(), "big")


class Spool:
    """Bytes in an unnamed temporary file, which threads may read, and which ends with the process."""

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
        """Write at the end; returns where the content begins."""
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
            full = f"does not fit the temporary folder {where} ({reason(error)})"
            raise DataError(f"{self._what} {full}; point TMPDIR at a larger disk.") from error


def arrange(documents: Iterable[Document], order: Order) -> Iterator[list[Document]]:
    """Yield documents as lists of parts, in a random order, or as they come if the source shuffles them."""
    documents = iter(documents)
    first = list(islice(documents, 1))  # with which a source says whether it shuffles by itself
    if order.arranged:
        yield from ([document] for document in chain(first, documents))
        return
    keys, starts = array("Q"), array("Q", [0])
    with Spool("The text") as spool:
        for place, document in enumerate(chain(first, documents)):
            keys.append(_draw_key(order.seed, document, place))
            # To pickle is safe, as nobody else can write to a file without a name.
            content = pickle.dumps(document, pickle.HIGHEST_PROTOCOL)
            starts.append(spool.append(content) + len(content))
        drawn = np.array(keys, np.uint64)
        by_key = np.argsort(drawn, kind="stable")
        parts = np.split(by_key, np.flatnonzero(np.diff(drawn[by_key])) + 1) if keys else []
        order.total = len(parts)
        for places in parts:
            ends = ((starts[place], starts[place + 1]) for place in places)
            yield [pickle.loads(spool.read(start, stop - start)) for start, stop in ends]


def arrange_media(folder: MediaFolder, order: Order) -> MediaFolder:
    order.total = len(folder.items)
    keyed = sorted((_draw_key(order.seed, item, place), place) for place, item in enumerate(folder.items))
    return replace(folder, items=tuple(folder.items[place] for _, place in keyed))


#: The annotation of a sequence, and that of attention to it from a decoder's text.
Annotations = tuple[TokenAnnotation | None, TokenAnnotation | None]


class SequenceStore(Spool):
    """Sequences of token ids in an unnamed temporary file, with their places and documents in memory."""

    def __init__(self, vocabulary: int) -> None:
        super().__init__("The tokenised text")
        self.counts: NDArray[np.int64] = np.zeros(vocabulary, np.int64)  # of each token, by its id
        self.labels: dict[int, Label] = {}
        self.annotated = False  # whether a sequence has an annotation
        self.groups: list[str] = []  # the names of the groups that sequences count in
        # Of each sequence: start, tokens, bytes of annotation, second text, document, group, name.
        self._facts = [array(code) for code in "qqqqqqQ"]
        self._digest = hashlib.sha256()

    def __len__(self) -> int:
        return len(self._facts[0])

    @property
    def lengths(self) -> NDArray[np.int32]:
        return np.array(self._facts[1], np.int32)

    @property
    def documents(self) -> NDArray[np.int64]:
        return np.array(self._facts[4], np.int64)

    @property
    def names(self) -> NDArray[np.int64]:
        return name_documents(np.array(self._facts[6], np.uint64))

    @property
    def group_numbers(self) -> NDArray[np.int64]:
        return np.array(self._facts[5], np.int64)

    @property
    def digest(self) -> str:
        """The SHA-256 of sequences, pairs and labels, in their order."""
        return self._digest.hexdigest()

    def extend(self, sequences: Iterable[TokenSequence]) -> "SequenceStore":
        """Write sequences behind those that are there; returns the store itself."""
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
            facts = [start, len(ids), len(content), sequence.second, sequence.document, group, sequence.name]
            for column, fact in zip(self._facts, facts, strict=True):
                column.append(fact)
        return self

    def ids(self, index: int) -> NDArray[np.int32]:
        start, length = (column[index] for column in self._facts[:2])
        return np.frombuffer(self.read(start, 4 * length), np.int32)

    def annotations(self, index: int) -> Annotations:
        start, length, size = (column[index] for column in self._facts[:3])
        return pickle.loads(self.read(start + 4 * length, size)) if size else (None, None)

    def second(self, index: int) -> int:
        return self._facts[3][index]
