"""Ways to put what was measured into a table: what a row is, and which columns it has."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from math import isqrt

import numpy as np

from attnprobe.statistics.by_group import tabulate_groups
from attnprobe.statistics.norm import mark_by_norm, stack_by_norm, strip_norm
from attnprobe.statistics.statistic import Statistic
from attnprobe.sums.base import Measurement
from attnprobe.table.builder import Labels, TableBuilder
from attnprobe.table.table import HeadTable, join_side_by_side

#: From title, measurement, statistics and labels to a table.
Build = Callable[[str, Measurement, Sequence[Statistic], Labels], HeadTable]


@dataclass(frozen=True)
class Tabulation:
    """A way to put a measurement into a table.

    Attributes:
        name: What a row is; records know it by this.
        build: Makes the table.
        title: What the table shows, where that does not depend on the statistics.
        build_groups: Makes the table of groups of documents; by default see ``tabulate_groups``.
        stacked: Whether what is weighted by norm has rows of its own, told apart by a column ``weights``.
    """

    name: str
    build: Build
    title: str = ""
    build_groups: Build | None = None
    stacked: bool = False

    def table(
        self, title: str, measurement: Measurement, statistics: Sequence[Statistic], labels: Labels
    ) -> HeadTable:
        """Make the table; of groups of documents, one after the other, if the measurement has some."""
        if not measurement.strata:
            return self._tabulate(title, measurement, statistics, labels)
        if self.build_groups is not None:
            return self.build_groups(title, measurement, statistics, labels)
        return tabulate_groups(lambda part: self._tabulate(title, part, statistics, labels), measurement)

    def _tabulate(
        self, title: str, measurement: Measurement, statistics: Sequence[Statistic], labels: Labels
    ) -> HeadTable:
        """Tabulate all documents; what is weighted by norm under its plain names, behind what is not."""
        as_it_is = [statistic for statistic in statistics if statistic.weights == "attention"]
        by_norm = [statistic for statistic in statistics if statistic.of is not None]
        lengths = [statistic for statistic in statistics if statistic not in {*as_it_is, *by_norm}]
        tables = [self.build(title, measurement, as_it_is, labels)] if as_it_is else []
        if by_norm:
            plain, sums = strip_norm(by_norm, measurement)
            table = self.build(title, sums, plain, labels)
            if self.stacked:
                return stack_by_norm(tables[0] if tables else None, table, labels.every_note)
            tables.append(mark_by_norm(table, labels.every_note))
        if lengths:
            tables.append(self.build(title, measurement, lengths, labels))
        return reduce(join_side_by_side, tables)


def count_heads(pairs: int) -> int:
    """Give the number of heads that make so many pairs.

    >>> count_heads(66), count_heads(0)
    (12, 1)
    """
    return (1 + isqrt(1 + 8 * pairs)) // 2


def head_table(
    title: str, measurement: Measurement, statistics: Sequence[Statistic], labels: Labels
) -> HeadTable:
    """Tabulate statistics of heads, one row a head; ``n`` is the number of sequences."""
    shown = [statistic for statistic in statistics if statistic.name in measurement.sums]
    layers, heads = measurement.sums[shown[0].name].count.shape[:2]
    if shown[0].rows == "pair":
        heads = count_heads(heads)
    build = TableBuilder(labels, layers * heads)
    build.heads(heads)
    build.count("n", np.full(layers * heads, measurement.sequences))
    for statistic in shown:
        statistic.columns(statistic, measurement.sums[statistic.name], build)
    sorts = {statistic.about for statistic in shown} == {"modalities"}
    return build.table(title, kind="modalities" if sorts else "heads")


HEADS = Tabulation("head", head_table)
