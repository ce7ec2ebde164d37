"""Tables in a notebook: what is written is what the table holds, rounded by its errors, and nothing more."""

import re
from html import unescape
from html.parser import HTMLParser

import numpy as np
import pytest

from attnprobe.table.head_table import HeadTable
from attnprobe.table.notebook import MOST_ROWS
from attnprobe.table.table import Column


class Reader(HTMLParser):
    """Reads the cells of a table, row by row, and refuses what is not closed."""

    def __init__(self, page):
        super().__init__()
        self.rows, self.open = [], []
        self.feed(page)
        assert not self.open

    def handle_starttag(self, tag, attrs):
        if tag != "br":
            self.open.append(tag)
        if tag == "tr":
            self.rows.append([])
        if tag in {"td", "th"}:
            self.rows[-1].append("")

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if {"td", "th"} & set(self.open):
            self.rows[-1][-1] += data


def of_heads(values, errors, **more):
    rows = len(values)
    columns = [Column(name, role="key") for name in ("model", "layer", "head")]
    columns += [Column("n", role="count"), Column("x", "nats"), Column("x_se", "nats", role="error")]
    columns += [Column(f"x_half_{half}", "nats", role="half") for half in "ab"]
    data = {"model": ["m"] * rows, "layer": [0] * rows, "head": list(range(rows)), "n": [7] * rows}
    data |= {"x": list(values), "x_se": list(errors), "x_half_a": [1.0] * rows, "x_half_b": [1.0] * rows}
    return HeadTable("x of heads", columns, data, **more)


def test_numbers_are_rounded_to_two_digits_of_their_errors():
    table = of_heads([0.87654, 12.345, np.nan, 0.5], [0.0123, 1.26, np.nan, np.nan])
    header, *rows = Reader(table._repr_html_()).rows
    assert header == ["layer", "head", "n", "x (nats)"]
    assert [row[-1] for row in rows] == ["0.877 ± 0.012", "12.3 ± 1.3", "·", "0.500"]
    assert [row[:3] for row in rows] == [["0", str(head), "7"] for head in range(4)]


def test_an_error_without_its_measure_and_a_table_without_rows():
    columns = [Column("layer", role="key"), Column("x_se", role="error")]
    table = HeadTable("t", columns, {"layer": [0], "x_se": [0.01234]})
    assert Reader(table._repr_html_()).rows == [["layer", "x_se"], ["0", "0.012"]]
    empty = HeadTable("t", columns, {"layer": [], "x_se": []})
    assert Reader(empty._repr_html_()).rows == [["layer", "x_se"]]


def test_what_is_the_same_in_all_rows_stands_above_and_notes_below():
    page = of_heads([1.0, 2.0], [0.1, 0.1], notes=["It falls.", "Layer < 3."])._repr_html_()
    assert page.index("model m") < page.index("<table") < page.index("It falls.")
    assert "<li>Layer &lt; 3.</li>" in page
    two = HeadTable("t", [Column("model", role="key"), Column("x")], {"model": ["a", "b"], "x": [1.0, 2.0]})
    assert Reader(two._repr_html_()).rows[1:] == [["a", "1.00"], ["b", "2.00"]]


def test_of_a_long_table_both_ends_are_shown():
    values = np.arange(384.0)
    page = of_heads(values, np.full(384, 0.01))._repr_html_()
    rows = Reader(page).rows[1:]
    assert len(rows) == MOST_ROWS + 1
    assert [rows[0][1], rows[-1][1]] == ["0", "383"]
    assert set(rows[MOST_ROWS // 2]) == {"..."}
    assert "384 rows" in page
    assert len(page) < 10_000


@pytest.mark.parametrize("where", ["title", "notes", "cell", "unit"])
def test_a_hostile_word_is_only_a_word(where):
    evil = "</td><script>alert(1)</script>\u202e"
    said = {one: evil if one == where else "good" for one in ("title", "notes", "cell", "unit")}
    column = Column("label", said["unit"], role="text")
    page = HeadTable(said["title"], [column], {"label": [said["cell"]]}, [said["notes"]])._repr_html_()
    assert "<script" not in page
    assert "\u202e" not in page
    assert "</td><script>alert(1)</script>" in unescape(page)
    assert not re.search(r"/(home|tmp|work)/", page)
