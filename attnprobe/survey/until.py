"""Reading as much as it takes: documents in a random order, until columns are precise enough.

Looks are at 128, 256, 512, ... documents, and at all there are, so a resumed run ends at the same look.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, count, islice
from typing import Any

import numpy as np

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


@dataclass
class SequentialRun:
    """Looks at a table of ever more documents, until each of its columns is as precise as was asked.

    Attributes:
        order: The random order in which documents are read.
        targets: The half width that is asked of each column; without a name, of all that have an error.
        statistics: What is measured.
        looks: The number of documents at each look, and half the widest 95 % interval of each column.
    """

    order: Order
    targets: Mapping[str, float]
    statistics: Sequence[Statistic]
    looks: list[dict[str, Any]] = field(default_factory=list)

    def look(self, table: HeadTable, corpus: Mapping[str, Any]) -> bool:
        """Look at a table of what is on record of a ``corpus``, and tell whether it is precise enough."""
        self.columns, documents, most = find_targets(table, self.targets), corpus["clusters"], None
        if any(issubclass(one.sums, Blocked) for one in self.statistics):
            most = BLOCKS
        elif documents < corpus["sequences"]:
            most = MOST
        widths = {name: measure_width(table, name, documents, most) for name in self.columns}
        self.looks.append({"documents": documents, "half_widths": widths})
        return self.reached

    @property
    def reached(self) -> bool:
        widths = self.looks[-1]["half_widths"]
        return all(widths[name] <= target for name, target in self.columns.items())

    @property
    def record(self) -> dict[str, Any]:
        return {
            "targets": self.targets,
            "seed": self.order.seed,
            "documents": self.looks[-1]["documents"],
            "of": self.order.total,
            "reached": self.reached,
            "looks": self.looks,
        }

    @property
    def note(self) -> str:
        documents, widths = self.looks[-1].values()
        total = "" if self.order.total is None else f" of {self.order.total:,}"
        widest = max(self.columns, key=lambda name: widths[name] / self.columns[name])
        width, target = (format_number(one[widest], digits=2) for one in (widths, self.columns))
        return (
            f"{documents:,}{total} documents were read in a random order, which is "
            f"{'' if self.reached else 'not '}enough: the widest 95 % interval of {widest} is ± {width} "
            f"(asked: ± {target})."
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


def measure_width(table: HeadTable, name: str, documents: int, most: int | None = None) -> float:
    """Give half the width of the widest 95 % interval of a column: t(.975, n - 1) times its standard error.

    n is the number of documents, or as many as the row counts, where that is fewer, at most ``most``. Rows
    without a number have no width; it is infinite where there is no row, or no error.
    """
    read = [name, f"{name}_se", *({"n", f"{name}_n"} & {*table.data})]
    values, errors, *observed = (np.array(table.data[one], np.float64) for one in read)
    fewest = np.min([np.full(len(table), min(documents, most or documents)), *observed], 0)
    widths = half_width(errors, fewest, together=1)
    widths[~np.isfinite(widths)] = np.inf
    return float(widths[~np.isnan(values)].max(initial=0.0)) if len(table) else np.inf


def split_rounds(documents: Documents, options: CorpusOptions, order: Order) -> Iterator[Documents]:
    """Part documents in a random order at 128, 256, 512, ...; each part is read before the next."""
    if isinstance(documents, MediaFolder):
        documents = arrange_media(documents.first(options.limit), order)
        parts: Iterator[Any] = islice(documents.items, options.sample)
    else:
        parts = islice(arrange(islice(documents, options.limit), order), options.sample)
    for size in chain([FIRST], (FIRST << number for number in count())):
        if (first := next(parts, None)) is None:
            return
        rest = islice(parts, size - 1)
        if isinstance(documents, MediaFolder):
            yield replace(documents, items=(first, *rest))
        else:
            yield chain(first, chain.from_iterable(rest))
