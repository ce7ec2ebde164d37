"""Groups of documents: deviations from the mean of all, with errors of their own."""

import math

import numpy as np
import picture_tables as tables
import pytest

from attnprobe.reports.pictures.choosing import draw_picture
from attnprobe.reports.pictures.groups import find_deviations


def rows_of(drawn):
    return [row for rows in drawn.spec["datasets"].values() for row in rows if "sure" in row]


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


def test_more_groups_are_drawn_less_the_mean_of_all_groups():
    table = tables.by_group()
    rows = rows_of(draw_picture([table]))
    panels = list(dict.fromkeys(row["panel"] for row in rows))
    assert (panels[0], panels[-1]) == ("L0 H0 *", "L0 H1")  # the last one was not tested
    assert [row["group"] for row in rows[:3]] == ["news (9)", "</script> (9)", "=cmd() (9)"]
    values = np.array(table.data["entropy"]).reshape(4, 4)[1:, 0]
    errors = np.array(table.data["entropy_se"]).reshape(4, 4)[1:, 0]
    assert [row["own"] for row in rows[:3]] == values.tolist()
    assert [row["value"] for row in rows[:3]] == pytest.approx(values - values.mean())
    first = math.sqrt((2 / 3 * errors[0]) ** 2 + (errors[1] ** 2 + errors[2] ** 2) / 9)
    assert rows[0]["error"] == pytest.approx(first)
    assert rows[0]["high"] - rows[0]["low"] == pytest.approx(2 * 1.96 * first)
    assert {row["sure"] for row in rows[:3]} == {"* groups differ (adjusted p < 0.05)"}
    assert {row["sure"] for row in rows[3:]} == {"not significant"}
