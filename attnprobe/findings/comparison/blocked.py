"""What a checkpoint's table keeps of blocks of documents, to be set beside those of other checkpoints."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnprobe.errors import AttnprobeError
from attnprobe.findings.comparison.differences import picked
from attnprobe.findings.noise import RECORD, sample_of
from attnprobe.run.packing import packed, unpacked
from attnprobe.statistics.statistic import Statistic
from attnprobe.statistics.tabulation import Tabulation
from attnprobe.sums.blocks import BLOCKS
from attnprobe.sums.jackknife import Jackknife
from attnprobe.sums.measurement import Measurement
from attnprobe.table.builder import Labels, TableBuilder
from attnprobe.table.head_table import HeadTable
from attnprobe.table.table import Column

Floats = NDArray[np.float64]

_COUNT, _MEAN = "count", "mean"
_KEYS = ("attention", "layer", "head")


@dataclass(frozen=True)
class Blocked:
    """A number of every head, over each block of documents.

    Attributes:
        column: What it is.
        heads: The heads: the kind of attention if there are several, layer, number.
        sizes: (block, head) the examples of each that the number is defined for.
        means: (block, head) the mean over these; NaN where there is none.
    """

    column: Column
    heads: Sequence[tuple[Any, ...]]
    sizes: Floats
    means: Floats

    @property
    def sums(self) -> Jackknife:
        """The sums of each head that its means are of."""
        return Jackknife(self.sizes, np.where(self.sizes > 0, self.means, 0.0) * self.sizes)


def _table(
    title: str, measurement: Measurement, statistics: Sequence[Statistic], labels: Labels
) -> HeadTable:
    """Tabulate heads, with the means over blocks of documents on record.

    A statistic that picks one of several numbers of a head, such as the offset with the largest share, picks
    it over all documents. What is about weights alone is left out.
    """
    kept: dict[str, NDArray[Any]] = {}
    rows = len(labels.places) * max((one.average.shape[1] for one in measurement.sums.values()), default=0)
    record = {**labels.provenance}
    record["measurement"] = {name: one for name, one in record["measurement"].items() if name != "sums"}
    build = TableBuilder(replace(labels, provenance=record), rows)
    build.heads(rows // len(labels.places))
    build.count("n", np.full(rows, measurement.sequences))
    for statistic in statistics:
        found = measurement.sums[statistic.name]
        if not isinstance(found, Jackknife):
            continue
        of_heads, _ = picked(statistic, found)
        counts, totals = of_heads.counts, of_heads.totals
        kept[f"{_COUNT}/{statistic.name}"] = counts
        kept[f"{_MEAN}/{statistic.name}"] = np.divide(
            totals, counts, out=np.full_like(totals, np.nan), where=counts > 0
        )
        unit = statistic.unit_of(patches=build.patches)
        build.add(Column(statistic.name, unit, title=statistic.title), of_heads.average)
    if not kept:
        raise AttnprobeError(f"{statistics[0].name} is about weights alone; it does not vary between texts.")
    record[RECORD] = {"heads": [[*_place(build, row)] for row in range(rows)], "sums": packed(kept)}
    return build.table(title)


class _Whole(Tabulation):
    """A tabulation in which statistics that are weighted by norm are as any other."""

    def table(
        self, title: str, measurement: Measurement, statistics: Sequence[Statistic], labels: Labels
    ) -> HeadTable:
        """Make the table."""
        return self.build(title, measurement, statistics, labels)


#: How the census of a checkpoint is tabulated that is to be set beside others.
ALONE = _Whole("head, in blocks", _table, "heads in blocks of documents")


def blocked(table: HeadTable, name: str) -> list[Blocked]:
    """Read what a table has on record of blocks of documents.

    Args:
        table: Of the census in blocks, or of importance.
        name: What the user calls the checkpoint.

    Raises:
        AttnprobeError: When there is nothing, or it is damaged.
    """
    record = table.provenance.get(RECORD, {})
    if "heads" not in record:
        return [_importance(table, name)]
    arrays = unpacked(record["sums"])
    heads = [tuple(head) for head in record["heads"]]
    there = {tuple(table.data[key][row] for key in _KEYS if key in table.data) for row in range(len(table))}
    some = [place for place, head in enumerate(heads) if head in there]
    return [
        Blocked(
            column,
            [heads[place] for place in some],
            arrays[f"{_COUNT}/{column.name}"][:, some],
            arrays[f"{_MEAN}/{column.name}"][:, some],
        )
        for column in table.columns
        if f"{_MEAN}/{column.name}" in arrays
    ]


def _importance(table: HeadTable, name: str) -> Blocked:
    column = str(table.provenance.get(RECORD, {}).get("column", ""))
    if column not in table.data:
        raise AttnprobeError(f"The table of {name} keeps nothing of blocks of documents.")
    keys = [key for key in _KEYS if key in table.data]
    heads = [tuple(table.data[key][row] for key in keys) for row in range(len(table))]
    values = {head: float(cell or 0) for head, cell in zip(heads, table.data[column], strict=True)}
    sample = sample_of(table.provenance, column, values, name)
    assert sample is not None  # its column was read from the record
    sizes, means = np.zeros((BLOCKS, len(heads))), np.full((BLOCKS, len(heads)), np.nan)
    sizes[sample.block] = sample.count[:, None]
    means[sample.block] = sample.total / sample.count[:, None]
    return Blocked(table.column(column), heads, sizes, means)


def read_by(table: HeadTable) -> tuple[int, int, bool]:
    """Say what a checkpoint read: documents with tokens, sequences, whether documents were cut."""
    corpus: Mapping[str, Any] = table.provenance["corpus"]
    return corpus["documents"] - corpus["empty"], corpus["sequences"], corpus["cut"] > 0


def check_same_documents(tables: Sequence[HeadTable], names: Sequence[str]) -> None:
    """Refuse checkpoints of which one finds tokens in a document that another finds none in.

    Blocks would then hold different documents.
    """
    first, *others = (read_by(table)[0] for table in tables)
    for name, number in zip(names[1:], others, strict=True):
        if number != first:
            raise AttnprobeError(
                f"{names[0]} finds tokens in {first:,} documents and {name} in {number:,}, so that they "
                "can't be compared document by document; leave out those that are empty for one of them."
            )


def _place(build: TableBuilder, row: int) -> tuple[Any, ...]:
    return tuple(build.data[key][row] for key in _KEYS if key in build.data)
