"""The trend over layers: Spearman's rho with a p that holds for a few layers too."""

import re
from itertools import permutations

import numpy as np
import pytest
from scipy.stats import spearmanr

from attnprobe.statistics.tabulation import describe_trend


def p_of(values):
    note = describe_trend("spread", np.array(values, float))
    return float(re.search(r"p = ([\d.e+-]+), ", note)[1])


@pytest.mark.parametrize(
    "values",
    [[1, 2, 3], [1, 3, 2], [4, 3, 2, 1], [1, 1, 2], [2, 1, 3, 5, 4, 6], [1, 5, 2, 2, 4, 3]],
)
def test_p_counts_orders(values):
    """As large as the share of all orders of these numbers that correlate as much in either direction."""
    depth = range(len(values))
    rho = spearmanr(depth, values).statistic
    every = np.array([abs(spearmanr(depth, other).statistic) for other in permutations(values)])
    assert p_of(values) == pytest.approx((every >= abs(rho) - 1e-9).mean(), rel=0.01)
    assert p_of(values) > 0


def test_p_of_many_layers():
    values = np.random.default_rng(0).normal(size=12) + np.arange(12) / 8
    assert p_of(values) == pytest.approx(spearmanr(range(12), values).pvalue, rel=0.01)
    assert p_of(range(12)) == pytest.approx(2 / 479_001_600, rel=0.01)


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ([1], "undefined for 1 layer."),
        ([1, 2], "undefined for 2 layers."),
        ([1, 2, np.nan], "undefined, since it is missing for some layers."),
        ([2, 2, 2], "undefined, since it is the same in every layer."),
    ],
)
def test_undefined(values, reason):
    note = describe_trend("spread", np.array(values, float))
    assert note == f"Trend of spread over depth: {reason}"
