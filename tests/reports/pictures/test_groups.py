"""Groups of documents: deviations from the mean of all, with errors of their own."""

import numpy as np
import pytest

from attnprobe.reports.pictures.groups import find_deviations


@pytest.mark.parametrize("groups", [2, 3, 5])
def test_deviations_are_those_of_a_simulation(groups):
    """A matrix that subtracts the mean: its product with the errors squared is the covariance."""
    draw = np.random.default_rng(groups)
    values, errors = draw.normal(0, 1, groups), draw.uniform(0.1, 1, groups)
    centre = np.eye(groups) - 1 / groups
    covariance = centre @ np.diag(errors**2) @ centre.T
    found = find_deviations(values.tolist(), errors.tolist())
    assert [one for one, _ in found] == pytest.approx(values - values.mean())
    assert [error for _, error in found] == pytest.approx(np.sqrt(np.diag(covariance)))


def test_deviations_leave_out_groups_without_a_number():
    assert find_deviations([1.0, None, 3.0], [3.0, None, 4.0]) == [(-1.0, 2.5), (None, None), (1.0, 2.5)]
    assert find_deviations([1.0, 3.0], [None, 4.0]) == [(-1.0, None), (1.0, None)]
    assert find_deviations([None, None], [None, None]) == [(None, None)] * 2
