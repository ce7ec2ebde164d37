"""One cell at a time: numbers are written so that they read back exactly."""

import math
from collections.abc import Iterable
from typing import Any

from attnprobe.errors import AttnprobeError
from attnprobe.table.cleaning import clean
from attnprobe.table.table import Cell, Column, Role

_LARGEST_WHOLE = 2**53
#: Roles of columns whose numbers are whole.
_WHOLE = {"key", "count"}
_MOST_DIGITS = 17  # what a float64 holds; more would be invented


def to_plain(cell: object, role: Role = "measure") -> Cell:
    """Turn a cell into clean text, a Python number or None; an undefined number is None.

    Keys and counts that passed through a float array, as a column with a gap does, become integers
    again, so that layer 3 is never written as 3.0. Beyond 2**53 a float no longer tells which integer
    it was, and stays one.

    >>> import numpy as np
    >>> to_plain(np.float64("nan")), to_plain(3.0, "count"), to_plain(3.0)
    (None, 3, 3.0)
    """
    item = getattr(cell, "item", None)  # a number of numpy
    value = cell if item is None else item()
    if isinstance(value, float):
        if math.isnan(value):
            return None
        whole = value.is_integer() and abs(value) <= _LARGEST_WHOLE
        return int(value) if role in _WHOLE and whole else value
    if value is None or isinstance(value, int):
        return value
    return clean(str(value))


def to_plain_column(cells: Iterable[Cell], column: Column) -> list[Cell]:
    """Turn a whole column into plain cells, the sooner if all are of one type."""
    given: list[Any] = list(cells)
    types = set(map(type, given))
    if types <= {int}:
        return given
    if types <= {str}:
        cleaned = {word: clean(word) for word in dict.fromkeys(given)}
        return [cleaned[word] for word in given]
    if types <= {float} and column.role not in _WHOLE:
        return [None if math.isnan(cell) else cell for cell in given]
    return [to_plain(cell, column.role) for cell in given]


def check_precision(precision: int | None) -> None:
    """Refuse digits that a float does not have."""
    if precision is not None and not 1 <= precision <= _MOST_DIGITS:
        raise AttnprobeError(f"--precision is a number of significant digits from 1 to {_MOST_DIGITS}")


def round_cell(value: Cell, precision: int | None) -> Cell:
    """Round a float to ``precision`` significant digits; integers, text and None stay as they are."""
    if precision is None or not isinstance(value, float):
        return value
    return float(f"{value:.{precision}g}")


def format_cell(value: Cell, precision: int | None = None) -> str:
    """Write a plain cell for a text format, the same in every locale; None is an empty cell.

    Without ``precision`` a float takes the fewest digits that read back as exactly the same float.

    >>> format_cell(0.1 + 0.2), format_cell(0.1 + 0.2, 3), format_cell(12), format_cell(None)
    ('0.30000000000000004', '0.3', '12', '')
    """
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return repr(value) if precision is None else f"{value:.{precision}g}"
    return str(value)
