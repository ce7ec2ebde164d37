"""The sentences of a corpus in which a head is most itself, and those in which it is least itself."""

import hashlib
import math
import pickle
from array import array
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from heapq import heappush, heappushpop
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from attnprobe.attention.kinds import Kind
from attnprobe.corpus.batch import Batch
from attnprobe.corpus.sources.document import Document
from attnprobe.corpus.sources.opening import select
from attnprobe.corpus.store import Spool
from attnprobe.errors import AttnprobeError
from attnprobe.model.checkpoint import Checkpoint, resolve_window
from attnprobe.model.verifying.architecture import Architecture
from attnprobe.run.memory import count_copies, find_itemsize, limit_cells, price_statistics
from attnprobe.run.options import CorpusOptions
from attnprobe.run.preparation import prepare_corpus
from attnprobe.run.progress import Progress, SilentProgress
from attnprobe.statistics.statistic import Statistic
from attnprobe.sums.documents import name_documents
from attnprobe.survey.example_measures import FEWEST, LONGEST, measure_tokens
from attnprobe.survey.maps import read_maps
from attnprobe.survey.measure import open_meter
from attnprobe.survey.tokens import Maps, Side

#: Scores that differ by less are equal, and the earlier sentence wins: rounding must not decide.
_DECIMALS = 5


@dataclass(frozen=True)
class Example:
    """A sentence of the data, and what the head does there.

    Attributes:
        score: How much the head is itself.
        place: Which document of the data it is, counted from 1.
        texts: The sentence; two, where the document is a pair.
        cut: Whether it goes on behind what was read.
        rows: The attention of the head (query, key).
        values: What each token adds to that, (query,), see ``measure_tokens``; NaN where it adds nothing.
        queries: The tokens that attend.
        keys: The tokens they attend to.
    """

    score: float
    place: int
    texts: tuple[str, ...]
    cut: bool
    rows: NDArray[np.float32] = field(repr=False)
    values: NDArray[np.float64] = field(repr=False)
    queries: Side = field(repr=False)
    keys: Side = field(repr=False)


@dataclass(frozen=True)
class Examples:
    """Where a head is most and least itself.

    Attributes:
        kind: Of attention.
        layer: As tables number it.
        head: Its number.
        role: The role that tables give the head, if any.
        measure: What the score is.
        dataset: What the data are called.
        sentences: How many sentences have a score.
        mean: The mean of their scores.
        most: The sentences of the highest scores, the highest first.
        least: Those of the lowest, the lowest first.
    """

    kind: Kind
    layer: int
    head: int
    role: str | None
    measure: Statistic = field(repr=False)
    dataset: str
    sentences: int
    mean: float
    most: tuple[Example, ...]
    least: tuple[Example, ...]


class _Scored(NamedTuple):
    """A sentence that is kept: larger ones stay, so that of equals the earlier one does."""

    score: float
    earlier: int  # minus the number of the sequence
    content: bytes  # a digest of its tokens


class _Extremes:
    """The sentences of the highest scores, each once; as many as there is room for."""

    def __init__(self, room: int) -> None:
        self._room, self._heap, self._contents = room, list[_Scored](), set[bytes]()

    def add(self, one: _Scored) -> None:
        """Keep a sentence, if it belongs to them.

        What is equal has the same score. So a sentence that was let go stays away when it comes again.
        """
        if one.content in self._contents:
            return
        if len(self._heap) < self._room:
            heappush(self._heap, one)
        else:
            gone = heappushpop(self._heap, one)
            if gone is one:
                return
            self._contents.discard(gone.content)
        self._contents.add(one.content)

    def sort(self) -> list[_Scored]:
        """Give what is kept, the highest score first."""
        return sorted(self._heap, reverse=True)


class _Library:
    """The texts of documents in a temporary file, by what names them; in memory are 16 bytes for each."""

    def __init__(self, spool: Spool) -> None:
        self._spool, self._digests, self._starts = spool, array("Q"), array("Q", [0])

    def keep(self, documents: Iterable[Document]) -> Iterator[Document]:
        """Pass documents on, each a whole one that nothing is known of but its texts."""
        for document in documents:
            plain = Document(document.text, document.pair)
            self._digests.append(plain.digest)
            # Our own strings in a file without a name: nobody else can write to it.
            content = pickle.dumps((plain.text, plain.pair), pickle.HIGHEST_PROTOCOL)
            self._spool.append(content)
            self._starts.append(self._starts[-1] + len(content))
            yield plain

    def find(self, names: Sequence[int]) -> list[tuple[int, Document]]:
        """Find the first document of each name, and its place, counted from 1."""
        known = name_documents(np.array(self._digests, np.uint64))
        found = []
        for name in names:
            place = int(np.argmax(known == name))
            start, stop = self._starts[place : place + 2]
            found.append((place + 1, Document(*pickle.loads(self._spool.read(start, stop - start)))))
        return found


