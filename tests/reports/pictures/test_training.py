"""Lines over training: which heads lead, and when steps have a log scale."""

import numpy as np
import picture_tables as tables
import pytest

from attnprobe.reports.pictures.choosing import draw_picture
from attnprobe.reports.pictures.training import grow_steps
from attnprobe.reports.scales import read_spreads

STEPS = (0, 500, 8000)


def over_steps(values, measure="entropy", layers=1):
    """Make a table of heads at steps from values (step, layer, head)."""
    values = np.asarray(values, float).reshape(len(values), layers, -1)
    steps = STEPS[: len(values)]
    rows = [
        (step, layer, head) for step in range(len(steps)) for layer in range(layers)
        for head in range(values.shape[2])
    ]  # fmt: skip
    keys = {
        "model": [f"checkpoint-{steps[row[0]]}" for row in rows], "dataset": ["d"] * len(rows),
        "step": [steps[row[0]] for row in rows], "layer": [row[1] for row in rows],
        "head": [row[2] for row in rows],
    }  # fmt: skip
    cells = [values[row].item() for row in rows]
    return tables.table("t", keys, **{measure: cells, f"{measure}_se": [0.01] * len(rows)})


def rows_of(table, **how):
    return [row for some in draw_picture([table], **how).spec["datasets"].values() for row in some]


def leading(table):
    """Name the heads that lead, in their order."""
    found = {row["rank"]: row["name"] for row in rows_of(table) if row["rank"] is not None}
    return [found[rank] for rank in sorted(found)]


def test_a_head_without_a_value_at_the_last_step_does_not_lead():
    table = over_steps([[0.1] * 5, [9.0, 0.1, 0.1, 0.1, 0.1], [np.nan, 0.4, 0.3, 0.2, 0.1]])
    assert leading(table) == ["H1", "H2", "H3"]


def test_intervals_are_those_of_the_leading_heads():
    table = over_steps([[0.1] * 5, [0.2] * 5, [0.5, 0.4, 0.3, 0.2, 0.1]], "previous")
    rows = rows_of(table)
    assert {row["name"] for row in rows if row["low"] is not None} == {"H0", "H1", "H2"}
    (spread,) = set(read_spreads(table, "previous"))
    assert all(row["low"] == pytest.approx(row["value"] - spread) for row in rows if row["low"])


def test_layers_are_lines_of_one_chart():
    values = np.linspace(0.1, 0.9, 15).reshape(3, 5)
    keys = {"model": ["m"] * 15, "step": np.repeat(STEPS, 5).tolist(), "layer": [0, 1, 2, 3, 4] * 3}
    table = tables.table("t", keys, cancellation=values.ravel().tolist())
    assert table.kind == "layers of checkpoints"
    assert leading(table) == ["L4", "L3", "L2"]


@pytest.mark.parametrize(
    ("steps", "grow"),
    [
        ([0, 100, 200, 300], False),
        ([100, 200, 300, 400, 500, 600], False),
        ([1, 2, 4, 8, 16], True),
        ([0, 1, 2, 4, 8, 16], True),
        ([0, 500, 8000], True),
        ([1000, 16000, 143000], True),
        ([1, 1000], False),  # two steps are no series
        ([10, 1000, 2000, 3000], True),  # few on the left of a wide span
        ([1000, 1001, 1003, 1007], False),
        ([0], False),
        ([], False),
    ],
)
def test_steps_grow_where_their_gaps_do(steps, grow):
    assert grow_steps(steps) is grow
