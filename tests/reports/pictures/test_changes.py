"""What changed between two models: which is less which, what is not significant, and what changed most."""

import numpy as np
import picture_tables as tables
import pytest
from scipy.stats import norm

from attnprobe.reports.pictures.cells import write_numbers
from attnprobe.reports.pictures.choosing import draw_picture
from attnprobe.table.head_table import HeadTable


def with_cells(table, **cells):
    return HeadTable(table.title, table.columns, {**table.data, **cells})


def find_titles(node):
    """Find the titles of maps, as texts with their remarks, and their distance from the map."""
    if isinstance(node, dict):
        title = node.get("title")
        if isinstance(title, dict) and "text" in title:
            text = title["text"] if isinstance(title["text"], list) else [title["text"]]
            below = title.get("subtitle", [])
            yield " ".join(text), " ".join(below), (len(text), len(below), title.get("offset", 8))
        for part in node.values():
            yield from find_titles(part)
    elif isinstance(node, list):
        for part in node:
            yield from find_titles(part)


def test_each_map_says_which_model_is_less_which():
    titles = list(find_titles(draw_picture([tables.change()]).spec["vconcat"]))
    moved, *deltas = titles
    assert moved[1].startswith("0 where both attend alike")
    assert len(deltas) == 5
    assert all("after minus before" in below for _, below, _ in deltas)
    several = with_cells(tables.change(), model_b=["after"] * 6 + ["later"] * 6)
    assert all("the second model minus before" in said[1] for said in find_titles(
        draw_picture([several], "change", ["next", "self"]).spec["vconcat"]))  # fmt: skip


def test_maps_that_stand_side_by_side_begin_at_one_height():
    """Lines of titles are 2 pixels higher than letters, of 13 pixels and of 11."""
    titles = [sizes for *_, sizes in find_titles(draw_picture([tables.change(3, 2)]).spec["vconcat"])]
    highs = [lines * 15 + below * 13 + offset for lines, below, offset in titles]
    across = draw_picture([tables.change(3, 2)]).spec["vconcat"][0]["columns"]
    assert across > 1
    for first in range(0, len(highs), across):
        assert len(set(highs[first : first + across])) == 1
    assert len({sizes[:2] for sizes in titles}) > 1


@pytest.mark.parametrize(("theme", "ink"), [("light", "#000000"), ("dark", "#ffffff")])
def test_cells_that_do_not_differ_say_so(theme, ink):
    table = tables.change()
    drawn = draw_picture([table], measures=["next"], theme=theme)
    (rows,) = drawn.spec["datasets"].values()
    p = table.data["next_p_adjusted"]
    assert {one < 0.05 for one in p} == {True, False}
    for row, chance in zip(rows, p, strict=True):
        assert (row["text"] == "ns") is (chance >= 0.05)
        assert chance < 0.05 or row["ink"] == ink
    assert "ns: not significant; numbers: adjusted p < 0.05" in next(find_titles(drawn.spec["vconcat"]))[1]


def test_maps_of_other_tables_leave_such_cells_empty():
    rows = {**tables.named(4), **tables.places(2, 2)}
    table = tables.table("x", rows, delta=[0.5, -0.5, 0.1, 0.0], delta_se=[0.1] * 4)
    (rows,) = draw_picture([table]).spec["datasets"].values()
    assert "ns" not in {row.get("text") for row in rows}


@pytest.mark.parametrize("error", [0.01, 0.2])
def test_the_head_that_changed_most_is_stated_where_it_surely_did(error):
    jsd = [0.1, 0.2, 0.15, 0.12, 0.11, 0.3, 0.05, 0.06, 0.07, 0.08, 0.09, 0.1]
    drawn = draw_picture([with_cells(tables.change(), jsd=jsd, jsd_se=[error] * 12)])
    sure = 2 * norm.ppf(1 - 0.025 / 12) * error < 0.3 - 0.2
    assert bool(sure) is (error < 0.1)
    title = "From before to after, attention of L1 H1 changed most: by a divergence of 0.30"
    assert drawn.title == (title if sure else "before and after")


def test_no_change_reads_as_none():
    values = np.array([-0.018, 0.0004, 0.00003, -0.00096, 0.0, 0.004])
    texts = write_numbers(values.tolist(), signed=True)[0].texts
    assert texts == ["\u22120.018", "+0.0004", "+3e\u22125", "\u22120.001", "0.000", "+0.004"]
    read = [float(text.replace("\u2212", "-")) for text in texts]
    assert read == pytest.approx(values, abs=0.0005)
    assert (np.sign(read) == np.sign(values)).all()
    assert write_numbers([0.9, 0.0004], signed=False)[0].texts == ["0.90", "0.00"]
