"""Numbers as the page writes them, in Python and in its script alike: so many significant digits."""

from decimal import ROUND_HALF_UP, Decimal
from math import isfinite

#: What stands for nothing measured.
UNDEFINED = "\u2013"
#: Significant digits of a measure and of its standard error.
DIGITS, ERROR_DIGITS = 4, 2
#: Below this power of ten, and this far above the digits, numbers have an exponent.
_LEAST, _BEYOND = -4, 3


def shown(value: object, digits: int = DIGITS) -> str:
    """Write a number with so many significant digits; nothing measured is a dash.

    ``shown`` in report.js does the same: halves are rounded away from zero, as JavaScript rounds them.

    >>> [shown(value) for value in (0.078125, 12.3456, 3, -0.00001234567, 123456.0)]
    ['0.07813', '12.35', '3', '-1.235e-5', '123456']
    """
    if not isinstance(value, int | float) or not isfinite(value):
        return UNDEFINED
    if value == 0:
        return "0"
    exact = Decimal(value)
    power = exact.adjusted()
    rounded = exact.quantize(Decimal(1).scaleb(power - digits + 1), ROUND_HALF_UP)
    power = rounded.adjusted()  # 0.99999 becomes 1
    if power < _LEAST or power >= digits + _BEYOND:
        return f"{_stripped(f'{rounded.scaleb(-power):f}')}e{power}"
    places = max(0, digits - 1 - power)
    return _stripped(f"{exact.quantize(Decimal(1).scaleb(-places), ROUND_HALF_UP):f}")


def with_error(value: object, error: object) -> str:
    """Write a number with its standard error, where it has one.

    >>> with_error(0.12345, 0.00234), with_error(2, None)
    ('0.1235 ± 0.0023', '2')
    """
    has = isinstance(error, int | float) and isfinite(error)
    return f"{shown(value)} \u00b1 {shown(error, ERROR_DIGITS)}" if has else shown(value)


def _stripped(text: str) -> str:
    return text.rstrip("0").rstrip(".") if "." in text else text
