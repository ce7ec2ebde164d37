"""Tables of steps into one, and rank correlations between steps."""

import numpy as np
import pytest
from scipy.stats import rankdata

from attnprobe.errors import AttnprobeError
from attnprobe.findings.dynamics import (
    check_alike,
    correlate_ranks,
    split_steps,
    stack_steps,
    tabulate_orders,
)
from attnprobe.table.table import Column, HeadTable

RNG = np.random.default_rng(4)
NAN = float("nan")


def table(values, notes=(), kinds=None, **record):
    """Make a table of heads, three a layer."""
    rows = len(values)
    keys = {"model": ["m"] * rows, "dataset": ["d"] * rows} | ({"attention": list(kinds)} if kinds else {})
    keys |= {"layer": [row // 3 for row in range(rows)], "head": [row % 3 for row in range(rows)]}
    columns = [*(Column(name, role="key") for name in keys), Column("n", role="count")]
    columns += [Column("x", "share", headline=True), Column("x_se", "share", "error")]
    data = {**keys, "n": [9] * rows, "x": list(values), "x_se": [0.1] * rows}
    return HeadTable("x of heads", columns, data, notes, record)


def test_correlations_are_of_ranks():
    first, second = RNG.normal(size=(2, 40)).round(1)  # with ties
    heads, spearman, kendall = correlate_ranks(first, second)
    assert heads == 40
    assert spearman == pytest.approx(np.corrcoef(rankdata(first), rankdata(second))[0, 1], abs=1e-12)
    signs = [np.sign(np.subtract.outer(x, x))[np.triu_indices(40, 1)] for x in (first, second)]
    tau = (signs[0] * signs[1]).sum() / np.sqrt((signs[0] ** 2).sum() * (signs[1] ** 2).sum())
    assert kendall == pytest.approx(tau, abs=1e-12)


def test_heads_without_a_value_are_left_out():
    first = np.array([1.0, 2.0, NAN, 3.0, np.inf, 4.0])
    second = np.array([10.0, 30.0, 5.0, NAN, 1.0, 40.0])
    assert correlate_ranks(first, second) == (3, pytest.approx(1), pytest.approx(1))


def test_tables_are_stacked():
    result = stack_steps(
        [(5, table([1.0, NAN, 3.0], ["Both.", "One."])), (7, table([4, 5, 6], ["Both."]))], {"a": 1}
    )
    assert list(result.data) == ["model", "dataset", "step", "layer", "head", "n", "x", "x_se"]
    assert list(result.data["step"]) == [5] * 3 + [7] * 3
    np.testing.assert_array_equal(result["x"], [1, NAN, 3, 4, 5, 6])
    assert result.column("step").role == "key"
    assert "Both." in result.notes
    assert "One." not in result.notes
    assert result.provenance == {"a": 1}
    assert result.title == "x of heads at 2 steps of training"


def test_kinds_of_attention_are_compared_apart():
    kinds = ["encoder"] * 4 + ["decoder"] * 4
    first, second = table([1, 2, 3, 4, 1, 2, 3, 4], kinds=kinds), table([1, 2, 3, 4, 4, 3, 2, 1], kinds=kinds)
    result = tabulate_orders([(1, first), (2, second)], {})
    assert list(result.data["attention"]) == ["encoder", "encoder", "decoder", "decoder"]
    assert result["spearman_last"].tolist() == pytest.approx([1, 1, -1, 1])
    assert result["heads_last"].tolist() == [4] * 4


def test_tables_that_do_not_belong_together():
    first = (1, table([1.0, 2.0, 3.0], corpus={"texts": ["a"]}))
    check_alike(first, (2, table([3.0, 2.0, 3.0], corpus={"texts": ["a"]})))
    with pytest.raises(AttnprobeError, match="Step 2 has read other tokens than step 1"):
        check_alike(first, (2, table([1.0, 2.0, 3.0], corpus={"texts": ["b"]})))
    with pytest.raises(AttnprobeError, match="different heads"):
        check_alike(first, (2, table([1.0, 2.0], corpus={"texts": ["a"]})))
    with pytest.raises(AttnprobeError, match=r"different columns \(attention\)"):
        check_alike(first, (2, table([1.0], kinds=["encoder"], corpus={"texts": ["a"]})))
    one, other = (HeadTable("x", [Column("metric", role="key")], {"metric": [name]}) for name in "ab")
    with pytest.raises(AttnprobeError, match="The metric is a at step 1 and b at step 2"):
        check_alike((1, one), (2, other))
    with pytest.raises(AttnprobeError, match="no steps of training on record"):
        split_steps(table([1.0]))
