"""What a chart says of itself is true of its table."""

import pytest

from attnprobe.reports.dossier.charts import curve
from attnprobe.table.head_table import HeadTable
from attnprobe.table.table import Column


def pruned(*rows):
    names = ("model", "criterion", "seed", "step", "share_removed", "metric", "score")
    columns = [Column(name, role="measure" if name == "score" else "key") for name in names]
    cells = [("m", criterion, None, step, share, "accuracy", 1 - share) for criterion, step, share in rows]
    return HeadTable("pruning", columns, dict(zip(names, map(list, zip(*cells, strict=True)), strict=True)))


ALL, HALF = ((0, 0.0), (1, 0.5), (2, 1.0)), ((0, 0.0), (1, 0.5))


@pytest.mark.parametrize(
    ("criterion", "steps", "said"),
    [
        ("gradient", ALL, "the least important first, until none is left."),
        ("gradient", HALF, "while heads are removed, the least important first."),
        ("random", ALL, "in random order, until none is left."),
        ("random", HALF, "while heads are removed, in random order."),
    ],
)
def test_a_curve_says_in_what_order_and_how_far(criterion, steps, said):
    chart = curve(pruned(*((criterion, *step) for step in steps)))
    assert chart.said.startswith("The accuracy while heads are removed, ")
    assert chart.said.endswith(said)
