"""Groups of documents side by side: a row for each and one for all, and a test that they are alike."""

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnprobe.sums.base import Measurement
from attnprobe.sums.clustered import Clustered
from attnprobe.sums.inference import FEWEST_DOCUMENTS, adjust, compare_groups
from attnprobe.table.builder import p_columns
from attnprobe.table.cells import clean
from attnprobe.table.kinds import ALL_GROUPS, GROUP
from attnprobe.table.naming import join_names
from attnprobe.table.table import Column, HeadTable

Floats = NDArray[np.float64]
#: What names a row beside its group.
Key = tuple[Any, ...]
#: Makes the table of a measurement that is not parted into groups.
BuildPart = Callable[[Measurement], HeadTable]

#: Columns that stand before that of the group, so that files can be stacked.
_STACKING = ("model", "dataset")
#: How the title of such a table ends.
_BY_GROUP = ", by group"


def sort_groups(names: Sequence[str]) -> list[str]:
    """Sort the names of groups, numbers in them by their size.

    >>> sort_groups(["10", "9", "news", "2b"])
    ['2b', '9', '10', 'news']
    """
    return sorted(
        names,
        key=lambda name: [
            (len(part), part) if part.isdigit() else (0, part) for part in re.split(r"(\d+)", name)
        ],
    )


@dataclass(frozen=True)
class Part:
    """The table of one group, or of all.

    Attributes:
        table: Its rows.
        documents: How many documents it is of, at least.
        exact: Whether there are no more.
        by_row: How many each row is of, where that is known.
    """

    table: HeadTable
    documents: int
    exact: bool
    by_row: Sequence[int] = ()

    @classmethod
    def of(cls, table: HeadTable, measurement: Measurement, by_row: Sequence[int] = ()) -> "Part":
        """Count the documents of a table; ``by_row`` is as long as it, or empty."""
        clustered = [one for one in measurement.sums.values() if isinstance(one, Clustered)]
        exact = bool(clustered) and not any(one.groups.shared for one in clustered)
        return cls(table, measurement.documents, exact, by_row)

    @cached_property
    def keys(self) -> list[Key]:
        """What names each row."""
        names = [one.name for one in self.table.columns if one.role == "key" and one.name not in _STACKING]
        return list(zip(*(self.table.data[name] for name in names), strict=True))

    def read(self, name: str, keys: Sequence[Key]) -> Floats:
        """Give a column for some rows; NaN where there is no such row, or no number."""
        cells = dict(zip(self.keys, self.table.data[name], strict=True))
        return np.array([cells.get(key) for key in keys], np.float64)

    def count_documents(self, name: str, keys: Sequence[Key]) -> Floats:
        """Count the documents that the errors of a measure are of: no more than what the row counts."""
        if self.by_row:
            counts = dict(zip(self.keys, self.by_row, strict=True))
            return np.array([counts.get(key, 0) for key in keys], np.float64)
        counts = [self.read(one, keys) for one in (f"{name}_n", "n") if one in self.table.data]
        return np.fmin(counts[0], self.documents) if counts else np.full(len(keys), float(self.documents))


def tabulate_groups(build: BuildPart, measurement: Measurement) -> HeadTable:
    """Tabulate all groups of documents together, and then each, with a column ``group`` behind ``dataset``.

    Where a measure has an error, the rows of all groups say beside it whether groups are alike: ``NAME_q``,
    Cochran's Q over groups; ``NAME_q_p``, how likely chance alone would make it so large, see
    ``compare_groups``; ``NAME_q_p_adjusted``, the same, corrected for the number of rows (Holm). What is
    chosen by the numbers themselves, such as an offset, is chosen for each group by itself.
    """
    whole = Part.of(build(replace(measurement, strata={})), measurement)
    strata = measurement.strata
    groups = {name: Part.of(build(strata[name]), strata[name]) for name in sort_groups([*strata])}
    return stack_groups(whole, groups)


def stack_groups(whole: Part, groups: Mapping[str, Part], tested: Collection[str] | None = None) -> HeadTable:
    """Put the rows of all groups, with their tests, above those of each group.

    Args:
        whole: The table of all groups.
        groups: That of each, by its name.
        tested: The measures that are tested, where not all are; the rows of one key stand together then.
    """
    columns, data = [], dict[str, list[Any]]()
    parts = {ALL_GROUPS: whole, **groups}
    labels = [name for name, part in parts.items() for _ in part.keys]
    for column in whole.table.columns:
        if GROUP not in data and column.name not in _STACKING:
            columns.append(Column(GROUP, role="key"))
            data[GROUP] = labels
        columns.append(column)
        data[column.name] = [cell for part in parts.values() for cell in part.table.data[column.name]]
        name = column.name.removesuffix("_se")
        if column.role != "error" or not (tested is None or name in tested):
            continue
        q, p = compare_measure(name, whole.keys, [*groups.values()])
        title = f"Cochran's Q of {whole.table.column(name).title or name}"
        tests = [Column(f"{name}_q", title=title), *p_columns(f"{name}_q_p", f" of {title}")]
        for test, cells in zip(tests, (q, p, adjust(p)), strict=True):
            columns.append(test)
            data[test.name] = [*cells.tolist(), *[np.nan] * (len(labels) - len(cells))]
    if tested is not None:
        place = {key: row for row, key in enumerate(whole.keys)}
        rows = [place[key] for part in parts.values() for key in part.keys]
        order = sorted(range(len(rows)), key=rows.__getitem__)
        data = {name: [cells[row] for row in order] for name, cells in data.items()}
    # What is merged is called so already.
    title = f"{whole.table.title.removesuffix(_BY_GROUP)}{_BY_GROUP}"
    notes = [*_describe_groups(groups), *whole.table.notes]
    return HeadTable(title, columns, data, notes, whole.table.provenance)


def compare_measure(name: str, keys: Sequence[Key], groups: Sequence[Part]) -> tuple[Floats, Floats]:
    """Test whether groups are alike in a measure, row by row: Q and p, see ``compare_groups``."""
    values, errors = (np.array([part.read(one, keys) for part in groups]) for one in (name, f"{name}_se"))
    return compare_groups(values, errors, np.array([part.count_documents(name, keys) for part in groups]))


def _describe_groups(groups: Mapping[str, Part]) -> Iterator[str]:
    counted = all(part.exact for part in groups.values())
    listed = [
        f"{clean(name)} ({part.documents:,})" if counted else clean(name) for name, part in groups.items()
    ]
    if len(listed) == 1:
        yield f"There is one group only, {listed[0]}, and nothing to compare it with."
        return
    yield f"{len(listed)} groups{', with their documents' * counted}: {join_names(listed, 20)}."
    few = [clean(name) for name, part in groups.items() if part.documents < FEWEST_DOCUMENTS]
    if few:
        yield f"Groups of fewer than {FEWEST_DOCUMENTS} documents do not count in Q: {join_names(few)}."
