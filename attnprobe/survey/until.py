"""Reading as much as it takes: documents in a random order, until columns are precise enough.

Looks are at 128, 256, 512, ... documents, and at all there are, so a resumed run ends at the same look.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import chain, count, islice, pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnprobe.corpus.sources.media import MediaFolder
from attnprobe.corpus.sources.order import Order, arrange, arrange_media
from attnprobe.errors import AttnprobeError
from attnprobe.run.examples import Documents
from attnprobe.run.options import CorpusOptions
from attnprobe.statistics.statistic import Statistic
from attnprobe.sums.blocked import Blocked
from attnprobe.sums.clustered import MOST
from attnprobe.sums.documents import BLOCKS
from attnprobe.sums.inference import half_width
from attnprobe.table.naming import join_names
from attnprobe.table.numbers import format_number
from attnprobe.table.table import HeadTable

#: Documents at the first look; at each further one there are twice as many.
FIRST = 128


@dataclass(frozen=True)
class InterimLook:
    """How precise a table was: half the width of the widest 95 % interval of each column."""

    documents: int
    half_widths: Mapping[str, float]


@dataclass
class SequentialRun:
    """Looks at a table of ever more documents, until each of its columns is as precise as was asked.

    Attributes:
        order: The random order in which documents are read.
        targets: The half width that is asked of each column; without a name, of all that have an error.
        statistics: What is measured.
        looks: All looks so far.
    """

    order: Order
    targets: Mapping[str, float]
    statistics: Sequence[Statistic]
    looks: list[InterimLook] = field(default_factory=list)

    def look(self, table: HeadTable, corpus: Mapping[str, Any]) -> bool:
        """Look at a table of what is on record of a ``corpus``, and tell whether it is precise enough."""
        self.columns = find_targets(table, self.targets)
        documents, most = corpus["clusters"], limit_observations(self.statistics, corpus)
        widths = {name: measure_width(table, name, documents, most) for name in self.columns}
        self.looks.append(InterimLook(documents, widths))
        return self.reached

    @property
    def reached(self) -> bool:
        widths = self.looks[-1].half_widths
        return all(widths[name] <= target for name, target in self.columns.items())

    @property
    def record(self) -> dict[str, Any]:
        return {
            "targets": self.targets,
            "seed": self.order.seed,
            "documents": self.looks[-1].documents,
            "of": self.order.total,
            "reached": self.reached,
            "looks": [asdict(look) for look in self.looks],
        }

    @property
    def note(self) -> str:
        last, total = self.looks[-1], self.order.total
        widest = max(self.columns, key=lambda name: last.half_widths[name] / self.columns[name])
        width, target = (format_number(one[widest], digits=2) for one in (last.half_widths, self.columns))
        return (
            f"{last.documents:,}{f' of {total:,}' if total is not None else ''} documents were read in a "
            f"random order, which is {'' if self.reached else 'not '}enough: the widest 95 % interval of "
            f"{widest} is ± {width} (asked: ± {target})."
        )


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


def limit_observations(statistics: Sequence[Statistic], corpus: Mapping[str, Any]) -> int | None:
    """Give how many observations errors tell apart, at most: blocks or groups of documents, if any."""
    if any(issubclass(one.sums, Blocked) for one in statistics):
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


def split_rounds(documents: Documents, options: CorpusOptions, order: Order) -> Iterator[Documents]:
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
