"""How numbers are written: to what their errors leave, and a column with the same decimals throughout."""

import math

import pytest
from hypothesis import given, strategies

from attnprobe.table.numbers import choose_format, format_with_error, write_column


@given(strategies.floats(1e-4, 9e3), strategies.floats(-1e4, 1e4))
def test_the_error_is_printed_with_two_digits_and_the_value_to_the_same_place(error, value):
    shown, spread = format_with_error(value, error).split(" \u00b1 ")
    assert float(spread) == pytest.approx(error, rel=0.05, abs=0.5 if error >= 10 else 0)
    assert math.isclose(float(shown), value, abs_tol=0.06 * error + (0.5 if error > 9 else 0))
    if error < 9.9:
        assert len(spread.replace(".", "").lstrip("0")) == 2


@given(strategies.lists(strategies.floats(-1e12, 1e12), min_size=1, max_size=8), strategies.integers(1, 9))
def test_numbers_of_a_column_agree_in_their_decimals(values, digits):
    """And are true to the last of them, of which the largest number has as many as somebody asks for."""
    numbers = choose_format(values, digits=digits)
    written = [numbers.write_whole(value) for value in values]
    assert len({len(text.partition("e")[0].partition(".")[2]) for text in written}) == 1
    half = 0.5001 * 10.0 ** (numbers.exponent - numbers.decimals)
    for text, value in zip(written, values, strict=True):
        assert math.isclose(float(text), value, abs_tol=half, rel_tol=1e-12)


@pytest.mark.parametrize(
    ("values", "errors", "expected"),
    [
        ([0.12345, 0.5], [0.012, 0.034], ["0.123", "0.500"]),
        ([0.12345, -0.00001], [], ["0.123", "0.000"]),
        ([1, None, 3], [], ["1", "", "3"]),
        ([2**60 + 1, 3], [], [str(2**60 + 1), "3"]),
        (["a", 0.5], [], ["a", "0.500"]),
        ([1.6e-9, 2.25e-7], [], ["0.02e-7", "2.25e-7"]),
        ([math.inf, 0.5], [], ["inf", "0.500"]),
    ],
)
def test_columns(values, errors, expected):
    assert write_column(values, errors) == expected


def test_p_values_and_errors():
    assert write_column([0.04321, 1e-9], probability=True) == ["0.043", "< 0.001"]
    assert write_column([0.5, None], [0.0123, None], plus_minus=" +- ") == ["0.500 +- 0.012", ""]
