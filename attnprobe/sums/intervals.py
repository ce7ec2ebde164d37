"""Intervals that hold for all heads of a table together."""

from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

#: Confidence of the intervals of all heads together.
CONFIDENCE = 0.95


def reach(errors: NDArray[np.float64]) -> NDArray[np.float64]:
    """Give half the width of the interval of each head: z s, with z for all of them (Bonferroni).

    Args:
        errors: The standard error of each head; NaN where it is unknown, and so is the interval.

    >>> reach(np.array([0.01])).round(4)
    array([0.0196])
    """
    tails = (1 - CONFIDENCE) / 2 / max(1, len(errors))
    return NormalDist().inv_cdf(1 - tails) * errors
