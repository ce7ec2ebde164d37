"""Numbers as papers print them: to the digits that their errors leave, two of the error itself."""

import math
from collections.abc import Sequence

from attnprobe.table.cells import Cell, format_cell, to_plain_column
from attnprobe.table.table import Column, Table

#: Significant digits of an error, and of a measure that has none.
ERROR_DIGITS, DIGITS = 2, 3


def count_decimals(error: Cell) -> int | None:
    """Give how many decimals show two digits of an error; None where there is none to speak of.

    >>> count_decimals(0.0123), count_decimals(0.0996), count_decimals(34.2), count_decimals(0.0)
    (3, 2, 0, None)
    """
    if not isinstance(error, int | float) or not math.isfinite(error) or error <= 0:
        return None
    # The error as it will be printed: 0.0996 is 0.10, which has one decimal less than 0.0123.
    printed = float(f"{error:.{ERROR_DIGITS - 1}e}")
    return max(0, ERROR_DIGITS - 1 - math.floor(math.log10(printed)))


def format_rounded(value: Cell, error: Cell = None, precision: int | None = None) -> str:
    """Write a number to the digits that its error leaves, or to ``precision`` significant ones (3).

    Whole numbers and words stay as they are; an undefined number is empty.

    >>> format_rounded(0.87654, 0.0123), format_rounded(2.0), format_rounded(1234.56), format_rounded(12)
    ('0.877', '2.00', '1235', '12')
    """
    if not isinstance(value, float) or not math.isfinite(value) or precision is not None:
        return format_cell(value, precision)
    decimals = count_decimals(error)
    if decimals is None and value and abs(value) < 10 ** (DIGITS - 1):
        return f"{value:#.{DIGITS}g}"
    return f"{value:.{decimals or 0}f}" if value else "0"


def find_errors(table: Table, column: Column) -> Sequence[Cell]:
    """Give the errors of a measure, or of its halves; an error's are its own."""
    name = column.name if column.role == "error" else f"{column.name}_se"
    if name not in table.data:
        return [None] * len(table)
    return to_plain_column(table.data[name], table.column(name))
