"""Groups of documents side by side: a row for each and one for all, and a test that they are alike."""

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnprobe.sums.base import Measurement
from attnprobe.sums.clustered import Groups
from attnprobe.sums.inference import FEWEST_DOCUMENTS, adjust, compare_groups
from attnprobe.table.builder import p_columns
from attnprobe.table.cells import clean
from attnprobe.table.head_table import HeadTable
from attnprobe.table.kinds import ALL_GROUPS, GROUP
from attnprobe.table.naming import join_names
from attnprobe.table.table import Column

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
        places: The row of each key.
        documents: How many documents it is of.
        by_row: How many each row is of, where that is known.
        folded: Whether there may be more of them, as many documents share a sum (see ``Groups``).
    """

    table: HeadTable
    places: Mapping[Key, int]
    documents: int
    by_row: Mapping[Key, int] = field(default_factory=dict)
    folded: bool = False

    @classmethod
    def of(cls, table: HeadTable, measurement: Measurement, by_row: Sequence[int] = ()) -> "Part":
        """Look rows up by their keys; ``by_row`` is as long as the table, or empty."""
        names = [one.name for one in table.columns if one.role == "key" and one.name not in _STACKING]
        keys = [*zip(*(table.data[name] for name in names), strict=True)]
        sums = (getattr(one, "groups", None) for one in measurement.sums.values())
        folded = any(isinstance(one, Groups) and one.shared for one in sums)
        places = {key: row for row, key in enumerate(keys)}
        return cls(table, places, measurement.documents, dict(zip(keys, by_row, strict=False)), folded)

    def read(self, name: str, keys: Sequence[Key]) -> Floats:
        """Give a column for some rows; NaN where there is no such row, or no number."""
        cells = self.table.data[name]
        rows = (self.places.get(key) for key in keys)
        read = [None if row is None else cells[row] for row in rows]
        return np.array([np.nan if cell is None else cell for cell in read], np.float64)

    def count_documents(self, name: str, keys: Sequence[Key]) -> Floats:
        """Count the documents that the errors of a measure are of: no more than what the row counts."""
        if self.by_row:
            return np.array([self.by_row.get(key, 0) for key in keys], np.float64)
        counted = next((one for one in (f"{name}_n", "n") if one in self.table.data), None)
        rows = np.full(len(keys), np.inf) if counted is None else self.read(counted, keys)
        return np.minimum(np.nan_to_num(rows, nan=np.inf), self.documents)


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
    tables = [whole.table, *(part.table for part in groups.values())]
    labels = [name for name, one in zip([ALL_GROUPS, *groups], tables, strict=True) for _ in range(len(one))]
    for column in whole.table.columns:
        if GROUP not in data and column.name not in _STACKING:
            columns.append(Column(GROUP, role="key"))
            data[GROUP] = list(labels)
        columns.append(column)
        data[column.name] = [cell for table in tables for cell in table.data[column.name]]
        name = column.name.removesuffix("_se")
        if column.role != "error" or not (tested is None or name in tested):
            continue
        title = f"Cochran's Q of {whole.table.column(name).title or name}"
        tests = [Column(f"{name}_q", title=title), *p_columns(f"{name}_q_p", f" of {title}")]
        empty = [np.nan] * (len(labels) - len(whole.table))
        for test, cells in zip(tests, _test_groups(name, whole, groups), strict=True):
            columns.append(test)
            data[test.name] = [*cells.tolist(), *empty]
    if tested is not None:
        rows = [whole.places[key] for part in (whole, *groups.values()) for key in part.places]
        order = sorted(range(len(rows)), key=rows.__getitem__)
        data = {name: [cells[row] for row in order] for name, cells in data.items()}
    # What is merged is called so already.
    title = f"{whole.table.title.removesuffix(_BY_GROUP)}{_BY_GROUP}"
    notes = [*_describe_groups(groups), *whole.table.notes]
    return HeadTable(title, columns, data, notes, whole.table.provenance)


def _test_groups(name: str, whole: Part, groups: Mapping[str, Part]) -> tuple[Floats, Floats, Floats]:
    """Test whether groups are alike in a measure, row by row of the table of all: Q, p and p adjusted."""
    keys, parts = list(whole.places), groups.values()
    values, errors = (np.array([part.read(one, keys) for part in parts]) for one in (name, f"{name}_se"))
    documents = np.array([part.count_documents(name, keys) for part in parts])
    q, p = compare_groups(values, errors, documents)
    return q, p, adjust(p)


def _describe_groups(groups: Mapping[str, Part]) -> Iterator[str]:
    listed = [
        f"{clean(name)} ({part.documents:,}{' or more' * part.folded})" for name, part in groups.items()
    ]
    if len(listed) == 1:
        yield f"There is one group only, {listed[0]}, and nothing to compare it with."
        return
    yield f"{len(listed)} groups, with their documents: {join_names(listed, 20)}."
    few = [clean(name) for name, part in groups.items() if part.documents < FEWEST_DOCUMENTS]
    if few:
        yield f"Groups of fewer than {FEWEST_DOCUMENTS} documents do not count in Q: {join_names(few)}."
