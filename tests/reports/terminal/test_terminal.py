"""What a terminal shows of a table: every number in its place, whatever the width, colours and encoding."""

import re

import numpy as np
import pytest
from printed import shown

from attnprobe.table.table import Column, HeadTable


def read_layer(lines, layer):
    """Read the numbers of a layer, over all pieces of a map."""
    parts = [line.split()[1:] for line in lines if re.match(rf"L{layer}\s", line)]
    return [float(part) for piece in parts for part in piece]


@pytest.mark.parametrize("width", [40, 80, 200])
@pytest.mark.parametrize(("layers", "per_layer"), [(4, 4), (12, 12), (24, 16), (2, 17)])
def test_every_number_is_there_in_place_at_every_width(heads, width, layers, per_layer):
    values = np.random.default_rng(0).permutation(layers * per_layer) / 1000 + 0.1
    grid = values.reshape(layers, per_layer)
    lines = shown(heads(layers, per_layer, entropy=values), width, precision=3)
    for layer in range(layers):
        expected = [*grid[layer], grid[layer].mean()]
        np.testing.assert_allclose(read_layer(lines, layer), expected, atol=5.01e-4)


@pytest.mark.parametrize("width", [40, 80, 200])
@pytest.mark.parametrize("scale", [3.2, 0.9, 2e-5, -0.9, 5000, 3e7])
def test_figures_are_true_to_two_digits_of_the_largest(heads, width, scale):
    values = np.random.default_rng(1).random(144) * scale
    lines = shown(heads(12, 12, entropy=values), width)
    in_units = next(
        (re.search(r"1e-?\d+", line) for line in lines if line.startswith("entropy, in 1e")), None
    )
    unit = float(in_units.group()) if in_units else 1.0
    grid = values.reshape(12, 12)
    for layer in range(12):
        printed = np.array(read_layer(lines, layer)) * unit
        expected = [*grid[layer], grid[layer].mean()]
        np.testing.assert_allclose(printed, expected, atol=abs(scale) * 0.0102)


def test_rows_in_any_order_and_pruned_heads_find_their_place():
    columns = [Column("layer", role="key"), Column("head", role="key"), Column("x")]
    data = {"layer": [1, 0, 1], "head": [2, 0, 0], "x": [0.25, 0.5, 0.75]}
    lines = shown(HeadTable("t", columns, data))
    top = next(i for i, line in enumerate(lines) if "H0" in line)
    header, first, second = lines[top : top + 3]
    assert header.split() == ["H0", "H2", "mean"]
    assert first.split() == ["L0", "0.500", "0.500"]
    assert second.split() == ["L1", "0.750", "0.250", "0.500"]
    assert "undefined" not in "".join(lines)


def test_undefined_heads_and_undefined_measures(heads):
    values = np.array([0.25, np.nan, 0.5, 0.75])
    lines = shown(heads(2, 2, entropy=values, separator=np.full(4, np.nan)))
    assert any(line.split() == ["L0", "0.250", "·", "0.250"] for line in lines)
    assert "1 head undefined (·)" in "\n".join(lines)
    assert "nan" not in "\n".join(lines)


def test_other_encodings_get_ascii(heads, hostile):
    values = np.array([0.5, np.nan, 1.0, 2.0])
    text = "\n".join(shown(heads(2, 2, entropy=values), encoding="ascii"))
    assert "1 head undefined (-)" in text
    pairs = HeadTable(
        "t",
        [Column("pair", role="key"), Column("x"), Column("x_se", role="error")],
        {"pair": ["a"], "x": [0.5], "x_se": [0.1]},
    )
    assert "0.50 +/- 0.10" in "\n".join(shown(pairs, encoding="ascii"))


def test_effects_with_p_values_have_a_line(heads):
    """How many are significant by adjusted p, and the strongest of those, whatever is larger."""
    columns = [Column("layer", role="key"), Column("head", role="key"), Column("delta")]
    columns += [Column("delta_se", role="error"), Column("p_adjusted", "probability")]
    deltas = [0.1, -0.3, 0.2, 0.5]
    cells = [[0, 0, 1, 1], [0, 1, 0, 1], deltas, [0.02] * 4, [0.001, 0.01, 0.02, 0.2]]
    data = {column.name: values for column, values in zip(columns, cells, strict=True)}
    lines = shown(HeadTable("t", columns, data), 120)
    assert (
        "\u2022 delta: 3 of 4 significant; strongest L0 H1, -0.300 \u00b1 0.020 (adjusted p < 0.05)" in lines
    )
    assert not any("significant;" in line for line in shown(heads(2, 2, entropy=np.array(deltas))))


def test_rows_are_the_columns_that_a_reader_needs():
    """Errors stand beside their measure, decimals agree, and what is the same throughout stands above."""
    keys = ["model", "dataset", "relation", "direction"]
    columns = [Column(name, role="key") for name in keys]
    columns += [Column(name, role="count") for name in ("n", "layer", "head")]
    columns += [Column("accuracy"), Column("accuracy_se", role="error"), Column("baseline")]
    columns += [Column("baseline_rule", role="text"), Column("gain"), Column("gain_se", role="error")]
    columns += [Column("p_adjusted", "probability"), Column("accuracy_far")]
    data = {
        "model": ["m", "m"], "dataset": ["d", "d"], "relation": ["det", "obj"],
        "direction": ["dependent_to_head"] * 2, "n": [40, 30], "layer": [1, 0], "head": [2, 1],
        "accuracy": [0.5, 0.25], "accuracy_se": [0.012, 0.1], "baseline": [0.25, 0.125],
        "baseline_rule": ["offset -1", "nearest"], "gain": [0.25, 0.1], "gain_se": [0.02, 0.02],
        "p_adjusted": [1e-9, 0.4], "accuracy_far": [0.1, 0.1],
    }  # fmt: skip
    lines = shown(HeadTable("t", columns, data), 120)
    assert "model m \u00b7 dataset d \u00b7 direction dependent_to_head" in lines
    printed, other, _ = (re.split(r"\s{2,}", line.strip()) for line in lines if " L" in line)
    assert printed[1:] == [
        "L1 H2",
        "0.500 ± 0.012",
        "0.250",
        "offset -1",
        "0.250 ± 0.020",
        "< 0.001",
        "40",
        "*",
    ]
    assert other[1:] == ["L0 H1", "0.250 ± 0.100", "0.125", "nearest", "0.100 ± 0.020", "0.400", "30"]
    assert not any("accuracy far" in line for line in lines)
