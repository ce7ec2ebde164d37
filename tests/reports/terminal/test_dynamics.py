"""Steps of training on a terminal: heads as lines in a grid, curves and orders a line a step."""

import io
import re

import numpy as np
import pytest
from rich.cells import cell_len
from rich.console import Console

from attnprobe.findings.dynamics import stack_steps
from attnprobe.findings.settling import tabulate_orders
from attnprobe.reports.terminal.curves import SparkScale
from attnprobe.reports.terminal.show import show
from attnprobe.table.head_table import HeadTable
from attnprobe.table.table import Column


def shown(table, width=100, encoding="utf-8", precision=None, full=False, **options):
    raw = io.BytesIO()
    file = io.TextIOWrapper(raw, encoding=encoding, newline="\n")
    options = {"color_system": None, "force_terminal": False, "no_color": True} | options
    console = Console(file=file, width=width, highlight=False, legacy_windows=False, **options)
    show(table, console, precision, full)
    file.flush()
    lines = raw.getvalue().decode(encoding).splitlines()
    assert all(cell_len(re.sub(r"\x1b\[[\d;]*m", "", line)) <= width for line in lines)
    return lines


def keyed(names, data, **more):
    columns = [Column(name, role="key") for name in names]
    return columns, {**{name: data[name] for name in names}, **more}


