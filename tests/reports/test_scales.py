"""Scales of colours: from 0, as wide as errors, one for a unit; and what is pale."""

import numpy as np
import pytest
from scipy.stats import t

from attnprobe.reports.headline import state_finding
from attnprobe.reports.scales import (
    BEYOND,
    Scale,
    fit_scale,
    fit_scales_by_unit,
    mark_column,
    mark_effects,
    read_spreads,
)
from attnprobe.table.head_table import HeadTable
from attnprobe.table.table import Column


@pytest.mark.parametrize("seed", range(40))
def test_a_scale_holds_every_number_and_what_its_errors_make_of_0(seed):
    draw = np.random.default_rng(seed)
    size = 10.0 ** draw.uniform(-12, 9)
    values, errors = (draw.normal(size=12) * size).tolist(), draw.uniform(0, size, 12).tolist()
    both = fit_scale([(values, errors)], effect=True)
    reach = max(*map(abs, values), *(BEYOND * error for error in errors))
    assert both.low == -both.high
    assert reach <= both.high * (1 + 1e-6) <= 1.11 * reach
    above = fit_scale([([abs(value) for value in values], errors)], effect=False)
    assert (above.low, above.high) == (0, both.high)


def test_shares_end_at_1():
    assert fit_scale([([0.99], [0.4])], effect=False, most=1.0) == Scale(0.0, 0.99)
    assert fit_scale([([0.1], [0.8])], effect=False, most=1.0).high == 1
    assert fit_scale([([1.5], [None])], effect=False, most=1.0).high == 1.5


def test_one_scale_for_one_unit_and_another_for_its_effects():
    def measure(name, unit, top):
        return Column(name, unit), [0.0, top], [None, None]

    found = fit_scales_by_unit(
        [measure("a", "share", 0.5), measure("b", "share", 0.1), measure("a_delta", "share", 0.2),
         measure("c", "nats", 3.0), measure("d", "", 7.0), measure("e", "", 9.0)]
    )  # fmt: skip
    assert [(one.low, one.high) for one in found] == [(0, 0.5), (0, 0.5), (-0.2, 0.2), (0, 3), (0, 7), (0, 9)]


def test_a_divergence_is_not_dark_beside_an_entropy():
    found = fit_scales_by_unit([
        (Column(name, "nats"), [0.0, top], [None, None])
        for name, top in (("entropy", 4.5), ("jsd_mean", 0.6), ("jsd_nearest", 0.1))
    ])  # fmt: skip
    assert [one.high for one in found] == [4.5, 0.6, 0.6]


def test_a_scale_begins_at_the_least_possible():
    """Half of the singular values hold half of their squares at least."""
    found = fit_scales_by_unit([
        (Column(name, "share"), [0.2, 0.98], [None, None]) for name in ("qk_top_half", "logit_rank_share")
    ])  # fmt: skip
    assert found == [Scale(0.5, 0.98), Scale(0.0, 0.98)]
    assert found[0].ends == [0.5, 0.74, 0.98]
    assert found[0].place(0.74) == pytest.approx(0.5)
    assert not found[0].is_of_effects


def test_without_errors_or_p_nothing_is_pale():
    assert mark_effects([0.5, -0.1], [None, None], [9, 9], None).pale == [False, False]
    assert mark_effects([0.5, -0.1, None], [0.1, 0.1, None], [9, 9, 9], None).pale == [False, True, True]
    assert mark_effects([0.5, -0.1], [9.0, None], [9, 9], [0.049, 0.05]).pale == [False, True]


def test_marks_are_by_the_interval_of_all_heads_together():
    """At 3 errors, an effect alone would be significant; of 72 heads, and of few documents, it is not."""
    values, errors = [0.3] + [0.0] * 71, [0.1] * 72
    assert not any(mark_effects(values, errors, [1000] * 72, None).signs)
    values[0] = 0.36
    assert mark_effects(values, errors, [1000] * 72, None).signs[0] == "+"
    assert not any(mark_effects(values, errors, [12] * 72, None).signs)


def test_a_map_and_its_title_mark_the_same_heads():
    data = {"layer": [0] * 72, "head": [*range(72)], "n": [1000] * 72}
    data |= {"delta": [0.3, 0.36] + [0.0] * 70, "delta_se": [0.1] * 72}
    roles = {"layer": "key", "head": "key", "n": "count", "delta": "measure", "delta_se": "error"}
    table = HeadTable("t", [Column(name, role=role) for name, role in roles.items()], data)
    marked = [row for row, sign in enumerate(mark_column(table, table.column("delta")).signs) if sign]
    assert marked == [1]
    said = "1 of 72 significant; strongest L0 H1, 0.36 \u00b1 0.10"
    assert state_finding(table, table.column("delta")) == said


@pytest.mark.parametrize("extreme", [5e-324, 1e-300, 1e300, 1.7e308])
def test_extreme_numbers_have_a_scale(extreme):
    scale = fit_scale([([extreme], [None])], effect=False)
    assert scale.high == pytest.approx(extreme, rel=0.1)
    assert scale.place(extreme) == pytest.approx(1, abs=0.1)


def test_a_measure_that_is_the_least_possible_everywhere_has_a_scale():
    column = Column("qk_top_half", "share")
    (scale,) = fit_scales_by_unit([(column, [0.5, 0.5], [None, None])])
    assert (scale.low, scale.high) == (0.5, 1.0)


def test_the_interval_of_a_picture_is_that_of_its_documents():
    data = {"layer": [0, 0], "head": [0, 1], "n": [5, 1000], "x": [0.3, 0.3], "x_se": [0.1, 0.1]}
    roles = {"layer": "key", "head": "key", "n": "count", "x": "measure", "x_se": "error"}
    table = HeadTable("t", [Column(name, role=role) for name, role in roles.items()], data)
    assert read_spreads(table, "x") == pytest.approx([0.1 * t.isf(0.025, 4), 0.1 * t.isf(0.025, 999)])
