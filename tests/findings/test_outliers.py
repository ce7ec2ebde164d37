"""Outliers: heads far from the others, by more than their error."""

import numpy as np
import pytest
from scipy.stats import norm

from attnprobe.findings.outliers import FEWEST, find_outliers

REST = np.linspace(0.1, 0.2, 11)


def places(values, errors=None):
    return {one.above: one.heads for one in find_outliers(np.array(values), errors)}


def test_far_above_and_far_below():
    assert places([*REST, 0.85]) == {True: (11,)}
    assert places([*REST, -0.6]) == {False: (11,)}
    assert places([0.9, *REST, -0.6, 0.95]) == {True: (13, 0), False: (12,)}


def test_the_next_head_is_named():
    (found,) = find_outliers(np.array([*REST, 0.85]))
    assert found.nearest == 0.2
    (found,) = find_outliers(np.array([*REST, -0.6]))
    assert found.nearest == 0.1


def test_the_highest_of_many_alike_does_not_stand_out():
    assert places(REST) == {}
    assert places(np.random.default_rng(0).random(144)) == {}


def test_a_value_that_is_not_sure_does_not_stand_out():
    """The fence is what it is; the interval has to lie beyond it, with all heads' intervals at once."""
    values = np.array([*REST, 0.5])
    first, third = np.quantile(values, [0.25, 0.75])
    room = 0.5 - (third + 3 * (third - first))
    z = norm.ppf(1 - 0.025 / 12)
    errors = np.full(12, 0.001)
    for factor, found in ((0.99, {True: (11,)}), (1.01, {})):
        errors[11] = factor * room / z
        assert places(values, errors) == found


def test_heads_without_a_value_are_passed_over():
    holes = np.array([np.nan, *REST, np.nan, 0.85])
    assert places(holes) == {True: (13,)}
    assert places(holes, np.full(14, np.nan)) == {True: (13,)}


def test_a_head_without_an_error_among_others_is_not_sure():
    values, errors = np.array([*REST, 0.85]), np.full(12, 0.001)
    assert places(values, errors) == {True: (11,)}
    errors[11] = np.nan
    assert places(values, errors) == {}


def test_all_alike_but_one():
    assert places([0.0] * 11 + [1.0]) == {True: (11,)}
    assert places([0.0] * 12) == {}


@pytest.mark.parametrize("heads", range(FEWEST))
def test_few_heads_say_nothing(heads):
    assert places([0.0] * max(0, heads - 1) + [9.0] * min(1, heads)) == {}


def test_false_alarms_are_rare():
    """Of heads that do not differ, noise alone makes one an outlier in less than 5 % of models."""
    draw, alarms = np.random.default_rng(0), 0
    for _ in range(1000):
        errors = draw.uniform(0.5, 2, 144)
        alarms += bool(find_outliers(draw.normal(size=144) * errors, errors))
    assert alarms < 50
