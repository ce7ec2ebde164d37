import json
import re

import numpy as np
import pytest
from printed import shown
from rich.cells import cell_len

from attnprobe.reports.shapes import lay_out_pruning
from attnprobe.reports.terminal.console import ASCII_SIGNS, Signs
from attnprobe.reports.terminal.curves import Strip
from attnprobe.table.formats import csv as csv_format
from attnprobe.table.formats import json as json_format
from attnprobe.table.head_table import HeadTable
from attnprobe.table.table import Column

FALLING = [0.9, 0.85, 0.8, 0.7, 0.5]
RANDOM = {42: [0.9, 0.7, 0.65, 0.6, 0.5], 43: [0.9, 0.8, 0.75, 0.6, 0.5]}
STEP = re.compile(r"\s*\d+ %")


def _curves(criteria, random, error=0.0123, share_role="measure", **more):
    """Make a table of pruning curves: the score at each step, of criteria and of random seeds."""
    orders = [(name, None, scores) for name, scores in criteria.items()]
    orders += [("random", seed, scores) for seed, scores in random.items()]
    rows = [(name, seed, step, score) for name, seed, scores in orders for step, score in enumerate(scores)]
    last = max(row[2] for row in rows)
    columns = [Column(name, role="key") for name in ("model", "dataset", "criterion", "seed", "step")]
    columns += [
        Column("heads_removed", role="count"),
        Column("share_removed", "share", share_role),
        Column("metric", role="key"),
        Column("n", role="count"),
        Column("score", "share", headline=True),
        Column("score_se", "share", "error"),
    ]
    data = {
        "model": ["demo"] * len(rows),
        "dataset": ["shipped"] * len(rows),
        "criterion": [row[0] for row in rows],
        "seed": [row[1] for row in rows],
        "step": [row[2] for row in rows],
        "heads_removed": [round(16 * row[2] / last) for row in rows],
        "share_removed": [row[2] / last for row in rows],
        "metric": ["accuracy"] * len(rows),
        "n": [872] * len(rows),
        "score": [row[3] for row in rows],
        "score_se": [error] * len(rows),
    }
    for name, cells in more.items():
        columns.append(Column(name, role="key" if isinstance(cells[0], str) else "measure"))
        data[name] = cells
    return HeadTable("Pruning", columns, data, notes=["Half of it is gone after 80 %."])


def _steps(lines):
    return [line for line in lines if STEP.match(line)]


def _figures(line):
    """Give the cells before the plot."""
    return re.split(r"\s{2,}", re.split("[●○─]", line)[0].strip())


@pytest.mark.parametrize("share_role", ["measure", "key"])
def test_a_line_a_step_with_every_number(share_role):
    lines = shown(_curves({"gradient": FALLING}, RANDOM, share_role=share_role))
    assert [_figures(line) for line in _steps(lines)] == [
        ["0 %", "0", "0.900 ± 0.012", "0.900", "0.900", "0.900"],
        ["25 %", "4", "0.850 ± 0.012", "0.750", "0.700", "0.800"],
        ["50 %", "8", "0.800 ± 0.012", "0.700", "0.650", "0.750"],
        ["75 %", "12", "0.700 ± 0.012", "0.600", "0.600", "0.600"],
        ["100 %", "16", "0.500 ± 0.012", "0.500", "0.500", "0.500"],
    ]
    text = "\n".join(lines)
    assert "model demo · dataset shipped · metric accuracy" in text
    assert "gradient, score (share), n 872" in lines
    assert "● score ± standard error · ○ mean of 2 random orders · ─ lowest to highest" in lines
    assert ["removed", "heads", "score", "mean", "lowest", "highest", "0.500", "0.900"] in [
        line.split() for line in lines
    ]
    assert "• Half of it is gone after 80 %." in lines
    assert "more column" not in text


