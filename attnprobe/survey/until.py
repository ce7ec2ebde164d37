"""Reading as much as it takes: documents in a random order, until columns are precise enough.

Looks are at 128, 256, 512, ... documents, and at all there are, so a resumed run ends at the same look.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import chain, count, islice, pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnprobe.corpus.sources.media import MediaFolder
from attnprobe.corpus.sources.order import Order, arrange, arrange_media
from attnprobe.errors import AttnprobeError, NothingToMeasureError
from attnprobe.run.examples import Documents
from attnprobe.run.options import CorpusOptions
from attnprobe.run.preparation import Corpus
from attnprobe.run.record import NOT_COUNTED, add_corpora
from attnprobe.statistics.statistic import Statistic
from attnprobe.sums.blocked import Jackknife
from attnprobe.sums.clustered import MOST
from attnprobe.sums.documents import BLOCKS
from attnprobe.sums.inference import half_width
from attnprobe.table.head_table import HeadTable
from attnprobe.table.naming import join_names
from attnprobe.table.numbers import format_number

#: Documents at the first look; at each further one there are twice as many.
FIRST = 128


@dataclass(frozen=True)
class Round:
    """The sums over some documents, their record, and the documents in batches. Rounds add up."""

    sums: Any
    record: Mapping[str, Any]
    corpus: Corpus

    def __add__(self, other: "Round") -> "Round":
        record = {**self.record, "corpus": add_corpora(self.record["corpus"], other.record["corpus"])}
        corpus = replace(other.corpus, reading=self.corpus.reading + other.corpus.reading)
        return Round(self.sums + other.sums, record, corpus)


def find_targets(table: HeadTable, targets: Mapping[str, float]) -> dict[str, float]:
    """Find the columns that are to be precise; a target without a name is for all that have an error."""
    errors = [one.name.removesuffix("_se") for one in table.columns if one.role == "error"]
    if not errors:
        raise AttnprobeError("No column of this table has an error; leave out --until.")
    if unknown := next((name for name in targets if name and name not in errors), None):
        raise AttnprobeError(
            f"--until takes a column that has an error, not {unknown!r}: {join_names(errors)}."
        )
    return {name: targets.get(name, targets.get("", 0.0)) for name in errors if {name, ""} & {*targets}}


def limit_observations(statistics: Iterable[Statistic], corpus: Mapping[str, Any]) -> int | None:
    """Give how many observations errors tell apart, at most: blocks or groups of documents, if any."""
    if any(issubclass(one.sums, Jackknife) for one in statistics):
        return BLOCKS
    return MOST if corpus["clusters"] < corpus["sequences"] else None


def measure_width(table: HeadTable, name: str, documents: int, most: int | None = None) -> float:
    """Give half the width of the widest 95 % interval of a column: t(.975, n - 1) times its standard error.

    n is the number of documents, or as many as the row counts, where that is fewer, at most ``most``. Rows
    without a number have no width; it is infinite where there is no row, or no error.
    """

    def read(column: str) -> NDArray[np.float64]:
        return np.array([np.nan if cell is None else cell for cell in table.data[column]], np.float64)

    observed = np.full(len(table), float(documents if most is None else min(documents, most)))
    for column in {"n", f"{name}_n"} & {*table.data}:
        observed = np.minimum(observed, read(column))
    widths = half_width(read(f"{name}_se"), observed, together=1)
    widths[~np.isfinite(widths)] = np.inf
    return float(widths[~np.isnan(read(name))].max(initial=0.0)) if len(table) else np.inf


def read_until_enough(
    documents: Documents,
    options: CorpusOptions,
    order: Order,
    measure: Callable[[Documents, int], Round],
    tabulate: Callable[[Round], HeadTable],
    most: Callable[[Round], int | None],
) -> tuple[Round, dict[str, Any], str]:
    """Measure documents in a random order until the widest interval of each column is within its target.

    ``measure`` is also told the number of the look; ``most`` tells how many observations errors tell apart.

    Returns:
        All rounds together, what goes on record, and a sentence on how precise the numbers are.
    """
    looks: list[dict[str, Any]] = []
    total, enough = None, False
    targets, widths, read = dict[str, float](), dict[str, float](), 0
    for number, part in enumerate(_split_rounds(documents, options, order)):
        try:
            new = measure(part, number)
        except NothingToMeasureError:
            continue
        total = new if total is None else total + new
        table, read = tabulate(total), total.record["corpus"]["clusters"]
        targets = find_targets(table, options.targets)
        widths = {name: measure_width(table, name, read, most(total)) for name in targets}
        looks.append({"documents": read, "half_widths": widths})
        if enough := all(widths[name] <= target for name, target in targets.items()):
            break
    if total is None:
        raise NothingToMeasureError("There is not a single document to measure.")
    total.record["corpus"].update(NOT_COUNTED)
    widest = max(targets, key=lambda name: widths[name] / targets[name])
    of = f" of {order.total:,}" if order.total is not None else ""
    width, target = (format_number(one[widest], digits=2) for one in (widths, targets))
    note = (
        f"{read:,}{of} documents were read in a random order, which is {'' if enough else 'not '}enough: the "
        f"widest 95 % interval of {widest} is ± {width} (asked: ± {target})."
    )
    record = {"targets": options.targets, "seed": order.seed, "documents": read, "of": order.total}
    return total, {**record, "reached": enough, "looks": looks}, note


def _split_rounds(documents: Documents, options: CorpusOptions, order: Order) -> Iterator[Documents]:
    """Part documents in a random order at 128, 256, 512, ...; each part is read before the next."""
    if isinstance(documents, MediaFolder):
        folder = arrange_media(documents.first(options.limit), order)
        items = folder.items[: options.sample]
        for start, stop in pairwise(chain([0], (FIRST << number for number in count()))):
            if start >= len(items):
                return
            yield replace(folder, items=items[start:stop])
        return
    parts = islice(arrange(islice(documents, options.limit), order), options.sample)
    for number in count():
        if (first := next(parts, None)) is None:
            return
        rest = islice(parts, (FIRST if number == 0 else FIRST << (number - 1)) - 1)
        yield chain(first, chain.from_iterable(rest))