def heads(values, heads_a_layer=2, kinds=None, measures=("x",)):
    """Make a table of heads."""
    rows = len(values)
    data = {"model": ["m[CLS]"] * rows, "dataset": ["d"] * rows, "attention": kinds}
    data |= {"layer": [row // heads_a_layer for row in range(rows)]}
    data |= {"head": [row % heads_a_layer for row in range(rows)]}
    names = ["model", "dataset", *(["attention"] if kinds else []), "layer", "head"]
    columns, cells = keyed(names, data)
    columns += [Column(name, "nats", headline=name == "x") for name in measures]
    return HeadTable("x of heads", columns, cells | {name: list(values) for name in measures})


def run(*values, **more):
    return stack_steps([(100 * place, heads(one, **more)) for place, one in enumerate(values)], {})


def rows_of(lines):
    return [line.split() for line in lines if re.match(r"L\d", line)]


def test_a_line_a_head():
    lines = shown(run([0.0, 7, 3, 3], [7, 0, 3.5, float("nan")], [1, 6, 4, 7]))
    assert rows_of(lines) == [["L0", "▁█▂", "█▁▇"], ["L1", "▄▅▅", "▄·█"]]
    text = "\n".join(lines)
    assert "steps 0, 100, 200" in text
    assert "x, nats: ▁ 0 to █ 7" in text
    assert lines[0] == "x of heads at 3 steps of training"


def test_without_unicode():
    lines = shown(run([0.0, 7, 3, 3], [7, 0, 3.5, float("nan")]), encoding="ascii")
    assert rows_of(lines) == [["L0", "18", "81"], ["L1", "45", "4-"]]
    assert "1 0 to 8 7" in "\n".join(lines)


def test_colours_are_those_of_the_scale():
    options = {"color_system": "truecolor", "force_terminal": True, "no_color": False}
    (line, *_) = [line for line in shown(run([0.0, 1], [1, 0]), **options) if "L0" in line]
    assert len(set(re.findall(r"38;2;[\d;]+", line))) == 2


def test_many_steps_are_thinned_out_with_both_ends():
    values = np.random.default_rng(0).random((30, 4))
    values[0], values[-1] = [0, 0, 0, 0], [1, 1, 1, 1]
    lines = shown(run(*values))
    assert all(
        len(cell) == 12 and cell[0] == "▁" and cell[-1] == "█" for row in rows_of(lines) for cell in row[1:]
    )
    assert "12 of 30 steps 0, " in "\n".join(lines)
    assert any(line.endswith(", 2900") for line in lines)


@pytest.mark.parametrize("width", [20, 40, 80])
def test_wide_layers_come_in_pieces(width):
    lines = shown(run(*np.random.default_rng(0).random((5, 32)), heads_a_layer=16), width=width)
    found = rows_of(lines)
    assert sum(len(row) - 1 for row in found if row[0] == "L0") == 16
    assert sum(len(row) - 1 for row in found if row[0] == "L1") == 16


def test_kinds_of_attention_have_grids_of_their_own():
    lines = shown(run([1.0, 2, 3, 4], [4, 3, 2, 1], kinds=["encoder"] * 2 + ["cross"] * 2))
    text = "\n".join(lines)
    assert "x, nats, encoder: ▁ 1 to █ 4" in text
    assert "x, nats, cross: ▁ 1 to █ 4" in text


def test_of_many_measures_the_headlines_are_drawn():
    text = "\n".join(shown(run([1.0, 2], [2, 1], measures=("x", "y", "z", "v", "w"))))
    assert "4 more columns (y, z, v, w); -o heads.csv writes them all" in text


def test_constant_and_undefined_measures():
    assert "the same throughout: 3" in "\n".join(shown(run([3.0, 3], [3, 3])))
    assert "undefined throughout" in "\n".join(shown(run([float("nan")] * 2, [float("nan")] * 2)))


def test_infinities_lie_at_the_ends():
    console = Console(file=io.StringIO(), color_system=None, width=80)
    values = np.array([-np.inf, 0.0, 1.0, np.inf, -1e308, 1e308])
    assert SparkScale.of(values).draw(values, console).plain in {"▁▄▄█▁█", "▁▅▅█▁█"}


def curve(scores, random=()):
    """Make a table of pruning curves."""
    orders = [("gradient", None, scores), *(("random", seed, one) for seed, one in enumerate(random))]
    rows = [(name, seed, step, score) for name, seed, one in orders for step, score in enumerate(one)]
    names = ["model", "dataset", "criterion", "seed", "step"]
    cells = [["m"] * len(rows), ["d"] * len(rows), *([row[at] for row in rows] for at in (0, 1, 2))]
    columns, data = keyed(names, dict(zip(names, cells, strict=True)))
    columns += [Column("share_removed", role="key"), Column("score", "share", headline=True)]
    data |= {"share_removed": [row[2] / (len(scores) - 1) for row in rows], "score": [row[3] for row in rows]}
    return HeadTable("score while heads are removed", columns, data, ["It falls."])


def test_a_curve_a_step():
    table = stack_steps(
        [
            (5, curve([0.7, 0.5, 0.0], [[0.7, 0.1, 0], [0.7, 0.3, 0]])),
            (10, curve([0.6, 0.6, 0.1], [[0.6, 0, 0.1]] * 2)),
        ],
        {},
    )
    assert "pruning_step" in table.data
    lines = shown(table)
    found = [line.split() for line in lines if re.match(r"\s*\d", line)]
    assert found == [["5", "0.7", "█▆▁", "0.5", "█▃▁"], ["10", "0.6", "▇▇▂", "0.6", "▇▁▂"]]
    assert "Step 10: It falls." in "\n".join(lines)


def test_an_order_a_step():
    steps = [(0, heads([4.0, 3, 2, 1])), (50, heads([1, 2, 4, 3])), (100, heads([1, 2, 3, 4]))]
    lines = shown(tabulate_orders(steps, {}))
    found = [re.split(r"\s+", line.strip())[:4] for line in lines if re.match(r"\s*\d+ +-?\d", line)]
    assert found == [
        ["0", "-1.00", "·", "-1.00"],
        ["50", "0.80", "-0.80", "0.67"],
        ["100", "1.00", "0.80", "1.00"],
    ]
    assert sum("●" in line for line in lines) == 4  # a legend, and a line a step
    assert "x, 4 heads" in "\n".join(lines)
    assert not any("●" in line for line in shown(tabulate_orders(steps, {}), width=50)[4:])


@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
def test_of_many_orders_each_has_a_line(encoding):
    steps = [(step, heads([1.0, 2, 3, step], measures=tuple("abcdef"))) for step in (0, 2, 4, 5)]
    table = tabulate_orders(steps, {})
    lines = shown(table, width=80, encoding=encoding)
    top = next(place for place, line in enumerate(lines) if line.split()[:2] == ["measure", "heads"])
    found = [line.split() for line in lines[top + 1 : top + 7]]
    assert [line[:2] for line in found] == [[name, "4"] for name in "abcdef"]
    low, high = ("▁", "█") if encoding == "utf-8" else ("1", "8")
    for _, _, first, last, previous in found:
        # The heads 1, 2, 3, 0 and 1, 2, 3, 5 in order: 3 of 4 ranks are one further.
        assert float(first) == round(table["spearman_last"][0], 2) == -0.2
        assert (last[0], last[2:]) == (low, 2 * high)
        assert len(previous) == 4
        assert previous[0] == ("·" if encoding == "utf-8" else "-")
    assert len(lines) < 24


def test_full_gives_orders_a_line_a_step():
    steps = [(step, heads([1.0, 2, 3, step], measures=tuple("abcdef"))) for step in range(50)]
    lines = shown(tabulate_orders(steps, {}), width=80, full=True)
    assert sum("●" in line for line in lines) == 1 + 6 * 50
    assert not any("more steps" in line for line in lines)
