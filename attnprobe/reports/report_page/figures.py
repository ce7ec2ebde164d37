"""Numbers as the page writes them, in Python and in its script alike: so many significant digits."""

from decimal import ROUND_HALF_UP, Decimal
from math import isfinite

#: What stands for nothing measured.
UNDEFINED = "\u2013"
#: Significant digits of a measure and of its standard error.
DIGITS, ERROR_DIGITS = 4, 2
#: No sentence says more of a smaller p.
_LEAST_P = 0.001
_RAISED = str.maketrans("-0123456789", "\u207b\u2070\u00b9\u00b2\u00b3\u2074\u2075\u2076\u2077\u2078\u2079")
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


def in_words(value: float) -> str:
    r"""Write a number as a sentence has it, tiny and huge ones with a power of ten.

    >>> print(ascii(in_words(-0.00001702)), in_words(0.25))
    '-1.702 \xd7 10\u207b\u2075' 0.25
    """
    number, _, power = shown(value).partition("e")
    return f"{number} \u00d7 10{power.translate(_RAISED)}" if power else number


def of_p(value: float) -> str:
    """Write a p value; below 0.001, no more than that.

    >>> of_p(0.0304), of_p(1.702e-8)
    ('0.0304', '< 0.001')
    """
    return f"< {_LEAST_P}" if value < _LEAST_P else shown(value, 3)


def with_error(value: object, error: object) -> str:
    """Write a number with its standard error, where it has one.

    >>> with_error(0.12345, 0.00234), with_error(2, None)
    ('0.1235 ± 0.0023', '2')
    """
    has = isinstance(error, int | float) and isfinite(error)
    return f"{shown(value)} \u00b1 {shown(error, ERROR_DIGITS)}" if has else shown(value)


def _stripped(text: str) -> str:
    return text.rstrip("0").rstrip(".") if "." in text else text
