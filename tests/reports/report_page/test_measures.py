"""Numbers of a page, against the rule of significant digits."""

import math
from decimal import Decimal

from hypothesis import given
from hypothesis import strategies as st

from attnprobe.reports.report_page.measures import UNDEFINED, format_number, format_with_error


@given(st.floats(allow_nan=False, allow_infinity=False, allow_subnormal=False))
def test_a_number_is_within_half_of_its_last_digit(value):
    back = Decimal(format_number(value))
    half = Decimal(0) if value == 0 else Decimal(1).scaleb(Decimal(value).adjusted() - 3) / 2
    assert abs(back - Decimal(value)) <= half


def test_halves_go_away_from_zero_as_in_a_browser():
    assert [format_number(value) for value in (0.078125, -0.078125, 2.5, 0.99996)] == [
        "0.07813",
        "-0.07813",
        "2.5",
        "1",
    ]


def test_what_is_not_there_is_a_dash():
    assert {format_number(value) for value in (None, math.nan, math.inf, "x")} == {UNDEFINED}
    assert format_with_error(math.nan, None) == UNDEFINED
