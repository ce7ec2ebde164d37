"""Steps on a terminal: scores while heads are removed, and heads over training."""

import re

import pytest
from printed import shown

from attnprobe.findings.dynamics import stack_steps
from attnprobe.table.head_table import HeadTable
from attnprobe.table.table import Column

FALLING = [0.9, 0.85, 0.8, 0.7, 0.5]
RANDOM = {42: [0.9, 0.7, 0.65, 0.6, 0.5], 43: [0.9, 0.8, 0.75, 0.6, 0.5]}


def pruned(criteria, random, error=0.0123):
    """Make a table of pruning curves: the score at each step, of criteria and of random seeds."""
    orders = [(name, None, scores) for name, scores in criteria.items()]
    orders += [("random", seed, scores) for seed, scores in random.items()]
    rows = [(name, seed, step, score) for name, seed, scores in orders for step, score in enumerate(scores)]
    last = max(row[2] for row in rows)
    columns = [Column(name, role="key") for name in ("model", "dataset", "criterion", "seed", "step")]
    columns += [Column("heads_removed", role="count"), Column("share_removed", "share", "key")]
    columns += [Column("n", role="count"), Column("score", "share", headline=True)]
    columns += [Column("score_se", "share", "error")]
    data = {
        "model": ["demo"] * len(rows),
        "dataset": ["shipped"] * len(rows),
        "criterion": [row[0] for row in rows],
        "seed": [row[1] for row in rows],
        "step": [row[2] for row in rows],
        "heads_removed": [round(16 * row[2] / last) for row in rows],
        "share_removed": [row[2] / last for row in rows],
        "n": [872] * len(rows),
        "score": [row[3] for row in rows],
        "score_se": [error] * len(rows),
    }
    return HeadTable("Pruning", columns, data)


def cells(lines):
    return [re.split(r"\s{2,}", line.strip()) for line in lines if re.match(r"\s*[\d.]+ %", line)]


def test_a_line_a_step_with_every_number():
    lines = shown(pruned({"gradient": FALLING}, RANDOM))
    assert cells(lines) == [
        ["0 %", "0", "0.900 \u00b1 0.012", "0.900", "0.900", "0.900"],
        ["25 %", "4", "0.850 \u00b1 0.012", "0.750", "0.700", "0.800"],
        ["50 %", "8", "0.800 \u00b1 0.012", "0.700", "0.650", "0.750"],
        ["75 %", "12", "0.700 \u00b1 0.012", "0.600", "0.600", "0.600"],
        ["100 %", "16", "0.500 \u00b1 0.012", "0.500", "0.500", "0.500"],
    ]
    assert "gradient, score (share), n 872, beside 2 random orders" in lines


def test_hostile_criteria(hostile):
    table = pruned(dict.fromkeys(hostile.data["check"], FALLING), RANDOM)
    text = "\n".join(shown(table, color_system="truecolor", force_terminal=True, no_color=False))
    assert "[red]x[/red]" in text
    assert "\x1b[31m" not in text
    assert "\u202e" not in text


def heads(values, heads_a_layer=2, measures=("x",)):
    """Make a table of heads."""
    rows = len(values)
    data = {"model": ["m[CLS]"] * rows, "dataset": ["d"] * rows}
    data |= {"layer": [row // heads_a_layer for row in range(rows)]}
    data |= {"head": [row % heads_a_layer for row in range(rows)]}
    columns = [Column(name, role="key") for name in data]
    columns += [Column(name, "nats", headline=name == "x") for name in measures]
    return HeadTable("x of heads", columns, data | {name: list(values) for name in measures})


def run(*values, **more):
    return stack_steps([(100 * place, heads(one, **more)) for place, one in enumerate(values)], {})


@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
def test_a_line_a_head_the_most_changed_first(encoding):
    lines = shown(run([0.0, 7, 3, 3], [7, 0, 3.5, float("nan")], [1, 6, 4, 7]), encoding=encoding)
    found = [line.split() for line in lines if re.match(r"L\d", line)]
    assert [line[:2] for line in found] == [["L0", "H0"], ["L0", "H1"], ["L1", "H1"], ["L1", "H0"]]
    drawn = ["\u2581\u2588\u2582", "\u2588\u2581\u2587", "\u2584\u00b7\u2588", "\u2584\u2585\u2585"]
    plain = ["182", "817", "4-8", "455"]
    assert [line[2] for line in found] == (drawn if encoding == "utf-8" else plain)
    assert found[0][3:] == ["0", "to", "1"]
    text = "\n".join(lines)
    assert "steps 0, 100, 200" in text


def test_a_curve_a_step_of_training():
    curves = [(5, pruned({"gradient": [0.7, 0.5, 0.0]}, {1: [0.7, 0.1, 0]}))]
    curves.append((10, pruned({"gradient": [0.6, 0.6, 0.1]}, {1: [0.6, 0, 0.1]})))
    lines = shown(stack_steps(curves, {}))
    found = [line.split() for line in lines if line.startswith("step ")]
    assert [line[1:4] for line in found] == [
        ["5", "\u2588\u2586\u2581", "0.7"],
        ["10", "\u2587\u2587\u2582", "0.6"],
    ]
    assert [line[4] for line in found] == ["\u2588\u2582\u2581", "\u2587\u2581\u2582"]
