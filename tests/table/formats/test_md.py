import re

import numpy as np
import pytest

from attnprobe.table.formats.md import escape
from attnprobe.table.table import Column, HeadTable


def test_the_whole_of_it():
    columns = [Column("model", role="key"), Column("n", role="count"), Column("js_distance", "nats")]
    data = {"model": ["[CLS]", None], "n": [1, 2], "js_distance": [-0.25, np.nan]}
    assert HeadTable("Title", columns, data, notes=["A note."]).render("md").decode() == (
        "### Title\n"
        "\n"
        "| model | n | js_distance |\n"
        "| --- | ---: | ---: |\n"
        "| \\[CLS\\] | 1 | -0.250 |\n"
        "|  | 2 |  |\n"
        "\n"
        "- A note.\n"
    )


def test_hostile_strings_can_neither_end_a_cell_nor_start_anything(hostile):
    text = hostile.render("md").decode()
    lines = [line for line in text.splitlines() if line.startswith("|")]
    assert len(lines) == len(hostile) + 2
    for line in lines:
        assert len(re.findall(r"(?<!\\)\|", line)) == 3
    assert "<script" not in text
    assert "\x1b" not in text
    assert r"a\|b\`c\`&lt;script&gt;" in text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a\\|b", "a\\\\\\|b"),
        ("![x](http://evil)", "!\\[x\\](http://evil)"),
        ("_emphasis_ but snake_case", "\\_emphasis\\_ but snake_case"),
        ("&lt;", "&amp;lt;"),
    ],
)
def test_escape(text, expected):
    assert escape(text) == expected
