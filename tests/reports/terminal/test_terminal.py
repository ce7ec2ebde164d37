import re
from dataclasses import replace

import numpy as np
import picture_tables as tables
import pytest
from printed import shown

from attnprobe.reports.terminal.console import choose_text_colour, find_colour
from attnprobe.reports.theme import compute_luminance as luminance_of
from attnprobe.table.head_table import HeadTable
from attnprobe.table.table import Column

NUMBER = re.compile(r"(?<![\w.])-?\d+\.\d+(?:e-?\d+)?(?![\w.])")


def luminance(rgb):
    return luminance_of("#" + bytes(rgb).hex())


def _grid_numbers(lines, layer):
    found = []
    for line in lines:
        if re.match(rf"L{layer}\s", line):
            found += [float(number) for number in NUMBER.findall(line)]
    return found


@pytest.mark.parametrize("width", [40, 80, 200])
@pytest.mark.parametrize(("layers", "per_layer"), [(4, 4), (12, 12), (24, 16), (2, 17)])
def test_every_number_is_there_in_place_at_every_width(heads, width, layers, per_layer):
    values = np.random.default_rng(0).permutation(layers * per_layer) / 1000 + 0.1
    grid = values.reshape(layers, per_layer)
    lines = shown(heads(layers, per_layer, entropy=values), width, precision=3)
    for layer in range(layers):
        expected = [*grid[layer], grid[layer].mean()]
        np.testing.assert_allclose(_grid_numbers(lines, layer), expected, atol=5.01e-4)


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
        found = [
            float(part) * unit
            for line in lines
            if re.match(rf"L{layer}\s", line)
            for part in line.split()[1:]
        ]
        expected = [*grid[layer], grid[layer].mean()]
        np.testing.assert_allclose(found, expected, atol=abs(scale) * 0.0102)


def test_where_numbers_have_no_room_heads_are_blocks(heads):
    """Two layers a line, each head in the colour that its number would have."""
    table = heads(4, 16, entropy=np.linspace(0.0, 1.0, 64))
    options = {"color_system": "truecolor", "force_terminal": True, "no_color": False}
    lines = [line for line in shown(table, 60, **options) if re.match(r"\x1b\[1mL\d", line)]
    assert len(lines) == 2
    assert [line.count("\u2580") for line in lines] == [16, 16]
    assert "38;2;68;1;84;" in lines[0]  # the lowest, above
    assert "48;2;253;231;37m" in lines[1]  # the highest, below
    full = "\n".join(shown(table, 60, full=True, **options))
    assert "\u2580" not in full


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


def test_the_caption_says_where_how_sure_and_over_how_much(heads):
    text = "\n".join(shown(heads(2, 2, entropy=np.array([0.5, 2.25, -1.0, 1.0]))))
    assert "entropy, nats" in text
    assert "lowest -1 at L1 H0 to highest 2.25 at L0 H1" in text
    assert "typical standard error 0.013 · 128 sequences" in text
    assert "model demo · dataset shipped" in text
    assert "• Entropy falls with depth." in text


def test_undefined_heads_and_undefined_measures(heads):
    some = np.array([0.25, np.nan, 0.5, 0.75])
    lines = shown(heads(2, 2, entropy=some, separator=np.full(4, np.nan)))
    assert "separator: undefined for this model" in lines
    assert any(line.split() == ["L0", "0.250", "·", "0.250"] for line in lines)
    assert "1 head undefined (·)" in "\n".join(lines)
    assert "nan" not in "\n".join(lines)


def test_many_measures_show_the_headlines_and_say_so(heads):
    values = {name: np.linspace(0, 1, 4) for name in "abcdef"}
    text = "\n".join(shown(heads(2, 2, headlines=("b", "e"), **values)))
    assert re.findall(r"^(\w), nats", text, re.M) == ["b", "e"]
    assert "4 more columns (a, c, d, f); -o heads.csv writes them all" in text
    many = {f"column_{number}": values["a"] for number in range(20)}
    text = " ".join(shown(heads(2, 2, headlines=("b",), b=values["b"], **many)))
    assert "20 more columns (column_0, column_1," in text
    assert "column_11, ...); -o heads.csv writes them all" in text
    assert "column_12" not in text
    everything = "\n".join(shown(heads(2, 2, **{name: values[name] for name in "abcd"})))
    assert re.findall(r"^(\w), nats", everything, re.M) == ["a", "b", "c", "d"]
    assert "more column" not in everything


def test_rows_that_are_not_one_head_each_are_listed():
    columns = [Column("layer", role="key"), Column("head", role="key"), Column("x")]
    data = {"layer": [0, 0], "head": [0, 0], "x": [0.25, 0.75]}
    lines = [line.split() for line in shown(HeadTable("t", columns, data))]
    assert ["0", "0", "0.25"] in lines
    assert ["0", "0", "0.75"] in lines


