"""What sentences claim of a table is true of its numbers: random tables, read back sentence by sentence."""

import re

import numpy as np
import pytest
from printed import shown

from attnprobe.reports.report_page.measures import collect_heads, collect_measures
from attnprobe.reports.report_page.text import describe_outliers, explain_no_outliers
from attnprobe.table.head_table import HeadTable
from attnprobe.table.table import Column

HEAD = re.compile(r"[Hh]ead (\d+) of layer (\d+) \(([^)]+)\)")
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
        errors,
    )


def fenced(values, errors):
    """Compute the outliers anew: heads whose 95 % interval, for all heads together, is beyond the fence."""
    from scipy.stats import norm

    known = values[np.isfinite(values)]
    if len(known) < 8:
        return set()
    z = norm.ppf(1 - 0.05 / 2 / len(known))
    first, third = np.percentile(known, [25, 75])
    far = 3 * (third - first)
    out = (values - z * errors > third + far) | (values + z * errors < first - far)
    return {int(place) for place in np.flatnonzero(out)}


@pytest.mark.parametrize("seed", range(120))
def test_a_caption_is_true_of_its_grid(seed):
    table, grid, errors = drawn(seed)
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
    found = fenced(grid.ravel(), errors)
    assert ("No head is an outlier." in text) == (not found and np.isfinite(grid).sum() >= 8)
    check_outliers(text, grid, found)


def check_outliers(text, grid, found):
    named, total = set(), 0
    for sentence in re.findall(r"Head \d+ of layer .*? outliers? in x.*?\.(?= |$)", text):
        heads = HEAD.findall(sentence)
        for head, layer, value in heads:
            assert float(value) == pytest.approx(grid[int(layer), int(head)], rel=0.006)
            named.add(int(layer) * grid.shape[1] + int(head))
        more = re.search(r"and (\d+) more", sentence)
        total += len(heads) + (int(more[1]) if more else 0)
        limit = re.search(rf"no other head is (above|below) {NUMBER}\.", sentence)
        if limit is not None:
            others = [
                one for place, one in enumerate(grid.ravel()) if place not in found and np.isfinite(one)
            ]
            side, number = limit[1], float(limit[2])
            assert max(others) <= number if side == "above" else min(others) >= number
    assert total == len(found)
    assert named <= found


@pytest.mark.parametrize("seed", range(120))
def test_findings_of_a_report_are_true_of_their_tables(seed):
    table, grid, errors = drawn(seed)
    tables = {"census": table}
    heads = collect_heads(tables)
    measures = collect_measures(heads, tables)
    found = fenced(grid.ravel(), errors)
    said = describe_outliers(heads, measures)
    total = 0
    for one in said:
        values = [grid.ravel()[head["head"]] for head in one["heads"]]
        assert {head["head"] for head in one["heads"]} <= found
        total += len(values) + int((re.search(r"\d+", one["more"]) or [0])[0])
        middle = np.nanmedian(grid)
        assert all((value > middle) == (one["side"] == "high") for value in values)
        limit = re.search(r"no other head is (above|below) (.+)\.$", one["rest"])
        if limit is not None:
            number = as_number(limit[2])
            others = [other for place, other in enumerate(grid.ravel()) if place not in found]
            beyond = np.nanmax(others) if limit[1] == "above" else np.nanmin(others)
            assert (beyond <= number) if limit[1] == "above" else (beyond >= number)
    assert total == len(found)
    assert explain_no_outliers(measures) or not measures
    if np.isfinite(grid).sum() < 8 and measures:
        assert "there are fewer here" in explain_no_outliers(measures)


def as_number(said):
    mantissa, _, power = said.partition(" \u00d7 10")
    raised = str.maketrans(
        "\u207b\u2070\u00b9\u00b2\u00b3\u2074\u2075\u2076\u2077\u2078\u2079", "-0123456789"
    )
    return float(f"{mantissa}e{power.translate(raised)}" if power else mantissa)


def test_a_tiny_p_is_said_as_small_and_not_in_eleven_digits(heads):
    table = heads(2, 2, p_adjusted=np.array([1.702e-8, 0.5, 0.25, 1.0]))
    columns = [Column("layer", role="key"), Column("head", role="key"), Column("p", "probability")]
    data = {"layer": table.data["layer"], "head": table.data["head"], "p": table.data["p_adjusted"]}
    text = " ".join(shown(HeadTable("t", columns, data)))
    assert "lowest < 0.001 at L0 H0 to highest 1 at L1 H1" in text
