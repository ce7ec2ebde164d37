"""What no sequence changes: two of them are the same, or they don't add up."""

import numpy as np
import pytest

from attnprobe.errors import AttnprobeError
from attnprobe.sums.base import Constant

ONE = Constant.of([[1.0, np.nan], [3.0, 4.0]])


def test_the_same_again():
    assert (ONE + ONE) is ONE
    rounded = Constant(ONE.values * (1 + 1e-9))
    np.testing.assert_array_equal((ONE + rounded).values, ONE.values)


@pytest.mark.parametrize("other", [[[1.0, 2.0], [3.0, 4.0]], [[1.0, np.nan], [3.0, 4.01]], [1.0]])
def test_others_are_refused(other):
    with pytest.raises(AttnprobeError, match="different models"):
        _ = ONE + Constant.of(other)


def test_there_and_back():
    back = Constant.from_arrays(ONE.arrays())
    np.testing.assert_array_equal(back.values, ONE.values)
    np.testing.assert_array_equal(back.count, [[1, 0], [1, 1]])
    np.testing.assert_array_equal(back.average, ONE.values)
