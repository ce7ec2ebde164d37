"""Whether two tables hold the same numbers: one on record, and one that was made again."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from attnprobe.table.cells import clean, round_cell, to_plain_column
from attnprobe.table.table import Cell, Column, Table

#: Beyond this share of the largest value of its column, a number counts as another one.
TOLERANCE = 1e-6
#: How many columns a sentence lists.
_LISTED = 3


@dataclass(frozen=True)
class Sameness:
    """What differs between two tables.

    Attributes:
        columns: For each column with numbers that differ, the largest difference, as a share of the largest
            absolute value of the column on record; infinite where a number is defined in one table only.
        others: What else differs, a sentence each.
        measures: How many columns of numbers were compared.
    """

    columns: dict[str, float] = field(default_factory=dict)
    others: Sequence[str] = ()
    measures: int = 0

    @property
    def exact(self) -> bool:
        return not self.columns and not self.others

    @property
    def close(self) -> bool:
        """Whether no number differs by more than rounding may."""
        return not self.others and all(share <= TOLERANCE for share in self.columns.values())

    def sentences(self) -> list[str]:
        if self.exact:
            return ["The numbers are those on record, digit for digit."]
        said = list(self.others)
        if self.columns:
            worst = sorted(self.columns.items(), key=lambda item: -item[1])
            listed = ", ".join(f"{clean(name)} ({_share(share)})" for name, share in worst[:_LISTED])
            more = f" and {len(worst) - _LISTED} more" if len(worst) > _LISTED else ""
            how = "but for rounding" if self.close else "beyond rounding"
            said.append(
                f"The numbers differ from those on record in {len(worst)} of {self.measures} columns, {how}: "
                f"{listed}{more}; shares of the largest value of each column."
            )
        return said


def compare_tables(
    record: Table, again: Table, precision: int | None = None, *, whole: bool = True
) -> Sameness:
    """Compare a table that was made again with the one on record, cell by cell.

    The numbers on record were written to ``precision`` significant digits. With ``whole``, the new table has
    all columns; a terminal may show some only.
    """
    others: list[str] = []
    if len(record) != len(again):
        return Sameness(others=[f"There are {_count_rows(len(again))}, and {len(record):,} on record."])
    added = [name for name in again.data if name not in record.data]
    gone = [name for name in record.data if name not in again.data] if whole else []
    for names, what in ((added, "are not on record"), (gone, "are on record only")):
        if names:
            others.append(f"Columns that {what}: {', '.join(map(clean, names[:_LISTED]))}.")
    shares: dict[str, float] = {}
    measures = 0
    for column in again.columns:
        if column.name not in record.data:
            continue
        ours = [round_cell(cell, precision) for cell in to_plain_column(again.data[column.name], column)]
        theirs = to_plain_column(record.data[column.name], Column(column.name, role=column.role))
        number = any(isinstance(cell, int | float) for cell in [*ours, *theirs])
        measures += number
        if number and column.role != "key":
            if (share := _find_largest(theirs, ours)) > 0:
                shares[column.name] = share
        elif wrong := sum(one != other for one, other in zip(ours, theirs, strict=True)):
            others.append(f"The column {clean(column.name)} differs in {_count_rows(wrong)}.")
    return Sameness(shares, others, measures)


def _find_largest(record: Sequence[Cell], again: Sequence[Cell]) -> float:
    """Find the largest difference, as a share of the largest absolute value on record."""
    known = [abs(cell) for cell in record if isinstance(cell, int | float) and math.isfinite(cell)]
    scale = max(known, default=0.0)
    largest = 0.0
    for one, other in zip(record, again, strict=True):
        if one == other:
            continue
        if not isinstance(one, int | float) or not isinstance(other, int | float):
            return math.inf
        apart = abs(one - other)
        largest = max(largest, apart / scale if scale and math.isfinite(apart) else math.inf)
    return largest


def _count_rows(number: int) -> str:
    return "1 row" if number == 1 else f"{number:,} rows"


def _share(share: float) -> str:
    return "defined in one only" if math.isinf(share) else f"{share:.1e}"