def test_colour_only_where_there_is_some(heads):
    table = heads(2, 2, entropy=np.array([0.0, 0.25, 0.5, 1.0]))
    coloured = "\n".join(shown(table, color_system="truecolor", force_terminal=True, no_color=False))
    assert "48;2;68;1;84" in coloured  # the lowest: the dark end of viridis
    assert "48;2;253;231;37" in coloured
    assert "colours from 0 " in coloured
    assert coloured.rstrip().partition("colours from 0 ")[2].count("█") == 12
    for options in (
        {"color_system": "truecolor", "no_color": True},
        {"color_system": "standard", "no_color": False},
    ):
        plain = "\n".join(shown(table, force_terminal=True, **options))
        assert "48;2" not in plain
        assert "38;2" not in plain
        assert "colours" not in plain


def test_effects_within_their_errors_have_no_colour(heads):
    values = np.array([0.5, -0.5, 0.01, -0.01])
    table = heads(2, 2, delta=values)  # with errors of about 0.013
    lines = shown(table, color_system="truecolor", force_terminal=True, no_color=False)
    found = "".join(line for line in lines if re.match(r"\x1b\[1mL\d", line))
    first, second = re.findall(r"48;2;(\d+);(\d+);(\d+)m", found)
    assert int(first[0]) > int(first[2])  # orange above 0
    assert int(second[0]) < int(second[2])  # blue below
    assert any("colours from -0.5" in line and "none: not " in line for line in lines)


@pytest.mark.parametrize("share", np.linspace(-0.5, 1.5, 41))
def test_every_figure_is_readable_on_its_colour(share):
    background = find_colour(share)
    bright, dark = sorted([luminance(background), luminance(choose_text_colour(background))], reverse=True)
    assert (bright + 0.05) / (dark + 0.05) > 4.5  # WCAG AA


def test_hostile_strings_are_printed_as_they_are(hostile):
    text = "\n".join(shown(hostile, force_terminal=True, color_system="truecolor", no_color=False))
    assert "[red]x[/red]" in text
    assert "• [CLS]  stays" in text
    assert "\x1b[2J" not in text
    assert "\x1b[31m" not in text
    assert "\u202e" not in text


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


def _pairs(rows):
    keys = ["layer_a", "head_a", "layer_b", "head_b"]
    columns = [
        *(Column(name, role="key") for name in keys),
        Column("jsd", "nats"),
        Column("jsd_se", "nats", "error"),
    ]
    data = {name: np.arange(rows) for name in keys}
    return HeadTable(
        "Pairs", columns, data | {"jsd": np.linspace(0.1, 0.6, rows), "jsd_se": np.full(rows, 0.0123)}
    )


def test_a_list_merges_errors_and_says_how_many_rows_are_left():
    lines = shown(_pairs(60), 80)
    found = [line for line in lines if "±" in line]
    assert len(found) == 40
    assert found[0].split() == ["0", "0", "0", "0", "0.100", "±", "0.012"]
    assert "… 20 more rows; -o heads.csv writes them all" in lines
    assert "jsd_se" not in "\n".join(lines)
    assert "more rows" not in "\n".join(shown(_pairs(40), 80))


@pytest.mark.parametrize("width", [40, 80, 200])
def test_long_text_folds_and_loses_nothing(width):
    path = "/a/very/long/path/" + "x" * 300
    columns = [Column(name, role="key") for name in ("check", "status", "detail")]
    data = {"check": ["weights", "tokens"], "status": ["ok", "failed"], "detail": [path, "fine"]}
    lines = shown(HeadTable("Doctor", columns, data), width)
    assert "".join(lines).count("x") == 300
    assert "…" not in "".join(lines)


def test_an_empty_table_says_so():
    assert "no rows" in shown(HeadTable("t", [Column("x")], {"x": []}))


def test_columns_without_room_are_named(heads):
    values = {f"some_long_name_{number}": [0.1234 + number] for number in range(9)}
    lines = shown(HeadTable("t", [Column(name) for name in values], values), 40)
    assert any(line.split() == ["0.1234", "1.123"] for line in lines)
    assert "no room for some_long_name_2" in " ".join(lines)


@pytest.mark.parametrize("width", [60, 100])
def test_a_star_where_heads_find_significantly_more(width):
    table = tables.found(3, 4)
    p = [0.001 if row == 1 else 0.5 for row in range(len(table))]
    lines = shown(replace(table, data={**table.data, "p_adjusted": p}), width)
    rows = [line for line in lines if re.search(r"\d-\d", line)]
    assert [line.rstrip().endswith("*") for line in rows] == [place == 1 for place in range(len(rows))]


def test_pairs_of_heads_have_a_line_each():
    out = shown(tables.interactions(), width=80)
    lines = [line for line in out if " + " in line]
    assert [line.split()[:3] for line in lines] == [
        ["0-0", "+", "1-1"],
        ["0-1", "+", "1-0"],
        ["1-0", "+", "2-3"],
    ]
    assert [line.rstrip().endswith("*") for line in lines] == [True, True, False]
    assert "+0.400" in lines[0]
    assert "0.003" in lines[0]


def test_probes_have_a_line_each():
    table = tables.NATURAL["probes"][0]()
    out = shown(replace(table, data={**table.data, "p_adjusted": [0.001] * len(table)}), width=100)
    (row,) = [line.split() for line in out if line.split()[:1] == ["det"]]
    assert row[:4] == ["det", "0.80", "\u00b1", "0.02"]
    assert row[-1] == "*"
