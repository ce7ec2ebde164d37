"""Shares of variance: parts that add up to 1, what is too small to see among the rest, and what is said."""

import itertools
import re

import numpy as np
import picture_tables as tables
import pytest

from attnprobe.reports.pictures.choosing import draw_picture
from attnprobe.reports.pictures.shares import SHARES, merge_parts, name_measures
from attnprobe.reports.theme import compute_luminance
from attnprobe.table.head_table import HeadTable
from attnprobe.table.table import Column


def with_cells(table, **cells):
    return HeadTable(table.title, table.columns, {**table.data, **cells})


def rows_of(drawn):
    return [row for some in drawn.spec["datasets"].values() for row in some if "part" in row]


def few(**more):
    """Make a table with four parts that are seen, the others below 2 %."""
    cells = {name: [0.0, 0.004, 0.0] for name in tables.SHARES}
    cells |= {"layers": [0.6, 0.2, 0.1], "heads_by_seed": [0.1, 0.7, 0.3], "texts": [0.2, 0.01, 0.25]}
    cells["rest"] = [0.1, 0.066, 0.35]
    return with_cells(tables.shares(), **cells | more)


def large():
    """Make a table in which each part is at least 2 %."""
    draw = np.random.default_rng(1)
    parts = 0.03 + 0.7 * draw.dirichlet(np.ones(len(tables.SHARES)), 3).T
    return with_cells(tables.shares(), **dict(zip(tables.SHARES, parts.tolist(), strict=True)))


def test_shares_of_every_measure_are_there_and_add_up():
    table = large()
    rows = rows_of(draw_picture([table]))
    assert [row["share"] for row in rows] == [cell for name in tables.SHARES for cell in table.data[name]]
    errors = [cell for name in tables.SHARES for cell in table.data[f"{name}_se"]]
    assert [row["error"] for row in rows] == errors
    for name in name_measures(table):
        own = [row for row in rows if row["row"] == name]
        assert sum(row["share"] for row in own) == pytest.approx(1)
        assert all(one["end"] == other["start"] for one, other in itertools.pairwise(own))


def test_parts_below_two_percent_everywhere_are_of_the_rest():
    table = few()
    rows = rows_of(draw_picture([table]))
    parts = list(dict.fromkeys(row["part"] for row in rows))
    assert parts == [
        "A  layers", "B  heads \u00d7 checkpoints", "C  texts", "D  rest, and parts below 2 %",
    ]  # fmt: skip
    small = set(tables.SHARES) - {"layers", "heads_by_seed", "texts"}
    wanted = [sum(table.data[name][row] for name in small) for row in range(3)]
    rest = [row for row in rows if row["part"].startswith("D")]
    assert [row["share"] for row in rest] == pytest.approx(wanted)
    assert [row["error"] for row in rest] == [None] * 3  # of a sum, it is not known
    for name in name_measures(table):
        assert sum(row["share"] for row in rows if row["row"] == name) == pytest.approx(1)
    assert merge_parts(few(texts=[0.0, 0.02, 0.0]))["texts"] == ["texts"]
    assert "texts" not in merge_parts(few(texts=[0.0, 0.0199, None]))


def test_where_nothing_is_merged_the_rest_keeps_its_name_and_error():
    zero = {name: [0.0] * 3 for name in set(tables.SHARES) - {"layers", "rest"}}
    table = few(**zero, layers=[0.9] * 3, rest=[0.1] * 3)
    assert {row["part"] for row in rows_of(draw_picture([table]))} == {"A  layers", "B  rest"}


def test_a_part_has_as_much_text_as_finds_room_in_it():
    """Its letter, its share in percent, and the error: of the table's numbers."""
    table = few()
    spread = with_cells(table, **{f"{name}_se": [0.034] * 3 for name in tables.SHARES})
    texts = {(row["row"], row["part"][0]): row for row in rows_of(draw_picture([spread]))}
    assert texts["entropy of attention", "A"]["label"] == "A 60 \u00b1 3 %"
    assert texts["attention to the previous token", "B"]["label"] == "B 70 \u00b1 3 %"
    assert texts["attention to the previous token", "C"]["label"] == ""
    assert texts["entropy of attention", "D"]["label"] in {"D", "D 10 %"}
    for drawn in (draw_picture([spread]), draw_picture([spread], columns=1)):
        width = next(one["width"] for one in drawn.spec["vconcat"])
        for row in rows_of(drawn):
            assert 0.56 * 8 * len(row["label"]) <= (row["end"] - row["start"]) * width + 1


def test_parts_of_a_variance_are_told_apart_in_grey():
    """Neighbours differ by 3:1 (WCAG 2), and each part that has room holds its letter."""
    colours = [compute_luminance(colour) for _, colour in SHARES.values()]
    for one, other in itertools.pairwise(colours):
        assert (max(one, other) + 0.05) / (min(one, other) + 0.05) > 3
    table = large()
    rows = rows_of(draw_picture([table]))
    assert {row["label"][:1] for row in rows} >= set("ABCDEFGHIJ") - {"D", "H", "I"}
    assert all(bool(row["label"]) == (row["share"] > 0.05) for row in rows if not 0.02 < row["share"] < 0.05)
    for row in rows:
        name = SHARES[next(column for column in SHARES if table.data[column].count(row["share"]))][0]
        assert row["part"].endswith(f"  {name}")


def test_measures_have_their_titles_and_in_a_narrow_picture_two_lines():
    assert name_measures(tables.shares()) == [
        "entropy of attention", "attention to the previous token", "</script>",
    ]  # fmt: skip
    drawn = draw_picture([tables.shares()], columns=1).rendered("svg").decode()
    assert re.search(r">attention to the<.*>previous token<", drawn)


def test_interactions_errors_and_few_checkpoints_are_explained():
    def said(table):
        return draw_picture([table]).spec["vconcat"][0]["title"]["text"]

    table = few()
    counted = HeadTable(
        table.title,
        [*table.columns, Column("checkpoints", role="count")],
        {**table.data, "checkpoints": [4] * 3},
    )
    lines = said(counted)
    assert lines[0].startswith("\u00d7: interaction")
    assert "\u00b1: standard error, where there is room" in lines
    assert lines[-1] == "4 checkpoints are few, and shares that depend on them are rough"
    many = with_cells(counted, checkpoints=[12] * 3)
    assert "few" not in " ".join(said(many))
    alone = few(heads_by_seed=[0.0] * 3, **{f"{name}_se": [None] * 3 for name in tables.SHARES})
    assert said(alone) == []
