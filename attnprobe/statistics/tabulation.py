"""From a measurement to a table: what a row is, and which columns it has."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from math import inf, isqrt

import numpy as np
from numpy.typing import NDArray

from attnprobe.statistics.statistic import BY_NORM, SUFFIX, Statistic
from attnprobe.sums.base import Measurement
from attnprobe.sums.clustered import Clustered
from attnprobe.sums.inference import FEWEST_DOCUMENTS, adjust, compare_groups
from attnprobe.table.builder import Labels, TableBuilder, p_columns
from attnprobe.table.cells import clean
from attnprobe.table.kinds import ALL_GROUPS, GROUP
from attnprobe.table.naming import join_names
from attnprobe.table.table import Column, HeadTable, join_side_by_side, stack_rows

NO_PAIRS = "No layer has two heads, so that there are no pairs."
#: How the title of a table of groups ends.
_BY_GROUP = ", by group"
_BY_NORM_MEANS = (
    "are about attention weighted by what it carries: p_ij ||W_O,h v_j||, the length of what a key gives to "
    "the residual stream (Kobayashi et al. 2020), each row of a map divided by its sum."
)
#: From title, measurement, statistics and labels to a table.
Build = Callable[[str, Measurement, Sequence[Statistic], Labels], HeadTable]


@dataclass(frozen=True)
class Tabulation:
    """A way to put a measurement into a table.

    Attributes:
        name: What a row is; records know it by this.
        build: Makes the table.
        title: What the table shows, where that does not depend on the statistics.
        build_groups: Makes the table of groups of documents; by default ``tabulate_groups``.
        stacked: Whether attention weighted by norm has rows of its own, marked in a column ``weights``.
    """

    name: str
    build: Build
    title: str = ""
    build_groups: Build | None = None
    stacked: bool = False

    def table(
        self, title: str, measurement: Measurement, statistics: Sequence[Statistic], labels: Labels
    ) -> HeadTable:
        """Make the table, with rows for each group of documents if the measurement has groups."""
        if not measurement.groups:
            return self._tabulate(title, measurement, statistics, labels)
        if self.build_groups is not None:
            return self.build_groups(title, measurement, statistics, labels)
        return tabulate_groups(lambda part: self._tabulate(title, part, statistics, labels), measurement)

    def _tabulate(
        self, title: str, measurement: Measurement, statistics: Sequence[Statistic], labels: Labels
    ) -> HeadTable:
        """Tabulate all documents: first plain attention, then attention weighted by norm, then norms."""
        as_it_is = [statistic for statistic in statistics if statistic.weights == "attention"]
        plain = {statistic.name: statistic.of for statistic in statistics if statistic.of is not None}
        lengths = [each for each in statistics if each.weights == "norm" and each.of is None]
        tables = [self.build(title, measurement, as_it_is, labels)] if as_it_is else []
        if plain:
            sums = {of.name: measurement.sums[name] for name, of in plain.items() if name in measurement.sums}
            weighted = replace(measurement, sums=sums, groups={})
            table = self.build(title, weighted, [*plain.values()], labels)
            tables = _add_weighted(tables, table, labels.all_notes, stacked=self.stacked)
        if lengths:
            tables.append(self.build(title, measurement, lengths, labels))
        return reduce(join_side_by_side, tables)


def _add_weighted(
    tables: Sequence[HeadTable], table: HeadTable, shared: Sequence[str], *, stacked: bool
) -> list[HeadTable]:
    """Stack a table of weighted attention below the plain ones, or append it to them, to be joined.

    Stacked rows are marked in a column ``weights``, columns by a suffix. ``shared`` notes stay as they are.
    """
    known = [note for each in tables for note in each.notes if stacked and note not in shared]
    by_norm = [f"By norm: {note}" for note in table.notes if note not in {*shared, *known}]
    if stacked:
        parts = [*(("attention", each) for each in tables), ("norm", table)]
        notes = [f"Rows with the weights norm {_BY_NORM_MEANS}", *known, *by_norm, *shared]
        return [stack_rows(parts, "weights", notes)]
    columns, data = [], {}
    for column in table.columns:
        name, unit, title = column.name, column.unit, column.title
        if column.role != "key" and name != "n":
            # Before the ending of an error or of a count.
            end = next((end for end in ("_se", "_n") if name.endswith(end)), "")
            base = name.removesuffix(end)
            name = f"{base}{SUFFIX}{end}" if base in table.data else f"{name}{SUFFIX}"
            unit, title = unit and f"{unit}{BY_NORM}", title and f"{title}{BY_NORM}"
        columns.append(replace(column, name=name, unit=unit, title=title))
        data[name] = table.data[column.name]
    notes = [f"Columns that end in _norm {_BY_NORM_MEANS}", *by_norm, *shared]
    return [*tables, replace(table, columns=columns, data=data, notes=notes)]


def count_heads(pairs: int) -> int:
    """Give the number of heads that make so many pairs: 12 for 66, and 1 for none."""
    return (1 + isqrt(1 + 8 * pairs)) // 2


def arrange_pairs(pairs: NDArray[np.float64]) -> NDArray[np.float64]:
    """Arrange numbers of pairs (..., pair) as matrices (..., head, head), NaN on the diagonal."""
    heads = count_heads(pairs.shape[-1])
    a, b = np.triu_indices(heads, 1)
    matrices = np.full((*pairs.shape[:-1], heads, heads), np.nan)
    matrices[..., a, b] = matrices[..., b, a] = pairs
    return matrices


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
    return build.table(title)


HEADS = Tabulation("head", head_table)


# Groups of documents: rows for each and for all, and a test that they are alike


def sort_groups(names: Collection[str]) -> list[str]:
    """Sort the names of groups, numbers by their size.

    >>> sort_groups(["10", "9", "news", "law"])
    ['9', '10', 'law', 'news']
    """
    return sorted(names, key=lambda name: (float(name) if name.isdecimal() else inf, name))


def tabulate_groups(build: Callable[[Measurement], HeadTable], measurement: Measurement) -> HeadTable:
    """Tabulate all groups of documents together, and then each, with a column ``group`` after ``dataset``.

    For a measure with an error, the rows of all groups also test whether groups differ: ``NAME_q`` is
    Cochran's Q over groups, ``NAME_q_p`` its p (see ``compare_groups``), ``NAME_q_p_adjusted`` corrected for
    the number of rows (Holm). A number that is chosen, such as an offset, is chosen for each group by itself.
    """
    by_group = measurement.groups
    groups = {name: build(by_group[name]) for name in sort_groups(by_group)}
    table = stack_groups(build(measurement), groups, by_group)
    return _add_tests(table, {name: by_group[name].documents for name in groups})


def stack_groups(
    whole: HeadTable, groups: Mapping[str, HeadTable], by_group: Mapping[str, Measurement]
) -> HeadTable:
    """Put the rows of all groups above those of each group."""
    notes = [*_note_groups({name: by_group[name] for name in groups}), *whole.notes]
    # What is merged is called so already.
    title = f"{whole.title.removesuffix(_BY_GROUP)}{_BY_GROUP}"
    return replace(stack_rows([(ALL_GROUPS, whole), *groups.items()], GROUP, notes), title=title)


def _add_tests(table: HeadTable, documents: Mapping[str, int]) -> HeadTable:
    """Return the table with a test in rows of all groups: that groups of so many documents share a value."""
    keys = [column.name for column in table.columns if column.role == "key" and column.name != GROUP]
    rows = list(zip(table.data[GROUP], *(table.data[key] for key in keys), strict=True))
    places = {names: row for row, names in enumerate(rows)}
    whole = [names for group, *names in rows if group == ALL_GROUPS]
    at = np.array([[places.get((group, *names), -1) for names in whole] for group in documents], np.intp)
    most = np.array([*documents.values()])[:, None]

    def read(name: str) -> NDArray[np.float64]:
        """Give a column (group, row); NaN where there is no such row, or no number."""
        return np.array([*table.data[name], None], np.float64)[at]

    columns, data = list[Column](), {}
    for column in table.columns:
        columns.append(column)
        data[column.name] = table.data[column.name]
        if column.role != "error":
            continue
        name = column.name.removesuffix("_se")
        counts = [read(count) for count in (f"{name}_n", "n") if count in table.data]
        q, p = compare_groups(read(name), read(column.name), np.fmin(counts[0], most) if counts else most)
        title = f"Cochran's Q of {table.column(name).title or name}"
        tests = [Column(f"{name}_q", title=title), *p_columns(f"{name}_q_p", f" of {title}")]
        for test, cells in zip(tests, (q, p, adjust(p)), strict=True):
            columns.append(test)
            data[test.name] = [*cells.tolist(), *[np.nan] * (len(table) - len(whole))]
    return replace(table, columns=columns, data=data)


def _note_groups(groups: Mapping[str, Measurement]) -> Iterator[str]:
    sums = [each for group in groups.values() for each in group.sums.values() if isinstance(each, Clustered)]
    # Sums that tell all documents apart know how many there are.
    counted = bool(sums) and not any(each.groups.shared for each in sums)
    names = [f"{clean(name)}{f' ({group.documents:,})' * counted}" for name, group in groups.items()]
    if len(names) == 1:
        yield f"There is one group only, {names[0]}, and nothing to compare it with."
        return
    yield f"{len(names)} groups{', with their documents' * counted}: {join_names(names, 20)}."
    few = [clean(name) for name, group in groups.items() if group.documents < FEWEST_DOCUMENTS]
    if few:
        yield f"Groups of fewer than {FEWEST_DOCUMENTS} documents do not count in Q: {join_names(few)}."
