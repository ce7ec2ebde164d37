"""Tables in a notebook: what is written is what the table holds, rounded by its errors, and nothing more."""

import re
from html import unescape

import numpy as np
import pytest

from attnprobe.table.table import Column, HeadTable


def of_heads(values, errors, **more):
    rows = len(values)
    columns = [Column(name, role="key") for name in ("model", "layer", "head")]
    columns += [Column("n", role="count"), Column("x", "nats"), Column("x_se", "nats", role="error")]
    data = {"model": ["m"] * rows, "layer": [0] * rows, "head": list(range(rows)), "n": [7] * rows}
    data |= {"x": list(values), "x_se": list(errors)}
    return HeadTable("x of heads", columns, data, **more)


def test_numbers_are_rounded_to_two_digits_of_their_errors():
    table = of_heads([0.87654, 12.345, np.nan, 0.5], [0.0123, 0.126, np.nan, np.nan])
    cells = re.findall(r"<t[dh][^>]*>(.*?)</t[dh]>", table._repr_html_(), re.DOTALL)
    assert [re.sub("<.*?>", "", cell).strip() for cell in cells] == [
        *("layer", "head", "n", "x (nats)"), *("0", "0", "7", "0.877 ± 0.012"),
        *("0", "1", "7", "12.345 ± 0.126"), *("0", "2", "7", "·"), *("0", "3", "7", "0.500"),
    ]  # fmt: skip


@pytest.mark.parametrize("where", ["title", "notes", "cell", "unit"])
def test_a_hostile_word_is_only_a_word(where):
    evil = "</td><script>alert(1)</script>\u202e"
    words = {one: evil if one == where else "good" for one in ("title", "notes", "cell", "unit")}
    column = Column("label", words["unit"], role="text")
    page = HeadTable(words["title"], [column], {"label": [words["cell"]]}, [words["notes"]])._repr_html_()
    assert "<script" not in page
    assert "\u202e" not in page
    assert "</td><script>alert(1)</script>" in unescape(page)
    assert not re.search(r"/(home|tmp|work)/", page)
