"""What is asked of a picture, beside its table."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from attnprobe.errors import AttnprobeError
from attnprobe.reports.pictures.theme import Theme
from attnprobe.table.cleaning import clean
from attnprobe.table.head_table import HeadTable
from attnprobe.table.table import Column

#: More measures than this make pictures too small, unless somebody names them.
MOST = 6
#: How many columns an error names.
_LISTED = 20


@dataclass(frozen=True)
class Asked:
    """How a table is to be drawn.

    Attributes:
        theme: Colours and sizes.
        width: About how many pixels the picture is to be wide.
        measures: The names of the columns wanted; empty for those that the table puts first.
        clusters: Into how many parts a tree of heads is cut; None for where the rule of ``clusters`` says.
    """

    theme: Theme
    width: int
    measures: Sequence[str] = ()
    clusters: int | None = None

    def columns(self, table: HeadTable, most: int = MOST) -> list[Column]:
        """Choose the measures to draw: those asked for, or else the table's headlines, or else its first.

        Raises:
            AttnprobeError: When one is no column of numbers in this table, or none is asked for and none has
                one quantity in all rows.
        """
        known = {column.name: column for column in table.columns if is_numeric(table, column)}
        for name in self.measures:
            if name not in known:
                listed = ", ".join(clean(one) for one in list(known)[:_LISTED])
                raise AttnprobeError(
                    f"--measure {clean(name)}: the table has no such measure; it has {listed or 'none'}"
                )
        if self.measures:
            return [known[name] for name in dict.fromkeys(self.measures)]
        measures = [column for column in known.values() if is_measured(table, column)]
        if not measures:
            others = ", ".join(clean(one) for one in list(known)[:_LISTED])
            raise AttnprobeError(
                "no column of the table holds the same quantity in every row; name one with --measure "
                f"({others})"
            )
        # A p value is a mark in the picture of what it is about.
        said = [column for column in measures if not is_probability(column)] or measures
        defined = [column for column in said if any(map(_is_defined, table.data[column.name]))] or said
        # Without a description nobody says which come first.
        return [column for column in defined if column.headline][:most] or defined[:most]


def _is_defined(cell: object) -> bool:
    return isinstance(cell, int | float | np.number) and bool(np.isfinite(cell))


def is_numeric(table: HeadTable, column: Column) -> bool:
    """Tell whether a column holds numbers, at least one, that say something of a row."""
    if column.role not in {"measure", "half", "count"}:
        return False
    cells = table.data[column.name]
    return not any(isinstance(cell, str) for cell in cells)


def is_measured(table: HeadTable, column: Column) -> bool:
    """Tell whether a column holds measurements of one quantity.

    A threshold is none, and the value beside a column that names what was measured is of many.
    """
    if column.role != "measure" or not is_numeric(table, column) or column.name == "threshold":
        return False
    return column.name != "value" or "measure" not in table.data


def has_measures(table: HeadTable) -> bool:
    """Tell whether a table has rows, and a measure of them."""
    return len(table) > 0 and any(
        column.role == "measure" and is_numeric(table, column) for column in table.columns
    )


def is_probability(column: Column) -> bool:
    """Tell p values from what they are about."""
    return column.unit == "probability" or column.name == "p" or column.name.endswith("p_adjusted")