def find_examples(
    checkpoint: Checkpoint, architecture: Architecture, documents: Iterable[Document], options: CorpusOptions,
    *, maps: Maps, layer: int, head: int, number: int, measure: Statistic, role: str | None = None,
    dataset: str = "", workers: int | None = None, progress: Progress,
) -> Examples:  # fmt: skip
    """Read a corpus once, and find the sentences where a head is most and least itself.

    Every document is a sentence, of which the first 64 tokens are read; those of fewer than 8 don't count,
    and equal ones count once among what is found. Of equal scores, to five decimals, the earlier sentence
    wins. Texts lie in temporary files: in memory are some tens of bytes for each.

    Args:
        checkpoint: The model, as ``examine_part`` gave it.
        architecture: What the dry run found.
        documents: The sentences.
        options: Which of them are read.
        maps: What holds the head in the sequence that is shown.
        layer: Its place among the layers of that kind.
        head: Its number.
        number: How many of either end; fewer, where there are not twice as many.
        measure: What its score is.
        role: The role that tables give it.
        dataset: What the data are called.
        workers: How many batches are in flight; nothing that is found depends on it.
        progress: Is told how far it is.

    Raises:
        AttnprobeError: When no sentence has a score.
    """
    at = next(
        place
        for place, (kind, named) in enumerate(zip(architecture.kinds, architecture.places, strict=True))
        if kind is maps.kind and named.layer == maps.layers[layer]
    )
    wanted = select(documents, options.limit, options.sample, options.seed)
    window = min(LONGEST, resolve_window(None, checkpoint))
    reading = replace(options, limit=None, sample=None, max_length=window, truncate=True)
    most, least = _Extremes(number), _Extremes(number)
    total, counted = 0.0, 0
    with Spool("The text") as spool:
        library = _Library(spool)
        with (
            prepare_corpus(
                checkpoint, architecture, library.keep(wanted), reading,
                price=lambda: price_statistics(architecture, [measure], find_itemsize(checkpoint)),
                copies=count_copies([measure]), cells=limit_cells(architecture, [measure]), describe=False,
                workers=workers, progress=progress,
            ) as ready,
            open_meter(checkpoint, architecture, [measure]) as meter,
        ):  # fmt: skip
            batches = ready.corpus.batches.drop_shorter(FEWEST)
            progress.stage("searching for examples", batches.tokens)

            def score(batch: Batch) -> tuple[Batch, NDArray[np.float64]]:
                values: Any = meter.values(batch)[measure.name]
                return batch, values[:, at, head].astype(np.float64)

            each = ready.workers.for_batches(len(batches))
            with closing(each.map_in_order(score, batches, meter.thread_context)) as results:
                for batch, scores in results:
                    for ids, member, value in zip(
                        batch.ids.numpy(), batch.members.tolist(), scores.tolist(), strict=True
                    ):
                        if math.isnan(value):
                            continue
                        total, counted = total + value, counted + 1
                        content = hashlib.blake2b(ids.tobytes(), digest_size=16).digest()
                        rounded = round(value, _DECIMALS)
                        most.add(_Scored(rounded, -member, content))
                        least.add(_Scored(-rounded, -member, content))
                    progress.advance(batch.size)
            if not counted:
                raise AttnprobeError(
                    f"No text of {dataset or 'the data'} shows this head: none has {FEWEST} tokens and a "
                    f"value of {measure.title}; give other data, or leave out --examples."
                )
            high, low = _part(most.sort(), [one._replace(score=-one.score) for one in least.sort()])
            names = {-one.earlier: int(ready.corpus.batches.names[-one.earlier]) for one in (*high, *low)}
        reader = _ExampleReader(checkpoint, architecture, maps.kind, layer, head, measure, window, progress)
        places = dict(zip(names, library.find(list(names.values())), strict=True))
        progress.stage("reading examples", len(high) + len(low))
        found = [[reader.read(one.score, *places[-one.earlier]) for one in some] for some in (high, low)]
    return Examples(
        maps.kind, maps.layers[layer], head, role, measure, dataset, counted, total / counted,
        tuple(found[0]), tuple(found[1]),
    )  # fmt: skip


def _part(most: list[_Scored], least: list[_Scored]) -> tuple[list[_Scored], list[_Scored]]:
    """Part the two ends where they meet, so that no sentence is at both: the higher half is the one end."""
    if not {one.content for one in most} & {one.content for one in least}:
        return most, least
    whole = {one.content: one for one in (*least, *most)}
    order = sorted(whole.values(), key=lambda one: (-one.score, -one.earlier))
    middle = -(-len(order) // 2)
    low = sorted(order[middle:], key=lambda one: (one.score, -one.earlier))
    return order[:middle], low


@dataclass(frozen=True)
class _ExampleReader:
    """Reads the map of a head in one sentence after the other."""

    checkpoint: Checkpoint
    architecture: Architecture
    kind: Kind
    layer: int
    head: int
    measure: Statistic
    window: int
    progress: Progress

    def read(self, score: float, place: int, document: Document) -> Example:
        seen = read_maps(
            self.checkpoint, self.architecture, [document], max_length=self.window, progress=SilentProgress()
        )
        maps = seen.of(self.kind.value)
        self.progress.advance(1)
        given = self.checkpoint.tokenizer(*seen.texts, verbose=False)["input_ids"]
        rows = maps.rows[self.layer, self.head]
        values = measure_tokens(self.measure, rows, maps)
        cut = len(given) > self.window
        return Example(score, place, seen.texts, cut, rows, values, maps.queries, maps.keys)
