"""What a chart says of itself is true of its table."""

import re

import pytest

from attnprobe.reports.report_page.charts import draw_curve
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
    chart = draw_curve(pruned(*((criterion, *step) for step in steps)))
    assert chart.label.startswith("The accuracy while heads are removed, ")
    assert chart.label.endswith(said)


@pytest.mark.parametrize("scores", [(0.0, 1.0), (0.503, 0.871), (-7.3, 41.9)])
def test_ticks_are_round_numbers_inside_the_drawing(scores):
    low, high = scores
    table = pruned(("gradient", 0, 0.0), ("gradient", 1, 1.0))
    chart = draw_curve(HeadTable("pruning", table.columns, {**table.data, "score": [high, low]}))
    top, bottom = (float(place.split()[1]) for place in re.split("[ML]", chart.lines[0].path)[1:])
    assert len(chart.y) > 2
    for tick in chart.y:
        share = (float(tick.label) - low) / (high - low)
        assert -0.05 < share < 1.05
        assert tick.place == pytest.approx(bottom + share * (top - bottom), abs=0.1)


def test_text_of_the_page_can_be_read():
    """By WCAG 2, text has a contrast of 4.5 with the page and with a section, in every scheme."""
    from attnprobe.reports.page import read_asset
    from attnprobe.reports.theme import compute_luminance

    def contrast(one, other):
        low, high = sorted((compute_luminance(one), compute_luminance(other)))
        return (high + 0.05) / (low + 0.05)

    schemes = re.findall(r":root \{[^}]+\}", read_asset("report.css"))
    assert len(schemes) == 3
    for scheme in schemes:
        colours = dict(re.findall(r"--(\w+): (#[0-9a-f]{6})", scheme))
        for ink in ("ink", "pale", "accent", "mark"):
            for ground in ("paper", "panel"):
                assert contrast(colours[ink], colours[ground]) > 4.5, (ink, ground, scheme[:40])
