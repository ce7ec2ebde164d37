"""Sums that add up: moments, constants, measurements of several statistics, there and back."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from attnprobe.errors import AttnprobeError
from attnprobe.sums.base import (
    Constant,
    Measurement,
    Moments,
    Sum,
    pack,
    unpack,
)
from attnprobe.sums.blocked import Blocked
from attnprobe.sums.clustered import Clustered

EXACT = 1e-12
numbers = st.floats(-1e6, 1e6, allow_subnormal=False) | st.just(float("nan"))
shapes = st.tuples(st.integers(1, 12), st.integers(1, 3), st.integers(1, 3))
samples = arrays.arrays(np.float64, shapes, elements=numbers)
ONE = Constant.of([[1.0, np.nan], [3.0, 4.0]])


@given(samples)
def test_numpy_agrees(sample: np.ndarray):
    moments = Moments.of(sample)
    for cell in np.ndindex(sample.shape[1:]):
        seen = sample[(slice(None), *cell)]
        seen = seen[~np.isnan(seen)]
        size = max(1.0, np.abs(seen).max(initial=0))
        assert moments.count[cell] == len(seen)
        if not len(seen):
            assert np.isnan(moments.average[cell])
            assert np.isnan(moments.variance[cell])
            continue
        assert moments.average[cell] == pytest.approx(seen.mean(), abs=EXACT * size)
        if len(seen) == 1:
            assert np.isnan(moments.variance[cell])
            assert np.isnan(moments.standard_error[cell])
        else:
            assert moments.variance[cell] == pytest.approx(
                seen.var(ddof=1), rel=1e-9, abs=10 * EXACT * size**2
            )
            error = seen.std(ddof=1) / len(seen) ** 0.5
            assert moments.standard_error[cell] == pytest.approx(error, rel=1e-9, abs=1e-9 * size)


@pytest.mark.parametrize("offset", [1e3, 1e12])
def test_a_huge_offset_does_not_eat_the_variance(offset: float):
    """E[x^2] - E[x]^2 would lose every digit at 1e9."""
    noise = np.random.default_rng(1).integers(-8, 9, (1000, 1)).astype(float)  # exact beside the offset
    whole = Moments.of(noise + offset)
    parts = Moments.of(noise[:1] + offset)
    for start, stop in ((1, 10), (10, 500), (500, 1000)):
        parts = parts + Moments.of(noise[start:stop] + offset)
    for moments in (whole, parts):
        np.testing.assert_allclose(moments.variance, noise.var(0, ddof=1), rtol=1e-9 * max(1, offset / 1e9))
        np.testing.assert_allclose(moments.average - offset, noise.mean(0), atol=offset * 1e-15 + 1e-12)


@pytest.mark.parametrize("other", [[[1.0, 2.0], [3.0, 4.0]], [[1.0, np.nan], [3.0, 4.01]], [1.0]])
def test_other_constants_are_refused(other):
    with pytest.raises(AttnprobeError, match="different models"):
        _ = ONE + Constant.of(other)


#: One name begins like another, and one is that of what a measurement keeps itself.
KINDS: dict[str, type[Sum]] = {"jsd": Clustered, "jsd_mean": Blocked, "seen": Clustered}


def measured(sequences: int, seed: int, *, alone: bool = False) -> Measurement:
    draw = np.random.default_rng(seed)
    clusters = np.full(sequences, -1) if alone else draw.integers(500, 510, sequences)
    documents = np.arange(sequences)
    sums = {
        name: kind.of(draw.random((sequences, 2, 3)), clusters, documents) for name, kind in KINDS.items()
    }
    return Measurement(sums, sequences, 2**60 + sequences)


def same(actual: Measurement, expected: Measurement) -> None:
    assert (actual.sequences, actual.tokens) == (expected.sequences, expected.tokens)
    ours, theirs = actual.arrays(), expected.arrays()
    assert ours.keys() == theirs.keys()
    for name, array in ours.items():
        assert (array.dtype, array.shape) == (theirs[name].dtype, theirs[name].shape)
        assert array.tobytes() == theirs[name].tobytes()


@pytest.mark.parametrize("alone", [False, True])
@pytest.mark.parametrize("written", [False, True])
def test_arrays(alone: bool, written: bool):
    """Each sum gets what it gave, whatever its arrays are called, and goes on adding."""
    moments, more = measured(7, 0, alone=alone), measured(6, 1)
    arrays = moments.arrays()
    assert {name.partition("/")[0] for name in arrays} == {*KINDS, "seen"}
    again = Measurement.from_arrays(unpack(pack(arrays)) if written else arrays, KINDS)
    same(again, moments)
    same(again + more, moments + more)
    assert isinstance(again.sums["jsd_mean"], Blocked)
