"""Lines over training: which heads lead, and when steps have a log scale."""

import numpy as np
import picture_tables as tables

from attnprobe.reports.charts.draw import draw_picture
from attnprobe.reports.scales import read_intervals

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
    found = {row["hue"]: row["series"] for row in rows_of(table) if not row["back"]}
    return [found[rank] for rank in sorted(found)]


def test_a_head_without_a_value_at_the_last_step_does_not_lead():
    table = over_steps([[0.1] * 5, [9.0, 0.1, 0.1, 0.1, 0.1], [np.nan, 0.4, 0.3, 0.2, 0.1]])
    assert leading(table) == ["H1", "H2", "H3"]


def test_intervals_are_those_of_the_leading_heads():
    table = over_steps([[0.1] * 5, [0.2] * 5, [0.5, 0.4, 0.3, 0.2, 0.1]], "previous")
    rows = rows_of(table)
    assert {row["series"] for row in rows if row["low"] is not None} == {"H0", "H1", "H2"}
    low, _ = read_intervals(table, "previous")
    assert {row["low"] for row in rows if row["low"] is not None} == set(low[10:13]) | set(low[5:8]) | set(
        low[:3]
    )