def test_marks_lie_where_their_scores_are_on_the_common_scale():
    lines = shown(_curves({"gradient": FALLING}, RANDOM), 120)
    header = next(line for line in lines if line.startswith("removed"))
    first, last = header.index("0.500"), header.rindex("0.900") + 4
    assert last - first == 39  # forty characters at most

    def scale(score):
        return first + round((score - 0.5) / 0.4 * 39)

    for line, score, (low, high) in zip(
        _steps(lines), FALLING, zip(*RANDOM.values(), strict=True), strict=True
    ):
        assert line.index("●") == scale(score)
        if score in {0.9, 0.5}:  # the same for all: the criterion's mark is on top
            assert "○" not in line
        else:
            assert line.index("○") == scale((low + high) / 2)
        if low < high:
            band = [i for i, sign in enumerate(line) if sign in "─○"]
            assert (band[0], band[-1]) == (scale(low), scale(high))
        else:
            assert "─" not in line


@pytest.mark.parametrize("width", [20, 30, 40, 50, *range(56, 84), 100, 200])
def test_no_number_is_lost_at_any_width(width):
    lines = shown(_curves({"gradient": FALLING}, RANDOM), width)
    text = " ".join(" ".join(lines).split())
    for number in ("0.850 ± 0.012", "0.750", "0.700", "0.800", "25 %"):
        assert number in text
    if width < 70:
        assert not set("●○─") & set(text)
    if width >= 80:
        assert set("●○─") <= set(text)


def test_a_narrow_console_gets_a_few_short_lines_a_step():
    lines = shown(_curves({"gradient": FALLING}, RANDOM), 40)
    start = lines.index("removed 25 %, heads 4")
    assert lines[start + 1 : start + 3] == ["  score 0.850 ± 0.012", "  random 0.750 (0.700 to 0.800)"]
    assert "mean of 2 random orders (lowest to highest)" in " ".join(" ".join(lines).split())


@pytest.mark.parametrize("width", [40, 80, 120])
def test_other_encodings_get_ascii(width):
    lines = shown(_curves({"gradient": FALLING}, RANDOM), width, encoding="ascii")
    assert "?" not in "\n".join(lines)
    assert "0.850 +/- 0.012" in "\n".join(lines)
    if width == 120:
        assert "# score +/- standard error, o mean of 2 random orders, - lowest to highest" in lines
        assert re.search(r"-+o-+ +#$", _steps(lines)[1].rstrip())


def test_colour_only_where_there_is_some(monkeypatch):
    table = _curves({"gradient": FALLING}, RANDOM)
    coloured = "\n".join(shown(table, color_system="truecolor", force_terminal=True, no_color=False))
    assert "\x1b[1;36m●" in coloured
    plain = "\n".join(shown(table, color_system="truecolor", force_terminal=True))
    assert "36m" not in plain
    assert "●" in plain
    monkeypatch.setenv("TERM", "dumb")
    dumb = "\n".join(shown(table, color_system="auto", force_terminal=True, no_color=None))
    assert "\x1b" not in dumb
    assert "●" in dumb


def test_no_random_orders():
    lines = shown(_curves({"gradient": FALLING}, {}))
    assert [_figures(line)[2] for line in _steps(lines)][1] == "0.850 ± 0.012"
    assert "● score ± standard error" in lines
    assert "random" not in "\n".join(lines)
    assert "○" not in "\n".join(lines)


def test_one_random_order_has_no_range():
    lines = shown(_curves({"gradient": FALLING}, {42: RANDOM[42]}))
    assert _figures(_steps(lines)[1]) == ["25 %", "4", "0.850 ± 0.012", "0.700"]
    assert "● score ± standard error · ○ one random order" in lines
    assert "lowest" not in "\n".join(lines)


def test_random_orders_alone():
    lines = shown(_curves({}, RANDOM))
    assert "random orders, score (share), n 872" in lines
    assert _figures(_steps(lines)[1]) == ["25 %", "4", "0.7500", "0.7000", "0.8000"]
    assert "●" not in "\n".join(lines)


def test_criteria_get_a_block_each_on_one_scale():
    table = _curves({"gradient": FALLING, "heads.csv:entropy": [0.9, 0.4, 0.3, 0.2, 0.1]}, RANDOM)
    lines = shown(table)
    assert "gradient, score (share), n 872" in lines
    assert "heads.csv:entropy, score (share), n 872" in lines
    axes = [line.split()[-2:] for line in lines if line.startswith("removed")]
    assert axes == [["0.100", "0.900"]] * 2
    assert len(_steps(lines)) == 10


