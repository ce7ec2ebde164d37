"""What titles state of a measure: significance and numbers are computed anew, from the table alone."""

import re

import numpy as np
import pytest
from scipy.stats import norm

from attnprobe.reports.headline import explain_width, state_measure, write_number
from attnprobe.table.head_table import HeadTable
from attnprobe.table.table import Column

HEAD = r"L(\d+) H(\d+)"


def make(values, errors=None, name="x", title="attention to the previous token", unit="share", **more):
    """Make a table of heads, (layer, head), of one measure."""
    values = np.asarray(values, float)
    layer, head = np.divmod(np.arange(values.size), values.shape[1])
    columns = [Column(one, role="key") for one in ("model", "dataset", "layer", "head")]
    data = {"model": ["m"] * values.size, "dataset": ["d"] * values.size}
    data |= {"layer": layer.tolist(), "head": head.tolist()}
    columns.append(Column(name, unit, title=title))
    data[name] = values.ravel().tolist()
    if errors is not None:
        columns.append(Column(f"{name}_se", unit, "error"))
        data[f"{name}_se"] = np.broadcast_to(errors, values.shape).ravel().tolist()
    for one, cells in more.items():
        columns.append(Column(one, "probability"))
        data[one] = np.broadcast_to(cells, values.shape).ravel().tolist()
    return HeadTable("t", columns, data)


def state(table, name="x"):
    return state_measure(table, table.column(name))


def half(errors, heads):
    return norm.ppf(1 - 0.05 / 2 / heads) * errors


def as_number(said):
    return float(said.replace("\u2212", "-"))


def close(said, value):
    """Tell whether a number of a sentence is one of a table, to the digits that it has."""
    digits = len(said.partition(".")[2])
    return abs(as_number(said) - value) <= 0.5 * 10.0**-digits + 1e-12


@pytest.mark.parametrize("seed", range(60))
def test_who_looks_somewhere_has_most_of_its_attention_there(seed):
    draw = np.random.default_rng(seed)
    values = draw.uniform(0, 0.15, (3, 4))
    for place in draw.integers(0, 12, draw.integers(0, 4)):
        values.ravel()[place] = draw.uniform(0.3, 1)
    errors = draw.choice([0.002, 0.05, 0.2], (3, 4))
    said = state(make(values, errors))
    sure = values - half(errors, 12) > 0.5
    if sure.any():
        first = np.unravel_index(np.where(sure, values, -1).argmax(), (3, 4))
        assert f"L{first[0]} H{first[1]}" in said
        assert "token" in said
        assert " more " not in said
        numbers = re.findall(r"0\.\d+|1\.00", said)
        assert close(numbers[0], values[first])
        if sure.sum() == 1:
            assert said == f"L{first[0]} H{first[1]} looks at the previous token: {numbers[0]}"
        elif sure.sum() > 2:
            assert said.startswith(f"{sure.sum()} of 12 heads look at the previous token, such as ")
        else:
            assert len(re.findall(HEAD, said)) == len(numbers) == 2
        return
    assert said == ""


def test_queries_are_said_as_queries():
    values = np.full((2, 6), 0.1)
    values[1, 1] = values[0, 5] = values[0, 4] = 0.8
    said = state(make(values, 0.01, title="queries that look most at the image"))
    assert said.startswith("3 of 12 heads look most at the image, such as L0 H4: 0.80 of queries")


@pytest.mark.parametrize("seed", range(30))
def test_effects_are_counted_by_their_adjusted_p_or_else_by_intervals(seed):
    draw = np.random.default_rng(seed)
    values, errors = draw.normal(0, 0.3, (3, 4)), draw.choice([0.05, 0.3], (3, 4))
    p = draw.choice([0.001, 0.049, 0.051, 0.7], (3, 4))
    how = {"name": "x_delta", "title": "change of entropy of attention", "unit": "nats"}
    for table, sure in (
        (make(values, errors, **how, x_p_adjusted=p), p < 0.05),
        (make(values, errors, **how), np.abs(values) > half(errors, 12)),
        (make(values, **how), np.zeros((3, 4), bool)),
    ):
        up, down = int((sure & (values > 0)).sum()), int((sure & (values < 0)).sum())
        said = state(table, "x_delta")
        if up + down == 0:
            assert said == ""
        elif up + down == 1:
            row = np.unravel_index(sure.argmax(), (3, 4))
            found = re.fullmatch(rf"entropy of attention (rises|falls) in {HEAD}: by ([\d.]+) nats", said)
            assert (found[1], int(found[2]), int(found[3])) == ("rises" if up else "falls", *row)
            assert close(found[4], abs(values[row]))
        else:
            parts = [f"rises in {up}"] * (up > 0) + [f"falls in {down}"] * (down > 0)
            parts[0] += " of 12 heads"
            assert said == f"entropy of attention {' and '.join(parts)}"


