"""Reading as much as it takes: documents in a random order, round by round, until columns are precise enough.

The rounds of a corpus are the same whatever is asked of them and whoever shares the work, and what they give
is added in their order. So a run that goes on after it was killed stops at the same look, with the same bits.
"""

import difflib
import math
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import chain, islice
from typing import Any

import numpy as np

from attnprobe.corpus.sources.document import Document
from attnprobe.corpus.sources.media import MediaFolder
from attnprobe.corpus.sources.order import SHUFFLE_BUFFER, Order, arrange, arrange_media
from attnprobe.errors import AttnprobeError, NothingToMeasureError
from attnprobe.run.examples import Documents
from attnprobe.run.options import CorpusOptions
from attnprobe.run.preparation import Corpus
from attnprobe.run.progress import Progress
from attnprobe.run.record import NOT_COUNTED, add_corpora
from attnprobe.statistics.statistic import Statistic
from attnprobe.sums.documents import BLOCKS
from attnprobe.sums.groups import MOST
from attnprobe.sums.precision import (
    Floats,
    Look,
    Widest,
    find_widest,
    half_widths,
    is_enough,
    plan_looks,
    round_up,
    shrink_error,
)
from attnprobe.sums.resampling import Jackknife
from attnprobe.table.head_table import HeadTable
from attnprobe.table.naming import join_names

#: So many columns are named in a note, those furthest from their targets first.
_NAMED = 4


@dataclass(frozen=True)
class Round:
    """What was measured of some documents. Rounds add up.

    Attributes:
        sums: What was found.
        record: What goes on record of these documents and of the run.
        corpus: The documents in batches; of several rounds, the last of them.
    """

    sums: Any
    record: Mapping[str, Any]
    corpus: Corpus

    def __add__(self, other: "Round") -> "Round":
        record = _add_records(self.record, other.record)
        if "other" in record:  # of a second model, which reads the same documents
            record["other"] = _add_records(record["other"], other.record["other"])
        corpus = replace(other.corpus, reading=self.corpus.reading + other.corpus.reading)
        return Round(self.sums + other.sums, record, corpus)