def test_stacked_models_are_told_apart_and_have_their_own_scale():
    table = _curves({"gradient": FALLING}, {})
    data = {name: [*cells, *cells] for name, cells in table.data.items()}
    data["model"] = ["a"] * 5 + ["b"] * 5
    data["score"] = [*FALLING, *(score / 2 for score in FALLING)]
    lines = shown(HeadTable("t", table.columns, data))
    assert "gradient, a, score (share), n 872" in lines
    assert "gradient, b, score (share), n 872" in lines
    axes = [line.split()[-2:] for line in lines if line.startswith("removed")]
    assert axes == [["0.500", "0.900"], ["0.250", "0.450"]]


@pytest.mark.parametrize("width", [40, 80, 120])
def test_undefined_scores(width):
    nan = np.nan
    random = {42: [0.9, nan, nan, 0.6, 0.5], 43: [0.9, 0.8, nan, 0.6, 0.5]}
    lines = shown(_curves({"gradient": [0.9, nan, 0.8, nan, 0.5]}, random), width)
    text = " ".join(" ".join(lines).split())
    assert "nan" not in text
    assert "random orders without a score at a step are left out of its mean" in text
    if width == 120:
        assert _figures(_steps(lines)[1]) == ["25 %", "4", "·", "0.800", "0.800", "0.800"]
        assert _figures(_steps(lines)[2]) == ["50 %", "8", "0.800 ± 0.012", "·", "·", "·"]


@pytest.mark.parametrize("score", [np.nan, 0.5, 0.0, np.inf, 1e300, -1e300])
@pytest.mark.parametrize("error", [np.nan, 0.0])
@pytest.mark.parametrize("width", [40, 100])
def test_curves_without_any_extent(score, error, width):
    lines = shown(_curves({"gradient": [score] * 3}, {1: [score] * 3, 2: [score] * 3}, error=error), width)
    assert "nan" not in "\n".join(lines)
    if score == 0.5 and width == 100:
        columns = {line.index("●") for line in _steps(lines)}
        assert len(columns) == 1
    if not np.isfinite(score):
        assert "●" not in "\n".join(lines)


def test_infinities_and_opposite_extremes_neither_fail_nor_warn():
    random = {1: [np.inf, -np.inf, 1.7e308, 0.0], 2: [-np.inf, np.inf, 1.7e308, np.nan]}
    lines = shown(_curves({"gradient": [1.7e308, -1.7e308, np.inf, 0.0]}, random, error=np.nan), 120)
    assert [line.split("%")[0].strip() for line in lines if "%" in line][:4] == [
        "0.0",
        "33.3",
        "66.7",
        "100.0",
    ]


def test_hostile_criteria_and_labels(hostile):
    names = hostile.data["check"]
    table = _curves(dict.fromkeys(names, FALLING), RANDOM)
    for options in ({"width": 40}, {"color_system": "truecolor", "force_terminal": True, "no_color": False}):
        text = "\n".join(shown(table, **options))
        assert "[red]x[/red]" in text
        assert "\x1b[31m" not in text
        assert "\u202e" not in text
        assert "two lines" in text


def test_a_long_criterion_folds_and_loses_nothing():
    lines = shown(_curves({"q" * 300: FALLING}, RANDOM), 80)
    assert "".join(lines).count("q") == 300


def test_many_steps_are_thinned_out_but_keep_both_ends():
    lines = shown(_curves({"gradient": np.linspace(0.9, 0.1, 145)}, {1: np.linspace(0.9, 0.1, 145)}))
    found = [line.split("%")[0].strip() for line in lines if re.match(r"\s*[\d.]+ %", line)]
    assert len(found) == 40
    assert (found[0], found[1], found[-1]) == ("0.0", "2.8", "100.0")
    assert "… 105 more steps; -o heads.csv writes them all" in lines


