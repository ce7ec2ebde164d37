"""Moments that merge: any way of cutting a sample gives the moments of the whole."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from attnprobe.sums.base import Moments

EXACT = 1e-12

numbers = st.floats(-1e6, 1e6, allow_subnormal=False) | st.just(float("nan"))
shapes = st.tuples(st.integers(1, 12), st.integers(1, 3), st.integers(1, 3))
samples = arrays.arrays(np.float64, shapes, elements=numbers)


def agrees(found: Moments, expected: Moments, sample: np.ndarray):
    """Compare to 1e-12 of the sample's own size."""
    size = max(1.0, np.nanmax(np.abs(sample), initial=0))
    np.testing.assert_array_equal(found.count, expected.count)
    np.testing.assert_allclose(found.average, expected.average, rtol=0, atol=EXACT * size)
    np.testing.assert_allclose(found.squares, expected.squares, rtol=EXACT, atol=10 * EXACT * size**2)
    assert (found.squares >= 0).all()


@given(samples)
def test_numpy_agrees(sample: np.ndarray):
    found = Moments.of(sample)
    for cell in np.ndindex(sample.shape[1:]):
        seen = sample[(slice(None), *cell)]
        seen = seen[~np.isnan(seen)]
        size = max(1.0, np.abs(seen).max(initial=0))
        assert found.count[cell] == len(seen)
        if not len(seen):
            assert np.isnan(found.average[cell])
            assert np.isnan(found.variance[cell])
            continue
        assert found.average[cell] == pytest.approx(seen.mean(), abs=EXACT * size)
        if len(seen) == 1:
            assert np.isnan(found.variance[cell])
            assert np.isnan(found.standard_error[cell])
        else:
            assert found.variance[cell] == pytest.approx(seen.var(ddof=1), rel=1e-9, abs=10 * EXACT * size**2)
            error = seen.std(ddof=1) / len(seen) ** 0.5
            assert found.standard_error[cell] == pytest.approx(error, rel=1e-9, abs=1e-9 * size)


@given(samples, st.data())
def test_two_parts_make_the_whole(sample: np.ndarray, data: st.DataObject):
    cut = data.draw(st.integers(0, len(sample)))
    agrees(Moments.of(sample[:cut]) + Moments.of(sample[cut:]), Moments.of(sample), sample)


@given(samples, st.data())
def test_order_and_grouping_do_not_matter(sample: np.ndarray, data: st.DataObject):
    parts = [Moments.of(row[None]) for row in sample]
    order = data.draw(st.permutations(parts))
    left = order[0]
    for part in order[1:]:
        left = left + part
    right = order[-1]
    for part in order[-2::-1]:
        right = part + right
    agrees(left, Moments.of(sample), sample)
    agrees(right, Moments.of(sample), sample)


def test_a_long_stream_stays_exact():
    """Ten thousand batches of one."""
    sample = np.random.default_rng(0).normal(3, 2, (10_000, 2))
    total = Moments.of(sample[:1])
    for row in sample[1:]:
        total = total + Moments.of(row[None])
    np.testing.assert_allclose(total.average, sample.mean(0), rtol=EXACT)
    np.testing.assert_allclose(total.variance, sample.var(0, ddof=1), rtol=EXACT)


@pytest.mark.parametrize("offset", [1e3, 1e6, 1e9, 1e12])
def test_a_huge_offset_does_not_eat_the_variance(offset: float):
    """E[x^2] - E[x]^2 would lose every digit at 1e9."""
    noise = np.random.default_rng(1).integers(-8, 9, (1000, 1)).astype(float)  # exact beside the offset
    whole = Moments.of(noise + offset)
    parts = Moments.of(noise[:1] + offset)
    for start, stop in ((1, 10), (10, 500), (500, 1000)):
        parts = parts + Moments.of(noise[start:stop] + offset)
    for found in (whole, parts):
        np.testing.assert_allclose(found.variance, noise.var(0, ddof=1), rtol=1e-9 * max(1, offset / 1e9))
        np.testing.assert_allclose(found.average - offset, noise.mean(0), atol=offset * 1e-15 + 1e-12)


def test_float32_is_summed_in_float64():
    sample = np.full((100_000, 1), 0.1, np.float32)
    assert Moments.of(sample).average[0] == pytest.approx(float(np.float32(0.1)), rel=EXACT)


def test_every_cell_counts_its_own():
    nan = float("nan")
    found = Moments.of([[1.0, nan, nan], [3.0, 5.0, nan]]) + Moments.of([[nan, 7.0, nan]])
    np.testing.assert_array_equal(found.count, [2, 2, 0])
    np.testing.assert_array_equal(found.average, [2, 6, nan])
    np.testing.assert_array_equal(found.variance, [2, 2, nan])
    np.testing.assert_array_equal(found.standard_error, [1, 1, nan])


def test_nothing_is_neutral():
    some, nothing = Moments.of([[1.0], [2.0]]), Moments.of(np.zeros((0, 1)))
    for found in (some + nothing, nothing + some, some + Moments.of([[float("nan")]])):
        agrees(found, some, np.ones(1))
    empty = nothing + nothing
    assert empty.count == 0
    assert np.isnan(empty.average).all()


def test_equal_observations_have_no_variance():
    found = Moments.of(np.full((7, 1), 0.1)) + Moments.of(np.full((3, 1), 0.1))
    assert found.variance[0] < 1e-32
