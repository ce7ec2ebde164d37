"""Lists on a terminal: the best head for each label."""

import dataclasses
import io
import re

import pytest
from rich.cells import cell_len
from rich.console import Console

import attnprobe
from attnprobe.reports.terminal.show import show
from attnprobe.table.head_table import read_head_table


def shown(table, width=100):
    file = io.StringIO()
    show(table, Console(file=file, width=width, color_system=None, highlight=False), None)
    return file.getvalue()


def lines_of(text, label):
    return [line for line in text.splitlines() if line.startswith(f"{label} ")]


def test_a_star_where_nobody_is_asked_the_other_way_round():
    table = attnprobe.coreference("demo", min_links=1)
    sure = [0.0 if kind == "pronoun" else 1.0 for kind in table.data["mention"]]
    text = shown(dataclasses.replace(table, data={**table.data, "p_adjusted": sure}))
    assert [line.endswith("*") for line in lines_of(text, "pronoun")] == [True]
    assert not any(line.endswith("*") for line in lines_of(text, "feminine"))


@pytest.mark.parametrize("width", [120, 50])
def test_links_of_each_direction(tiny, width):
    """A decoder is asked where the answer comes before: the one direction has other links than the other."""
    body, tokenizer = tiny("gpt2")
    table = attnprobe.syntax(body, tokenizer=tokenizer, limit=60, min_links=1)
    text, expected = shown(table, width), {}
    for label, n in zip(table.data["relation"], table.data["n"], strict=True):
        expected.setdefault(label, []).append(int(n))
    assert len({*expected["nsubj"]}) == len(expected["nsubj"]) == 2
    assert len(expected["advcl"]) >= 1
    for label in ("all", "nsubj"):
        found = [int(n) for line in lines_of(text, label) for n in re.findall(r"(?<= )(\d+) +\d+-\d+ ", line)]
        assert found == expected[label]
    if width == 50:  # one below the other: no line without a number
        assert all(re.search(r"\d", line) for label in expected for line in lines_of(text, label))


def test_long_labels_are_cut_by_their_width():
    links = [{"source": [0, 3], "target": [4, 7], "label": "猫" * 30}]
    table = attnprobe.links("demo", [{"text": "the dog ran", "links": links}] * 4, min_links=1)
    (line, _) = [line for line in shown(table, 60).splitlines() if line.startswith("猫")]
    assert line.startswith(f"{'猫' * 11}. ") or line.startswith(f"{'猫' * 11} . ")
    assert all(cell_len(line) <= 60 for line in shown(table, 60).splitlines())


def drawn(made, width=80, **options):
    out = io.StringIO()
    show(made, Console(file=out, width=width, **options))
    return out.getvalue()


def aligned(**more):
    pairs = [("the dog ran home", "a cat"), ("who rang", "she did it"), ("it was late", "so it was")] * 4
    lines = ["0-0 2p1", "0-0 1-1", "0-1 1-2 2p0"] * 4
    return attnprobe.links("demo", pairs, alignments=lines, metric="aer", **more)


def test_alignments_have_a_line_each():
    """Apart for each direction and weighting, with their error rates, and a star where it is sure."""
    table = aligned(weights="both")
    text = shown(dataclasses.replace(table, data={**table.data, "p_adjusted": [0.01] + [1.0] * 3}), 80)
    heads = ["attention, target to source", "attention, source to target"]
    heads += ["norm, target to source", "norm, source to target"]
    assert [line for line in text.splitlines() if line in heads] == heads
    assert max(map(cell_len, text.splitlines())) <= 80
    rows = [line.split() for line in text.splitlines() if line.startswith(" head ")]
    assert len(rows) == 4
    assert [row[-1] == "*" for row in rows] == [True] + [False] * 3
    for row, rate, layer, head in zip(rows, *(table.data[n] for n in ("aer", "layer", "head")), strict=True):
        assert row[1] == f"{layer}-{head}"
        assert float(row[2]) == pytest.approx(rate, abs=5e-3)
    assert f"{table.data['n'][0]} pairs of texts" in " ".join(text.split())


def test_a_picture_of_alignments(tmp_path):
    table = aligned()
    assert table.kind == "alignments"
    table.save(tmp_path / "found.csv")
    (tmp_path / "found.csv.json").unlink()
    assert read_head_table(tmp_path / "found.csv").kind == "alignments"
    drawn = table.plot().rendered("svg").decode()
    for word in ("alignment error rate", "head, target to source", "head, source to target"):
        assert word in drawn
