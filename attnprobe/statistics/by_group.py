"""Groups of documents side by side: a row for each group and one for all, and tests that groups are alike."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnprobe.sums.base import Measurement
from attnprobe.sums.groups import Groups
from attnprobe.sums.heterogeneity import Homogeneity, compare_groups
from attnprobe.sums.resampling import SIGNIFICANT, adjust
from attnprobe.table.builder import FEW_DOCUMENTS
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
#: So many measures are spoken of below a table.
_TOLD = 4


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
    def of(cls, table: HeadTable, documents: int) -> "Part":
        names = [one.name for one in table.columns if one.role == "key" and one.name not in _STACKING]
        keys = zip(*(table.data[name] for name in names), strict=True)
        return cls(table, {key: row for row, key in enumerate(keys)}, documents)

    def read(self, name: str, keys: Sequence[Key]) -> Floats:
        """Give a column for some rows; NaN where there is no such row, or no number."""
        cells = self.table.data[name]
        found = (None if (row := self.places.get(key)) is None else cells[row] for key in keys)
        return np.array([np.nan if cell is None else cell for cell in found], np.float64)


def tabulate_groups(build: BuildPart, measurement: Measurement) -> HeadTable:
    """Tabulate all groups of documents together, and then each, with a column ``group`` behind ``dataset``.

    Where a measure has an error, the rows of all groups say beside it whether groups are alike: ``NAME_q``,
    Cochran's Q over groups; ``NAME_q_p``, how likely chance alone would make it so large, see
    ``compare_groups``; ``NAME_q_p_adjusted``, the same, corrected for the number of rows (Holm). What is
    chosen by the numbers themselves, such as an offset, is chosen for each group by itself.
    """
    whole = Part.of(build(replace(measurement, strata={})), measurement.documents)
    groups = {
        name: replace(Part.of(build(one), one.documents), folded=is_folded(one))
        for name in sort_groups([*measurement.strata])
        for one in [measurement.strata[name]]
    }
    return stack_groups(whole, groups)


def is_folded(measurement: Measurement) -> bool:
    """Tell whether documents share sums, so that there may be more than are told apart."""
    groups = (getattr(one, "groups", None) for one in measurement.sums.values())
    return any(isinstance(one, Groups) and one.shared for one in groups)


def stack_groups(
    whole: Part, groups: Mapping[str, Part], told: Sequence[str] | None = None, *, row_by_row: bool = False
) -> HeadTable:
    """Put the rows of all groups, with their tests, above those of each group.

    Args:
        whole: The table of all groups.
        groups: That of each, by its name.
        told: Sentences on what differs; by default those of the measures that a terminal shows.
        row_by_row: Whether the rows of one key stand together.
    """
    columns, data = [], dict[str, list[Any]]()
    tables = [whole.table, *(part.table for part in groups.values())]
    names = [ALL_GROUPS, *groups]
    labels = [name for name, table in zip(names, tables, strict=True) for _ in range(len(table))]
    described: list[tuple[bool, Tested]] = []
    for column in whole.table.columns:
        if GROUP not in data and column.name not in _STACKING:
            columns.append(Column(GROUP, role="key"))
            data[GROUP] = list(labels)
        columns.append(column)
        data[column.name] = [cell for table in tables for cell in table.data[column.name]]
        if column.role != "error":
            continue
        measure = whole.table.column(column.name.removesuffix("_se"))
        tested = Tested.of(measure, whole, groups)
        below = [np.nan] * (len(labels) - len(whole.table))
        for one, cells in tested.columns():
            columns.append(one)
            data[one.name] = [*cells.tolist(), *below]
        described.append((measure.headline, tested))
    if told is None:
        headlines = [tested for headline, tested in described if headline] or [one for _, one in described]
        told = [sentence for one in headlines[:_TOLD] for sentence in one.describe(whole, groups)]
    if row_by_row:
        rows = [row for part in (whole, *groups.values()) for row in _find_rows(part, whole)]
        order = sorted(range(len(rows)), key=rows.__getitem__)
        data = {name: [cells[row] for row in order] for name, cells in data.items()}
    notes = [*_describe_groups(groups), *told, *_note_few(groups), *whole.table.notes]
    # What is merged is called so already.
    title = f"{whole.table.title.removesuffix(_BY_GROUP)}{_BY_GROUP}"
    return HeadTable(title, columns, data, notes, whole.table.provenance)


def _find_rows(part: Part, whole: Part) -> list[int]:
    """Find the row of the table of all for each row of a group, by its key."""
    return [whole.places[key] for key in part.places]


@dataclass(frozen=True)
class Tested:
    """Whether groups are alike in a measure, row by row of the table of all."""

    measure: Column
    keys: Sequence[Key]
    values: Floats  # (group, row)
    weighed: NDArray[np.bool_]  # (group, row) which of them have an error
    q: Floats
    p: Floats
    adjusted: Floats

    @classmethod
    def of(cls, measure: Column, whole: Part, groups: Mapping[str, Part]) -> "Tested":
        keys, name = list(whole.places), measure.name
        found = compare_parts(name, groups, keys)
        values, weighed = _read_parts(name, groups, keys)[0], found.weighed
        return cls(measure, keys, values, weighed, found.q, found.p, adjust(found.p))

    def columns(self) -> Iterator[tuple[Column, Floats]]:
        name = self.measure.name
        said = self.measure.title or name
        yield Column(f"{name}_q", title=f"Cochran's Q of {said}"), self.q
        yield Column(f"{name}_q_p", title=f"p of Cochran's Q of {said}"), self.p
        yield Column(f"{name}_q_p_adjusted", title=f"adjusted p of Cochran's Q of {said}"), self.adjusted

    def describe(self, whole: Part, groups: Mapping[str, Part]) -> Iterator[str]:
        """Say in how many rows the groups differ, and where most."""
        tried = np.isfinite(self.p)
        if not tried.any():
            return
        name, number = self.measure.name, int(tried.sum())
        sure = int((self.adjusted < SIGNIFICANT).sum())
        most = int(np.argmin(np.where(tried, self.p, np.inf) - 1e-12 * np.nan_to_num(self.q)))
        names = [one.name for one in whole.table.columns if one.role == "key" and one.name not in _STACKING]
        where = name_row(dict(zip(names, self.keys[most], strict=True)))
        values = self.values[:, most]
        low, high = (list(groups)[int(at)] for at in (np.nanargmin(values), np.nanargmax(values)))
        spread = f"{np.nanmin(values):.3g} in {clean(low)} to {np.nanmax(values):.3g} in {clean(high)}"
        test = f"Q = {self.q[most]:.3g}, p = {self.p[most]:.2g}"
        if number == 1:
            yield f"{name} is {spread} ({where}; {test})."
        elif sure:
            yield (
                f"{name} differs significantly between groups in {sure} of {number} rows (Holm), most in "
                f"{where}: {spread} ({test})."
            )
        else:
            yield (
                f"{name} does not differ significantly between groups in any of {number} rows (Holm); most "
                f"in {where}: {spread} ({test})."
            )
        without = {
            clean(group): rows
            for group, part, rows in zip(groups, groups.values(), (tried & ~self.weighed).sum(1), strict=True)
            if rows and part.documents > 1
        }
        if without:
            listed = join_names([f"{group} in {rows}" for group, rows in without.items()])
            rows = "row" if [*without.values()] == [1] else "rows"
            yield f"Where {name} has no error, or one of 0, a group does not count in Q: {listed} {rows}."


def compare_parts(name: str, groups: Mapping[str, Part], keys: Sequence[Key]) -> Homogeneity:
    """Test whether groups are alike in a measure, in some rows."""
    documents = np.array([_count_documents(part, name, keys) for part in groups.values()])
    return compare_groups(*_read_parts(name, groups, keys), documents)


def _read_parts(name: str, groups: Mapping[str, Part], keys: Sequence[Key]) -> tuple[Floats, Floats]:
    """Give a measure and its error in each group, (group, row)."""
    values, errors = (
        np.array([part.read(one, keys) for part in groups.values()]) for one in (name, f"{name}_se")
    )
    return values, errors


def _count_documents(part: Part, name: str, keys: Sequence[Key]) -> Floats:
    """Count the documents that the errors of a measure are of, at most: no more than what the row counts."""
    if part.by_row:
        return np.array([part.by_row.get(key, 0) for key in keys], np.float64)
    counted = next((one for one in (f"{name}_n", "n") if one in part.table.data), None)
    rows = np.full(len(keys), np.inf) if counted is None else part.read(counted, keys)
    return np.minimum(np.nan_to_num(rows, nan=np.inf), part.documents)


def name_row(keys: Mapping[str, Any]) -> str:
    """Name a row in a sentence.

    >>> name_row({"attention": "cross", "layer": 2, "head": 1})
    'cross layer 2 head 1'
    """
    said = (
        str(cell)
        if name not in {"layer", "head", "layer_a", "head_a", "layer_b", "head_b"}
        else f"{name.replace('_', ' ')} {cell}"
        for name, cell in keys.items()
    )
    return clean(" ".join(said))


def _describe_groups(groups: Mapping[str, Part]) -> Iterator[str]:
    """Name the groups with their documents."""
    listed = [
        f"{clean(name)} ({part.documents:,}{' or more' * part.folded})" for name, part in groups.items()
    ]
    if len(listed) == 1:
        yield f"There is one group only, {listed[0]}, and nothing to compare it with."
        return
    yield f"{len(listed)} groups, with their documents: {join_names(listed, 20)}."


def _note_few(groups: Mapping[str, Part]) -> Iterator[str]:
    few = [clean(name) for name, part in groups.items() if 1 < part.documents < FEW_DOCUMENTS]
    alone = [clean(name) for name, part in groups.items() if part.documents < 2]
    if alone and len(groups) > 1:
        has = (
            "has one document, no error, and does"
            if len(alone) == 1
            else "have one document, no error, and do"
        )
        yield f"{join_names(alone)} {has} not count in Q."
    if few and len(groups) > 1:
        has = "has" if len(few) == 1 else "have"
        yield f"{join_names(few)} {has} fewer than {FEW_DOCUMENTS} documents, so that p of Q is rough."
