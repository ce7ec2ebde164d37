"""Groups of documents: differences and deviations about 0, with errors of their own."""

import math

import numpy as np
import picture_tables as tables
import pytest

from attnprobe.reports.pictures.choosing import draw_picture
from attnprobe.reports.pictures.groups import find_deviations, find_difference, write_p
from attnprobe.table.head_table import HeadTable


def two_groups(**cells):
    """Take the first two groups of the table of three."""
    whole = tables.by_group(2, 2)
    data = {name: column[:12] for name, column in whole.data.items()}
    return HeadTable(whole.title, whole.columns, {**data, **cells})


def rows_of(drawn):
    return [row for rows in drawn.spec["datasets"].values() for row in rows if "sure" in row]


def test_two_groups_are_the_second_less_the_first_with_the_error_of_both():
    table = two_groups()
    rows = rows_of(draw_picture([table]))
    assert [row["panel"] for row in rows] == ["L0 H0 *", "L1 H0", "L1 H1", "L0 H1"]  # the last one not tested
    _, first, second = np.array(table.data["entropy"]).reshape(3, 4)
    _, one, other = np.array(table.data["entropy_se"]).reshape(3, 4)
    order = [0, 2, 3, 1]
    assert [row["value"] for row in rows] == pytest.approx((second - first)[order])
    half = 1.96 * np.sqrt(one**2 + other**2)
    assert [row["low"] for row in rows] == pytest.approx((second - first - half)[order])
    assert [row["high"] for row in rows] == pytest.approx((second - first + half)[order])
    for row, place in zip(rows, order, strict=True):
        assert float(row["group0_text"]) == pytest.approx(first[place], rel=0.006)
        assert float(row["group1_text"]) == pytest.approx(second[place], rel=0.006)
    assert [row["p_text"] for row in rows] == ["0.010", "0.50", "0.90", ""]
    assert [row["sure"][0] for row in rows] == ["*", "n", "n", "n"]


def test_a_group_without_a_number_has_no_difference():
    table = two_groups()
    table.data["entropy"][4] = None
    first = next(row for row in rows_of(draw_picture([table])) if row["panel"].startswith("L0 H0"))
    assert (first["value"], first["low"], first["group0_text"]) == (None, None, "")
    assert first["group1_text"]
    assert find_difference([1.0, 3.5], [None, 0.1]) == (2.5, None)


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


@pytest.mark.parametrize(
    ("p", "written"),
    [(0.0496, "0.0496"), (0.04999, "0.04999"), (0.05, "0.050"), (0.2, "0.20"), (1e-9, "< 0.001")],
)
def test_a_p_value_is_written_on_its_side_of_the_level(p, written):
    assert write_p(p) == written
