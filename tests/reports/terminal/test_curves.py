"""Heads over training on a terminal."""

import re

import pytest
from printed import shown

from attnprobe.findings.dynamics import stack_steps
from attnprobe.table.head_table import HeadTable
from attnprobe.table.table import Column


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