def _add_records(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """Add up what is on record of the documents of two rounds."""
    return {**one, "corpus": add_corpora(one["corpus"], other["corpus"])}


#: Measures documents, the first of all to see what the table will be like; the text is for a progress bar.
Measure = Callable[[Documents, int, str], Round]


@dataclass(frozen=True)
class Enough:
    """How a run came to its end.

    Attributes:
        found: All rounds together.
        looks: What was known at each look.
        places: For each look, what names the row of the widest interval of each column.
        order: In which order documents were read.
        targets: How precise columns were to be; under no name, all of them.
        strict: Whether two looks in a row had to be precise enough.
    """

    found: Round
    looks: Sequence[Look]
    places: Sequence[Mapping[str, Mapping[str, Any]]]
    order: Order
    targets: Mapping[str, float]
    strict: bool

    @property
    def reached(self) -> bool:
        return is_enough(self.looks, strict=self.strict)

    @property
    def total(self) -> int | None:
        """The number of documents of the corpus, where errors are about these alone."""
        return self.looks[-1].total

    @property
    def error_factor(self) -> float:
        """What errors are multiplied by."""
        look = self.looks[-1]
        return 1.0 if look.total is None else shrink_error(look.documents, look.total)

    @property
    def record(self) -> dict[str, Any]:
        """What goes on record: the looks, and how many documents were read of how many."""
        looks = [
            {
                "documents": look.documents,
                "widest": {
                    name: {"half_width": one.half_width, "target": one.target, **place.get(name, {})}
                    for name, one in look.widest.items()
                },
            }
            for look, place in zip(self.looks, self.places, strict=True)
        ]
        return {
            "targets": dict(self.targets),
            "strict": self.strict,
            "seed": self.order.seed,
            "documents": self.looks[-1].documents,
            "of": self.order.total,
            "reached": self.reached,
            "looks": looks,
            **({} if self.total is None else {"population": "corpus", "error_factor": self.error_factor}),
        }

    def notes(self) -> Iterator[str]:
        """Say how many documents were enough, or that they were not."""
        look, total = self.looks[-1], self.order.total
        read, widest = f"{look.documents:,}", self._describe_widest()
        if self.reached:
            of = f" of {total:,}" if total is not None else ""
            twice = ", at two looks in a row" if self.strict else ""
            yield f"{read}{of} documents were enough{twice}: {widest}. They were read in a random order."
        else:
            more = f"; some {round_up(look.estimate)} would be needed" if look.estimate is not None else ""
            if look.reached:
                more = "; --strict asks for that at two looks in a row"
            if total is not None and total > look.documents:  # a sample was all that was to be read
                are = f"of {total:,} documents, drawn at random, are"
            elif read == "1":
                are = "document, all there was to read, is"
            else:
                are = "documents, all there were to read, are"
            yield f"{read} {are} not enough: {widest}{more}."
        if self.total is not None:
            yield (
                f"Standard errors are about the {self.total:,} documents of this corpus alone: they are "
                f"multiplied by {self.error_factor:.3g}, the root of 1 - {read}/{self.total:,}. Tests and "
                "their p are about all text like it."
            )
        if self.order.buffered:
            yield (
                f"The random order is that of a stream: shards at random, and rows from {SHUFFLE_BUFFER:,} "
                "that are held at a time."
            )

    def _describe_widest(self) -> str:
        """Name columns with their widest intervals and their targets, those furthest from them first."""
        look = self.looks[-1]
        if "" in self.targets:
            name, one = look.worst
            return f"the widest 95 % interval is {_format_width(one)}, of {name} (asked: ±{one.target:g})"
        ranked = sorted(look.widest.items(), key=lambda one: -one[1].factor)
        listed = [
            f"of {name}{'' if place else ' is'} {_format_width(one)} (asked: ±{one.target:g})"
            for place, (name, one) in enumerate(ranked[:_NAMED])
        ]
        more = len(ranked) - len(listed)
        rest = [f"of {more} other columns less"] if more else []
        return f"the widest 95 % interval {join_names([*listed, *rest])}"


def _format_width(widest: Widest) -> str:
    if widest.row is None and widest.reached:
        return "none, as no row has a number"
    return f"±{widest.half_width:.2g}" if math.isfinite(widest.half_width) else "unknown"


def find_targets(table: HeadTable, targets: Mapping[str, float]) -> dict[str, float]:
    """Find the columns of a table that are to be precise; one target without a name is for all with an error.

    Raises:
        AttnprobeError: When there is no such column, or it has no error.
    """
    errors = [one.name.removesuffix("_se") for one in table.columns if one.role == "error"]
    if not errors:
        raise AttnprobeError(
            "No column of this table has an error that could get smaller; leave out --until."
        )
    for name in targets:
        if name in errors or not name:
            continue
        if name in table.data:
            raise AttnprobeError(
                f"{name} has no error that could get smaller; --until takes columns that have one: "
                f"{join_names(errors)}."
            )
        near = difflib.get_close_matches(name, errors, 1)
        hint = f"did you mean {near[0]}? It has" if near else "it has"
        raise AttnprobeError(f"The table has no column {name!r}; {hint} errors of {join_names(errors)}.")
    return {
        name: targets.get(name, targets.get("", 0.0)) for name in errors if name in targets or "" in targets
    }


def limit_observations(statistics: Iterable[Statistic], corpus: Mapping[str, Any]) -> int | None:
    """Give the most independent observations that errors tell apart, None where each document is one.

    They are blocks of documents, or groups where documents have several sequences.
    """
    if any(issubclass(one.sums, Jackknife) for one in statistics):
        return BLOCKS
    return MOST if corpus["clusters"] < corpus["sequences"] else None


def measure_widths(table: HeadTable, name: str, documents: int, most: int | None = None) -> Floats:
    """Give half the widths of the 95 % intervals of a column, row by row.

    The observations of a row are documents, or as many as the table counts where that is fewer, at most
    ``most``. A row without a number has no width: it is 0.
    """
    values, errors = (_read_numbers(table, one) for one in (name, f"{name}_se"))
    seen = np.full(len(values), float(documents if most is None else min(documents, most)))
    for column in ("n", f"{name}_n"):
        if column in table.data:
            seen = np.minimum(seen, _read_numbers(table, column))
    return np.where(np.isnan(values), 0.0, half_widths(errors, seen))


def _read_numbers(table: HeadTable, name: str) -> Floats:
    return np.array([np.nan if cell is None else cell for cell in table.data[name]], np.float64)


def take_look(
    table: HeadTable,
    targets: Mapping[str, float],
    documents: int,
    most: int | None = None,
    total: int | None = None,
) -> tuple[Look, dict[str, dict[str, Any]]]:
    """Look at what is known so far; give the widest intervals, and what names their rows.

    ``total`` is the number of documents of the corpus, where errors are about these alone.
    """
    shrunk = 1.0 if total is None else shrink_error(documents, total)
    widest: dict[str, Widest] = {}
    places: dict[str, dict[str, Any]] = {}
    keys = [one.name for one in table.columns if one.role == "key" and one.name not in {"model", "dataset"}]
    for name, target in targets.items():
        if np.isnan(_read_numbers(table, name)).all():  # where there are no rows yet, some may come
            one = Widest(0.0 if len(table) else math.inf, target)
        else:
            widths = measure_widths(table, name, documents, most)
            # Of a corpus that was read to its end all is known, of one document too.
            one = find_widest(widths * shrunk if shrunk else np.zeros_like(widths), target)
        widest[name] = one
        if one.row is not None:
            places[name] = {key: table.data[key][one.row] for key in keys}
    return Look(documents, widest, total), places


def read_until_enough(
    documents: Documents,
    options: CorpusOptions,
    order: Order,
    measure: Measure,
    tabulate: Callable[[Round], HeadTable],
    *,
    most: Callable[[Round], int | None] = lambda _: None,
    progress: Progress,
) -> Enough:
    """Measure documents in a random order, round by round, until the columns asked for are precise enough.

    Args:
        documents: All of them.
        options: With ``targets``, and what else is read.
        order: The random order; it may be the one that they come in.
        measure: Measures some documents; it is also told the number of the round, and what a bar says.
        tabulate: Makes the table of what was measured so far.
        most: Tells how many observations errors tell apart, at most.
        progress: Is told how far it is.
    """
    looks: list[Look] = []
    places: list[dict[str, dict[str, Any]]] = []
    targets: dict[str, float] = {}
    found: Round | None = None
    with closing(read_in_rounds(documents, options, order, measure, lambda: _describe_aim(looks))) as rounds:
        for found, read in rounds:
            table = tabulate(found)
            targets = targets or find_targets(table, options.targets)
            total = order.total if order.counted else None
            look, place = take_look(table, targets, read, most(found), total)
            looks.append(look)
            places.append(place)
            if is_enough(looks, strict=options.strict):
                break
    assert found is not None  # or there would have been nothing to measure
    drop_counts(found)
    return Enough(found, looks, places, order, options.targets, options.strict)


def drop_counts(found: Round) -> None:
    """Drop from the record what is rare, which nobody counted over the whole corpus."""
    for record in (found.record, found.record.get("other", {})):
        record.get("corpus", {}).update(NOT_COUNTED)


def read_in_rounds(
    documents: Documents,
    options: CorpusOptions,
    order: Order,
    measure: Measure,
    say_aim: Callable[[], str] = str,
) -> Generator[tuple[Round, int]]:
    """Measure documents in a random order, round by round, for as long as the caller takes them.

    The arguments are those of ``read_until_enough``; ``say_aim`` says before each round what is known, for a
    bar. Close it, and the order knows its documents if all were read.

    Yields:
        At each look, all that was measured so far, and how many documents were read.
    """
    found: Round | None = None
    rounds = _Rounds(documents, order, options)
    try:
        for number, upto in enumerate(plan_looks(options.sample)):
            some = rounds.take(upto)
            if some is None:
                break
            try:
                new = measure(some, number, say_aim())
            except NothingToMeasureError:
                if rounds.exhausted and found is None:
                    raise
                continue
            found = new if found is None else found + new
            yield found, rounds.read
    finally:
        order.total = rounds.read if rounds.exhausted else order.total
    if found is None:
        raise NothingToMeasureError("There is not a single document to measure.")


def _describe_aim(looks: Sequence[Look]) -> str:
    """Say for a bar, in a few words, what is known so far, and how many documents it is going to take."""
    if not looks:
        return ""
    name, one = looks[-1].worst
    estimate = looks[-1].estimate
    rest = f", some {round_up(estimate)} documents" if estimate is not None else ""
    return f"{name} ±{one.half_width:.2g} (±{one.target:g}){rest}"


class _Rounds:
    """Documents in a random order, taken some at a time.

    Attributes:
        read: How many were taken.
        exhausted: Whether there are no more.
    """

    def __init__(self, documents: Documents, order: Order, options: CorpusOptions) -> None:
        self.read, self.exhausted = 0, False
        self._folder: MediaFolder | None = None
        if isinstance(documents, MediaFolder):
            self._folder = arrange_media(documents.first(options.limit), order)
            return
        self._parts = arrange(islice(documents, options.limit), order)

    def take(self, upto: int) -> Documents | None:
        """Take documents until so many were taken, or None; they are counted as they are read."""
        number = upto - self.read
        if self._folder is not None:
            items = self._folder.items[self.read : upto]
            self.read += len(items)
            self.exhausted = self.read == len(self._folder.items)
            return replace(self._folder, items=items) if items else None
        first = next(self._parts, None)
        self.exhausted = first is None
        return None if first is None else self._count(first, number)

    def _count(self, first: list[Document], number: int) -> Iterator[Document]:
        before = self.read
        for parts in chain([first], islice(self._parts, number - 1)):
            self.read += 1
            yield from parts
        self.exhausted = self.read < before + number