def test_explicit_precision():
    lines = shown(_curves({"gradient": [0.91234, 0.512345]}, {}), precision=2)
    assert _figures(_steps(lines)[0])[2] == "0.91 ± 0.012"


def test_further_measures_are_named():
    table = _curves({"gradient": FALLING}, {}, loss=[0.1] * 5)
    assert "1 more column (loss); -o heads.csv writes them all" in shown(table)


def test_steps_have_their_number_where_the_table_says_no_more():
    columns = [Column(name, role="key") for name in ("criterion", "seed", "step")] + [Column("score")]
    data = {"criterion": ["a"] * 2, "seed": [None] * 2, "step": [1, 0], "score": [0.25, 0.75]}
    lines = shown(HeadTable("t", columns, data))
    assert [line.split()[:2] for line in lines if "●" in line][1:] == [["0", "0.7500"], ["1", "0.2500"]]


@pytest.mark.parametrize(
    "change",
    [
        {"step": [0, 0, 1, 2, 3]},
        {"step": ["a", "b", "c", "d", "e"]},
        {"seed": [1, 2, 3, 4, 5]},
        {"score": ["a", "b", "c", "d", "e"]},
        {"model": ["a", "b", "c", "d", "e"]},
    ],
)
def test_rows_that_are_no_curve_are_listed(change):
    table = _curves({"gradient": FALLING}, {})
    other = HeadTable("t", table.columns, {**table.data, **change})
    assert lay_out_pruning(other) == []
    assert "●" not in "\n".join(shown(other))


def test_tables_without_the_columns_or_without_rows_are_no_curves(heads):
    table = _curves({"gradient": FALLING}, {})
    assert lay_out_pruning(heads(2, 2, score=np.ones(4))) == []
    empty = HeadTable("t", table.columns, {name: [] for name in table.data})
    assert lay_out_pruning(empty) == []
    assert "no rows" in shown(empty)


@pytest.mark.parametrize("signs", [Signs(), ASCII_SIGNS])
def test_a_strip_is_as_wide_as_it_says(signs):
    strip = Strip(0.0, 1.0, 21, signs)
    drawn = strip.draw(1.0, np.array([0.0, 0.5]), 0.25)
    assert drawn.plain == (signs.line * 5 + signs.other + signs.line * 5).ljust(20) + signs.mark
    assert cell_len(strip.axis("0.0", "1.0").plain) == 21
    assert strip.axis("0" * 11, "1" * 11).plain == ""


def _halves():
    columns = [Column(name, role="key") for name in ("layer", "head")]
    columns += [Column("importance", "nats"), Column("importance_se", "nats", "error")]
    columns += [Column(f"importance_{half}", "nats", "half") for half in ("half_a", "half_b")]
    data = {"layer": [0, 0], "head": [0, 1], "importance": [0.25, 0.75], "importance_se": [0.1, 0.1]}
    return HeadTable("t", columns, data | {"importance_half_a": [0.2, 0.7], "importance_half_b": [0.3, 0.8]})


def test_halves_are_neither_drawn_nor_named():
    text = "\n".join(shown(_halves()))
    assert "importance, nats" in text
    assert "half" not in text


def test_halves_are_not_listed_beside_their_measure_but_are_on_their_own():
    table = _halves()
    data = {**table.data, "head": [0, 0]}  # no grid, so a list
    text = "\n".join(shown(HeadTable("t", table.columns, data)))
    assert "0.25 ± 0.10" in text
    assert "half" not in text
    del data["importance"]
    columns = [column for column in table.columns if column.name != "importance"]
    assert "importance_half_b" in "\n".join(shown(HeadTable("t", columns, data)))


def test_halves_are_numbers_in_files_and_say_what_they_are():
    found = json.loads(json_format.render(_halves()))
    assert found["columns"][-1] == {"name": "importance_half_b", "unit": "nats", "role": "half"}
    assert found["rows"][0]["importance_half_b"] == 0.3
    assert csv_format.render(_halves()).splitlines()[1] == "0,0,0.25,0.1,0.2,0.3"
