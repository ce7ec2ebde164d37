"""How numbers are rounded and written for readers; ``cells.format_cell`` writes them for programs."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeGuard

from attnprobe.table.cells import Cell, clean, format_cell, to_plain

#: Significant digits of a number that has no error, and of an error.
DIGITS, ERROR_DIGITS = 3, 2
#: Numbers with more decimals, or this large, are written with a power of ten.
MOST_DECIMALS, LARGE = 6, 1e6


def is_number(cell: object) -> TypeGuard[int | float]:
    """Tell a finite number from other cells."""
    return isinstance(cell, int | float) and math.isfinite(cell)


def count_decimals(error: float) -> int:
    """Count the decimals that show two digits of an error after rounding; 0.0996 is 0.10 and has two."""
    return ERROR_DIGITS - 1 - int(f"{error:.{ERROR_DIGITS - 1}e}".partition("e")[2])


def format_number(value: object, digits: int = DIGITS) -> str:
    """Write a number to ``digits`` significant digits, or all before the point; a dash if undefined.

    >>> [format_number(value) for value in (0.078125, 1234.5, 12, -0.0000123456, 0.0)]
    ['0.0781', '1234', '12', '-1.23e-05', '0']
    """
    value = to_plain(value)
    if not isinstance(value, float):
        return "\N{EN DASH}" if value is None else format_cell(value)
    whole = 10.0 ** (digits - 1) <= abs(value) < LARGE
    return f"{value:.0f}" if whole else f"{value:z.{digits}g}"


def format_with_error(value: object, error: object) -> str:
    """Write a number with its standard error, where it has one, to two digits of that.

    >>> format_with_error(0.06809, 0.0108), format_with_error(2, None), format_with_error(0.25, 0.0)
    ('0.068 ± 0.011', '2', '0.25 ± 0')
    """
    if not (is_number(value) and is_number(error)):
        return format_number(value)
    if not error:
        return f"{format_number(value)} ± 0"
    numbers = choose_format([value, error], [error])
    return f"{numbers.write_whole(value)} ± {numbers.write_whole(error)}"


def format_p(p: float) -> str:
    """Write a p value with three decimals."""
    return "< 0.001" if p < 0.001 else f"{p:.3f}"


def name_head(*place: Any) -> str:
    """Name a head by its kind of attention, which may be empty or left out, its layer and its number.

    >>> name_head(3, 1), name_head("", 3, 1), name_head("cross", 0, 2)
    ('L3 H1', 'L3 H1', 'cross L0 H2')
    """
    *kind, layer, head = (clean(format_cell(part)) for part in place)
    return " ".join([*filter(None, kind), f"L{layer} H{head}"])


@dataclass(frozen=True)
class NumberFormat:
    """How the numbers of a column are written, so that their decimals line up."""

    decimals: int = 0
    exponent: int = 0  # of the power of ten that numbers are divided by; 0 unless they are tiny or huge

    def write(self, value: float) -> str:
        """Write a number without the power of ten."""
        return f"{value / 10.0**self.exponent:z.{self.decimals}f}"

    def write_whole(self, value: float) -> str:
        power = f"e{self.exponent}" if self.exponent and math.isfinite(value) else ""
        return f"{self.write(value)}{power}"


def choose_format(
    values: Iterable[Any],
    errors: Iterable[Any] = (),
    *,
    digits: int = DIGITS,
    most_decimals: int = MOST_DECIMALS,
    large: float = LARGE,
) -> NumberFormat:
    """Choose the decimals of a column: two digits of its median error, or ``digits`` of its largest number.

    >>> choose_format([0.31, 2.0], [0.012, 0.02]), choose_format([3.2e-9])
    (NumberFormat(decimals=3, exponent=0), NumberFormat(decimals=2, exponent=-9))
    """
    known = [abs(value) for value in values if is_number(value)]
    spread = [error for error in errors if is_number(error) and error > 0]
    peak = max(known, default=0.0)
    if peak == 0 or (not spread and peak < large and all(value == round(value) for value in known)):
        return NumberFormat()
    magnitude = max(math.floor(math.log10(peak)), -307)  # ten to a lower power has lost digits
    decimals = count_decimals(sorted(spread)[(len(spread) - 1) // 2]) if spread else digits - 1 - magnitude
    if decimals <= most_decimals and peak < large:
        return NumberFormat(max(0, decimals))
    return NumberFormat(max(0, decimals + magnitude), magnitude)


def write_column(
    values: Sequence[Cell],
    errors: Sequence[Cell] = (),
    *,
    precision: int | None = None,
    probability: bool = False,
    undefined: str = "",
    plus_minus: str = "",
) -> list[str]:
    """Write the plain cells of a column, all numbers with the same decimals.

    ``precision`` is a number of significant digits, instead of common decimals; a ``probability`` has three.
    With ``plus_minus`` between them, errors are written behind their numbers; without it, errors only decide
    about decimals.
    """
    chosen, whole = choose_format(values, errors), not any(isinstance(value, float) for value in values)

    def write(value: Cell) -> str:
        if value is None:
            return undefined
        if isinstance(value, str | bool) or (isinstance(value, int) and whole):
            return format_cell(value)
        if precision is not None:
            return format_cell(value, precision)
        return format_p(value) if probability else chosen.write_whole(value)

    if not plus_minus or not errors:
        return list(map(write, values))
    return [
        write(value) + (f"{plus_minus}{write(error)}" if is_number(value) and is_number(error) else "")
        for value, error in zip(values, errors, strict=True)
    ]
