"""x log2 x by bits and a polynomial, against numpy's logarithm in float64."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attnprobe.kernels.rows import x_log2_x

#: What the module promises of log2, in bits; the rest is the rounding of one multiplication.
WORST = 6.3e-7
SMALLEST_NORMAL = np.finfo(np.float32).smallest_normal


def exact(x: np.float32) -> float:
    return float(x) * np.log2(float(x)) if x > 0 else 0.0


def within(x: np.float32) -> float:
    """Bound the error at x: the polynomial's, and float32's own."""
    return float(x) * WORST + 2 * np.finfo(np.float32).eps * abs(exact(x)) + 1e-45


@given(st.floats(min_value=float(SMALLEST_NORMAL), max_value=1, width=32))
def test_any_probability(x: float):
    value = np.float32(x)
    assert abs(float(x_log2_x(value)) - exact(value)) <= within(value)


def test_worst_error_over_a_binade():
    grid = np.linspace(0.5, 1, 20_001, dtype=np.float32)
    off = np.array([(float(x_log2_x(x)) - exact(x)) / float(x) for x in grid])
    assert np.abs(off).max() < 7e-7
    assert abs(off.mean()) < 2e-8


@pytest.mark.parametrize("power", [0, 1, 2, 10, 64, 126])
def test_powers_of_two_are_exact(power: int):
    assert x_log2_x(np.float32(2.0**-power)) == np.float32(-power * 2.0**-power)


def test_zero_gives_exactly_zero():
    assert x_log2_x(np.float32(0)) == 0


def test_denormals_give_next_to_nothing():
    """Their logarithm is wrong, and weighs nothing: below 1e-35 the term can't be seen in a sum."""
    for x in (1e-45, 1e-40, 1e-39):
        found = float(x_log2_x(np.float32(x)))
        assert np.isfinite(found)
        assert abs(found) < 1e-35


@pytest.mark.parametrize("sign", [1, -1])
def test_not_a_number_stays_so(sign: int):
    assert np.isnan(x_log2_x(np.copysign(np.float32("nan"), sign)))
