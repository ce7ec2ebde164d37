import math

import pytest
from hypothesis import given
from hypothesis import strategies as some

from attnprobe.table.rounding import count_decimals, find_errors, format_rounded
from attnprobe.table.table import Column, Table


@given(some.floats(1e-6, 9e3), some.floats(-1e4, 1e4))
def test_the_error_is_printed_with_two_digits_and_the_value_to_the_same_place(error, value):
    shown = format_rounded(error, error)
    assert float(shown) == pytest.approx(error, rel=0.05, abs=0.5 if error >= 10 else 0)
    assert math.isclose(
        float(format_rounded(value, error)), value, abs_tol=0.06 * error + (0.5 if error > 9 else 0)
    )
    if error < 9.9:
        assert len(shown.replace(".", "").lstrip("0")) == 2


@pytest.mark.parametrize("error", [None, 0.0, math.nan, math.inf, "x"])
def test_nothing_is_known_without_an_error(error):
    assert count_decimals(error) is None
    assert format_rounded(0.123456, error) == "0.123"


def test_digits_that_are_asked_for_are_given_whatever_the_error():
    assert format_rounded(0.123456, 0.01, 5) == "0.12346"
    assert format_rounded(None, 0.1) == ""
    assert format_rounded(0.0, None) == "0"
    assert format_rounded(-0.0161, 0.0123) == "-0.016"


def test_errors_are_those_of_the_measure_beside():
    columns = [Column("a"), Column("a_se", role="error"), Column("b")]
    table = Table("t", columns, {"a": [1.0, 2.0], "a_se": [0.1, math.nan], "b": [1.0, 2.0]})
    assert find_errors(table, columns[0]) == [0.1, None]
    assert find_errors(table, columns[1]) == [0.1, None]
    assert find_errors(table, columns[2]) == [None, None]
