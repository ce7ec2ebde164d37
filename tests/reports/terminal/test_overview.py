"""What takes more than a screen, at a glance: maps whose every colour is read back, and lists of heads."""

import re

import numpy as np
import pytest
from printed import shown
from rich.cells import cell_len

import attnprobe
from attnprobe.findings.dynamics import stack_steps
from attnprobe.reports.theme import SEQUENTIAL
from attnprobe.table.head_table import HeadTable
from attnprobe.table.table import Column

COLOURS = {"color_system": "truecolor", "force_terminal": True, "no_color": False}
STOPS = np.array([tuple(bytes.fromhex(colour[1:])) for colour in SEQUENTIAL], float)


def of_heads(layers, heads, notes=(), **measures):
    rows = layers * heads
    columns = [Column(name, role="key") for name in ("layer", "head")]
    data = {"layer": [row // heads for row in range(rows)], "head": [row % heads for row in range(rows)]}
    roles = {name: "error" if name.endswith("_se") else "measure" for name in measures}
    columns += [Column(name, "share", role=role) for name, role in roles.items()]
    return HeadTable("t", columns, data | {name: list(values) for name, values in measures.items()}, notes)


def plain(line):
    return re.sub(r"\x1b\[[\d;]*m", "", line)


def read_cells(line):
    """Read the sign, the ink and the ground of each character off a line with its escape codes."""
    cells, ink, ground = [], None, None
    for codes, sign in re.findall(r"\x1b\[([\d;]*)m|(.)", line):
        if sign:
            cells.append((sign, ink, ground))
            continue
        assert not cells or codes.split(";")[0] != "1"  # terminals may draw bold signs brighter
        ink = ground = None
        for which, colour in re.findall(r"([34])8;2;(\d+;\d+;\d+)", codes):
            rgb = tuple(map(int, colour.split(";")))
            ink, ground = (rgb, ground) if which == "3" else (ink, rgb)
    return cells


def read_map(lines, layers, heads, wide):
    """Read the colours (layer, head) off the first map, None where there is none."""
    found = {}
    for line in lines:
        if (label := re.match(r"L(\d+) ", plain(line))) is None:
            continue
        above, cells = int(label[1]), read_cells(line)[len(f"L{layers - 1}") + 1 :]
        cells += [(" ", None, None)] * (heads * wide - len(cells))
        for head in range(heads):
            same = {cells[head * wide + place] for place in range(wide)}
            assert len(same) == 1
            ((sign, ink, ground),) = same
            pair = {"▀": (ink, ground), "▄": (ground, ink), " ": (None, None)}[sign]
            found |= {(above + below, head): colour for below, colour in enumerate(pair)}
    return found


@pytest.mark.parametrize(("layers", "heads"), [(24, 16), (25, 13), (32, 32), (30, 2)])
def test_every_head_has_its_colour_of_the_pictures(layers, heads):
    values = np.random.default_rng(0).random(layers * heads)
    values[0], values[1], values[-1] = 1.0, np.nan, 0.0
    lines = shown(of_heads(layers, heads, x=values), 80, **COLOURS)
    found = read_map(lines, layers, heads, 2)
    for place, value in enumerate(values):
        colour = found.get(divmod(place, heads))
        if np.isnan(value):
            assert colour is None
            continue
        expected = [np.interp(value * (len(STOPS) - 1), range(len(STOPS)), channel) for channel in STOPS.T]
        np.testing.assert_allclose(colour, expected, atol=0.51)
    assert len(lines) <= 25


def test_a_census_of_24_by_16_fits_and_full_gives_every_number():
    rng = np.random.default_rng(0)
    measures = {name: rng.random(384) for name in ("a", "b", "c", "d")}
    measures |= {f"{name}_se": np.full(384, 0.01) for name in measures}
    table = of_heads(24, 16, ["A note of more than eighty letters, " + "word " * 20 + "end."], **measures)
    lines = shown(table, 80, **COLOURS)
    assert len(lines) <= 48
    assert sum("▀" in line for line in lines) == 24  # two rows of maps, two layers a line
    whole = shown(table, 80, full=True, **COLOURS)
    assert len(whole) > 200
    assert not any("▀" in line for line in whole)
    assert "end." in "".join(map(plain, whole))
    notes = [plain(line) for line in lines if plain(line).startswith("•")]
    assert len(notes) == 1
    assert notes[0].endswith("word …")
    assert cell_len(notes[0]) <= 80


@pytest.mark.parametrize(
    ("layers", "heads", "options"),
    [(6, 12, COLOURS), (12, 12, COLOURS), (24, 16, {}), (24, 16, {**COLOURS, "encoding": "ascii"}),
     (24, 16, {**COLOURS, "color_system": "standard"}), (24, 16, {**COLOURS, "no_color": True}),
     (24, 16, {**COLOURS, "width": 18})],
)  # fmt: skip
def test_small_tables_and_plain_terminals_have_numbers(layers, heads, options):
    values = np.linspace(0.1, 0.9, layers * heads)
    options = {"width": 80, **options}
    lines = [plain(line) for line in shown(of_heads(layers, heads, x=values), **options)]
    assert not any("▀" in line for line in lines)
    numbers = [word for line in lines if re.match(r"L0\s", line) for word in line.split()[1:]]
    assert len(numbers) == heads + 1  # and the mean


def test_a_line_names_the_highest_and_the_lowest():
    values = np.linspace(0.1, 0.2, 384)
    values[5 * 16 + 3], values[7 * 16 + 1] = 0.9, 0.8
    table = of_heads(24, 16, x=values, x_se=np.full(384, 0.002))
    text = [plain(line) for line in shown(table, 100, **COLOURS)]
    (line,) = [line for line in text if line.startswith("x, share")]
    assert line.split(None, 2)[2] == ("0.9 L5 H3, 0.8 L7 H1, 0.2 L23 H15; lowest 0.1 L0 H0; ± 0.002")
    narrow = [plain(line) for line in shown(table, 55, **COLOURS)]
    (line,) = [line for line in narrow if line.startswith("x, share")]
    assert line.split(None, 2)[2] == "0.9 L5 H3; lowest 0.1 L0 H0; ± 0.002"


def test_effects_that_are_not_significant_have_no_colour():
    values = np.where(np.arange(384) % 2, 0.5, -0.001)
    columns = {"score_delta": values, "score_delta_se": np.full(384, 0.01)}
    lines = shown(of_heads(24, 16, **columns), 80, **COLOURS)
    found = read_map(lines, 24, 16, 2)
    assert {colour is None for (_, head), colour in found.items() if head % 2 == 0} == {True}
    assert {colour is None for (_, head), colour in found.items() if head % 2} == {False}


def test_undefined_measures_and_kinds_of_attention():
    one = of_heads(24, 16, x=np.linspace(0, 1, 384), y=np.full(384, np.nan))
    kinds = [Column("attention", role="key"), *one.columns]
    data = {"attention": ["encoder"] * 384 + ["cross"] * 384}
    data |= {name: [*cells, *cells] for name, cells in one.data.items()}
    text = [plain(line) for line in shown(HeadTable("t", kinds, data), 80, **COLOURS)]
    assert {"encoder", "cross"} <= set(text)
    assert sum(line.startswith("y: undefined") for line in text) == 2


def test_of_many_heads_those_that_change_most_are_listed():
    rng = np.random.default_rng(0)
    steps = rng.random((5, 384)) * 0.01
    steps[:, 40], steps[:, 100] = np.linspace(0, 1, 5), np.linspace(1, 0.5, 5)
    steps[:, 200] = 3.0  # high throughout, but the same
    table = stack_steps([(10 * place, of_heads(24, 16, x=values)) for place, values in enumerate(steps)], {})
    text = [plain(line) for line in shown(table, 80, **COLOURS)]
    top = next(place for place, line in enumerate(text) if line.split() == ["head", "first", "last", "steps"])
    first, second = (line.split() for line in text[top + 1 : top + 3])
    assert (first[:4], first[4][0], first[4][-1]) == (["L2", "H8", "0", "1"], "▁", "▃")
    assert (second[:4], second[4][0]) == (["L6", "H4", "1", "0.5"], "▃")
    (middle,) = [line.split() for line in text if line.startswith("median")]
    assert float(middle[1]) == pytest.approx(np.median(steps[0]), rel=1e-2)
    listed = [line for line in text if re.match(r"L\d+ H\d+ ", line)]
    assert f"… {384 - len(listed)} more heads change less" in text
    assert len(text) < 32
    whole = [plain(line) for line in shown(table, 80, full=True, **COLOURS)]
    assert sum(len(line.split()) - 1 for line in whole if re.match(r"L\d+\s", line)) == 384


def test_a_census_shows_the_special_token_that_matters():
    """Attention to [CLS] stands beside that to separators, and what a model lacks is left out."""
    made = attnprobe.census("demo", limit=2)
    lines = {plain(line).split(",")[0] for line in shown(made, 200)}
    assert {"first", "separator"} <= lines
    without = HeadTable(made.title, made.columns, {**made.data, "separator": [np.nan] * 24})
    lines = {plain(line).split(",")[0] for line in shown(without, 200)}
    assert "first" in lines
    assert "separator" not in lines


def test_mean_attention_is_named_as_such():
    """Attention to the previous token and the share of queries that look most at it are two measures."""
    columns = {one.name: one for one in attnprobe.positional("demo", limit=2).columns}
    assert columns["previous"].title == "mean attention to the previous token"
    assert columns["previous"].unit == columns["next"].unit == "share"
    assert columns["offset_share"].title.startswith("queries that look most")
    assert columns["offset_share"].unit.startswith("share of queries")
