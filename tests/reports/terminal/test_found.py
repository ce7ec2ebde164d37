"""The best head for each label on a terminal: as many links as each direction has, and stars."""

import dataclasses
import io
import re

import pytest
from rich.cells import cell_len
from rich.console import Console

import attnprobe
from attnprobe.reports.terminal.show import show


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
