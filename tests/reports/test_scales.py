"""Scales of colours: from 0, as wide as errors, one for a unit; and what is pale."""

import numpy as np
import pytest
from scipy.stats import t

from attnprobe.reports.scales import Z_95, fit_scale, read_intervals
from attnprobe.table.table import Column, HeadTable


@pytest.mark.parametrize("seed", range(5))
def test_a_scale_holds_every_number_and_what_its_errors_make_of_0(seed):
    draw = np.random.default_rng(seed)
    size = 10.0 ** draw.uniform(-12, 9)
    values, errors = (draw.normal(size=12) * size).tolist(), draw.uniform(0, size, 12).tolist()
    both = fit_scale([(values, errors)], effect=True)
    reach = max(*map(abs, values), *(Z_95 * error for error in errors))
    assert both.low == -both.high
    assert reach <= both.high * (1 + 1e-6) <= 1.11 * reach
    above = fit_scale([([abs(value) for value in values], errors)], effect=False)
    assert (above.low, above.high) == (0, both.high)


def test_the_interval_of_a_picture_is_that_of_its_documents():
    data = {"layer": [0, 0], "head": [0, 1], "n": [5, 1000], "x": [0.3, 0.3], "x_se": [0.1, 0.1]}
    roles = {"layer": "key", "head": "key", "n": "count", "x": "measure", "x_se": "error"}
    table = HeadTable("t", [Column(name, role=role) for name, role in roles.items()], data)
    low, high = read_intervals(table, "x")
    halves = np.array([0.1 * t.isf(0.025, 4), 0.1 * t.isf(0.025, 999)])
    assert low == pytest.approx(0.3 - halves)
    assert high == pytest.approx(0.3 + halves)
