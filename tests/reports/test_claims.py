"""What sentences claim of a table is true of its numbers: random tables, read back sentence by sentence."""

import re

import numpy as np
import pytest
from printed import shown

from attnprobe.table.head_table import HeadTable
from attnprobe.table.table import Column

NUMBER = r"(-?[\d.]+(?:e[+-]\d+)?)"


def drawn(seed):
    """Draw a table of heads: some with outliers, gaps or wide errors, tiny or huge."""
    draw = np.random.default_rng(seed)
    layers, heads = int(draw.integers(1, 5)), int(draw.integers(2, 9))
    size = layers * heads
    values = draw.normal(draw.uniform(-2, 5), 0.3, size) * 10.0 ** draw.integers(-9, 5)
    for place in draw.integers(0, size, int(draw.integers(0, 4))):
        values[place] *= draw.choice([-6, 4, 9])
    if seed % 4 == 0:
        values = np.abs(values)
    if seed % 5 == 0:
        values[draw.integers(0, size, 2)] = np.nan
    if seed % 7 == 0:
        values[:] = values[0]
    errors = np.abs(values) * draw.choice([0.001, 0.02, 0.3], size)
    layer, head = np.divmod(np.arange(size), heads)
    columns = [Column("model", role="key"), Column("layer", role="key"), Column("head", role="key")]
    columns += [Column("x", "nats", headline=True), Column("x_se", "nats", "error")]
    cells = [["m"] * size, layer.tolist(), head.tolist(), values.tolist(), errors.tolist()]
    names = [column.name for column in columns]
    return (
        HeadTable("t", columns, dict(zip(names, cells, strict=True))),
        values.reshape(layers, heads),
    )


@pytest.mark.parametrize("seed", range(0, 120, 5))
def test_a_caption_is_true_of_its_grid(seed):
    table, grid = drawn(seed)
    if not np.isfinite(grid).any():
        return
    text = " ".join(shown(table, 400))
    ends = re.search(rf"lowest {NUMBER} at L(\d+) H(\d+).*? to highest {NUMBER} at L(\d+) H(\d+)", text)
    if ends is None:
        assert np.ptp(grid[np.isfinite(grid)]) == 0
        assert ("heads that have one" in text) == bool(np.isnan(grid).any())
        return
    low, at_low, high, at_high = ends[1], (int(ends[2]), int(ends[3])), ends[4], (int(ends[5]), int(ends[6]))
    assert grid[at_low] == np.nanmin(grid)
    assert grid[at_high] == np.nanmax(grid)
    assert float(low) == pytest.approx(np.nanmin(grid), rel=0.006)
    assert float(high) == pytest.approx(np.nanmax(grid), rel=0.006)


def test_a_tiny_p_is_said_as_small_and_not_in_eleven_digits(heads):
    table = heads(2, 2, p_adjusted=np.array([1.702e-8, 0.5, 0.25, 1.0]))
    columns = [Column("layer", role="key"), Column("head", role="key"), Column("p", "probability")]
    data = {"layer": table.data["layer"], "head": table.data["head"], "p": table.data["p_adjusted"]}
    text = " ".join(shown(HeadTable("t", columns, data)))
    assert "lowest < 0.001 at L0 H0 to highest 1 at L1 H1" in text