def test_without_a_head_a_score_falls():
    values = np.zeros((2, 2))
    values[1, 0] = -0.12
    p = np.ones((2, 2))
    p[1, 0] = 0.004

    def state_delta(title, p):
        table = make(values, 0.01, name="delta", title="change of accuracy", p_adjusted=p)
        keys = [Column("replaced_by", role="key"), Column("score", "share", title=title)]
        data = {**table.data, "replaced_by": ["zero"] * 4, "score": [0.8] * 4}
        return state(HeadTable("t", [*table.columns, *keys], data), "delta")

    assert state_delta("accuracy without the head", p) == "without L1 H0, accuracy falls by 0.12"
    alone = state_delta("accuracy of the head alone in its layer", p)
    assert alone == "accuracy falls in L1 H0: by 0.12"
    values[0, 1], p[0, 1] = -0.05, 0.01
    several = "accuracy falls without any of 2 of 4 heads, such as L1 H0: by 0.12"
    assert state_delta("accuracy without the head", p) == several
    p[:] = 0.06
    assert state_delta("accuracy without the head", p) == ""


@pytest.mark.parametrize(("error", "sure"), [(0.01, True), (0.04, False)])
def test_the_most_important_head_is_above_the_intervals_of_all_others(error, sure):
    values = np.array([[0.5, 0.3], [0.4, 0.1]])
    assert (2 * half(error, 4) < 0.5 - 0.4) == sure
    said = state(make(values, error, name="importance", title="importance", unit="|dL/dmask|"), "importance")
    assert said == ("L0 H0 matters most: 0.50" if sure else "")
    values[1, 0], values[0, 1] = 0.49, 0.2
    both = state(make(values, 0.03, name="importance", title="importance", unit="|dL/dmask|"), "importance")
    assert 0.5 - 0.49 < half(0.03, 4) < (0.49 - 0.2) / 2
    assert both == "L0 H0 and L1 H0 matter most: 0.50 and 0.49"


def test_kinds_of_attention_are_named_and_many_maps_are_not():
    values = np.full((3, 4), 0.05)
    values[0, 2] = 0.91
    one = make(values, 0.01)

    def stack(kinds):
        data = {name: cells * len(kinds) for name, cells in one.data.items()}
        data["attention"] = [kind for kind in kinds for _ in range(12)]
        return HeadTable("t", [*one.columns, Column("attention", role="key")], data)

    said = state(stack(["encoder", "cross"]))
    assert said == "encoder L0 H2 and cross L0 H2 look at the previous token: 0.91 and 0.91"
    assert state(stack([f"kind {number}" for number in range(5)])) == ""


def test_undefined_numbers_and_p_values_are_no_finding():
    values = np.full((3, 4), 0.05)
    values[0, 2] = 0.91
    table = make(values, 0.01)
    table.data["x"][0] = float("nan")
    table.data["x_se"][0] = float("nan")
    assert state(table) == "L0 H2 looks at the previous token: 0.91"
    assert state(make(values, 0.01, name="p_adjusted", unit="probability"), "p_adjusted") == ""
    assert state(make(np.full((3, 4), np.nan), 0.01)) == ""


@pytest.mark.parametrize(
    "value", [*np.random.default_rng(3).lognormal(-2, 4, 200), 0.9949, 0.9951, 9.96, 99.6]
)
def test_a_number_is_rounded_and_no_power_of_ten_appears(value):
    said = write_number(value)
    assert float(said) == pytest.approx(value, rel=0.051)
    assert close(said, value) or "e" in said
    assert write_number(-value) == f"\u2212{said}"


def test_shares_of_a_heads_width_have_a_least_and_a_most():
    """Of logits, heads count as below half whose interval, for all heads together, is."""
    values = np.array([[0.12, 0.3, 0.46], [0.47, 0.49, 0.7]])
    error = 0.01
    below = int((values + half(error, 6) < 0.5).sum())
    assert below == 4
    assert half(error, 1) < 0.03 < half(error, 6) + 0.01  # one by one, the fourth would be far below
    name = "logit_rank_share"
    table = make(values, error, name, title="share of the width that the logits use")
    start = "attention logits use from 0.12 (L0 H0) to 0.70 (L1 H2) of the dimensions that they could"
    assert state(table, name) == f"{start}, {below} of 6 heads less than half"
    assert state(make(values, 0.2, name), name) == start
    assert state(make(values, None, name), name) == start
    assert state(make(values / 2, error, name), name).endswith(
        "of the dimensions that they could, all 6 heads less than half"
    )
    weights = "qk_top_half"
    assert state(make(values, None, weights), weights) == (
        "the larger half of singular values holds from 0.12 (L0 H0) to 0.70 (L1 H2) of the squared norm "
        "of W_Q W_K^T"
    )
    assert state(make([[0.75]], None, weights), weights) == (
        "the larger half of singular values holds 0.75 (L0 H0) of the squared norm of W_Q W_K^T"
    )


def test_the_width_is_explained():
    column = Column("logit_rank_share", "share")
    table = make([[0.1, 0.2]], None, "logit_rank_share", head_width=64)
    assert (
        explain_width(table, column)
        == "participation rank over the dimensions of a head (64), or over what a shorter text allows"
    )
    table.data["head_width"][:] = [64, 32]
    assert explain_width(table, column) == (
        "participation rank over the dimensions of a head (32 to 64), or over what a shorter text allows"
    )
    assert explain_width(table, Column("entropy", "nats")) == ""
