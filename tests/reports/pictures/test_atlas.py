"""The head atlas: what is drawn are the numbers of the table, each at its place."""

import numpy as np
import picture_tables as tables
import pytest

from attnprobe.reports.charts.draw import draw_picture
from attnprobe.reports.profile import read_profile
from attnprobe.table.naming import list_offsets


def rows_with(table, *names):
    spec = draw_picture([table], "atlas").spec
    return [row for rows in spec["datasets"].values() for row in rows if set(names) <= row.keys()]


@pytest.mark.parametrize("causal", [False, True])
def test_bars_are_the_square_roots_of_the_numbers(causal):
    table = tables.profiles(causal=causal)
    offsets, top = range(-10, 1 if causal else 11), read_profile(table).top
    rows = rows_with(table, "corner")
    for row in range(len(table)):
        values = [table.data[f"profile_{offset}"][row] for offset in offsets]
        corners = [one for one in rows if one["row"] == row]
        base = corners[0]["y"]
        bars = sorted({(one["x"], base - one["y"]) for one in corners if one["y"] < base})
        # The first token stands before the offsets, and what lies further away.
        heights = np.array([height for _, height in bars])[2 : 2 + len(values)]
        expected = np.sqrt(np.array(values) / top)
        np.testing.assert_allclose(heights / heights.max(), expected / expected.max(), atol=0.002)


def test_squares_of_an_image_are_where_the_patches_are():
    table = tables.profiles(1, 1, patches=True, roles=False)
    for name, _ in list_offsets(patches=True):
        table.data[f"profile_{name}"][:] = [0.0]
    table.data["profile_-3_2"][:] = [1.0]
    (square,) = [one for one in rows_with(table, "shade") if one["kind"] == "patch"]
    frame, *_ = [one for one in rows_with(table, "x", "x2") if one.keys() == {"x", "x2", "y", "y2"}]
    edge, high = square["x2"] - square["x"], square["y2"] - square["y"]
    assert square["x"] - frame["x"] == pytest.approx(2 * edge, abs=1e-3)
    assert square["y"] - frame["y"] == pytest.approx(-3 * high, abs=1e-3)
    assert square["shade"] == 1
