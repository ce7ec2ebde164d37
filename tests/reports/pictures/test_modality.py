"""Attention to image and text: bars that add up to 1, a point for each head, and the table's numbers."""

import numpy as np
import picture_tables as tables
import pytest

from attnprobe.reports.pictures.choosing import draw_picture, list_kinds
from attnprobe.table.head_table import HeadTable
from attnprobe.table.table import Column


def rows_of(table, **how):
    return [row for rows in draw_picture([table], **how).spec["datasets"].values() for row in rows]


def test_points_are_the_heads_of_the_table():
    table = tables.modalities()
    heads = [row for row in rows_of(table) if "value" in row]
    for asker, panel in (("text", "what text looks at"), ("image", "what the image looks at")):
        own = [row for row in heads if row["panel"] == panel]
        for part, field in (("image", "value"), ("text", "text"), ("special", "special")):
            assert [row[field] for row in own] == table.data[f"{asker}_to_{part}"]


def test_bars_are_means_over_the_heads_of_a_layer():
    table = tables.modalities()
    bars = [row for row in rows_of(table) if "mean" in row]
    assert len(bars) == 2 * 3 * tables.LAYERS
    for row in bars:
        asker = "text" if "text" in row["panel"] else "image"
        values = np.array(table.data[f"{asker}_to_{row['part'].split()[0]}"]).reshape(tables.LAYERS, -1)
        assert row["mean"] == pytest.approx(values[int(row["layer"])].mean())
        assert row["end"] - row["start"] == pytest.approx(row["mean"])
    assert [row["end"] for row in bars if row["part"] == "special tokens"] == pytest.approx([1] * 6)
    starts = [row["start"] for row in bars if row["part"] == "image"]
    assert starts == [0] * len(starts)


def with_lifts(table, shares):
    """Add lifts for these shares of tokens, by asker and part; attention over them is its lift."""
    columns, data = list(table.columns), dict(table.data)
    for name, share in shares.items():
        columns.append(Column(f"{name}_lift", "ratio"))
        data[f"{name}_lift"] = [value / share for value in table.data[name]]
    return HeadTable(table.title, columns, data)


def test_lines_stand_at_the_shares_of_tokens():
    shares = {"text_to_image": 0.6, "text_to_text": 0.3, "image_to_image": 0.7, "image_to_text": 0.3}
    table = with_lifts(tables.modalities(), shares)
    lines = {}
    for row in rows_of(table):
        if "uniform" in row:
            lines.setdefault(row["panel"], []).append(row["uniform"])
    assert lines["what text looks at"] == pytest.approx([0.6, 0.9])
    assert lines["what the image looks at"] == pytest.approx([0.7])  # at the end, there is none
    assert ">lines: share of tokens" in draw_picture([table], columns=1).rendered("svg").decode()


def test_without_the_shares_of_tokens_there_are_no_lines():
    """The table has no lift; or heads disagree, as where texts have different shares of tokens."""
    plain = tables.modalities()
    table = with_lifts(plain, {"text_to_image": 0.6})
    table.data["text_to_image_lift"][0] *= 1.1
    for one in (plain, table):
        assert not any("uniform" in row for row in rows_of(one))
        assert "share of tokens" not in draw_picture([one]).rendered("svg").decode()


def test_a_decoder_whose_image_sees_no_text_has_a_chart_of_what_is_defined():
    table = tables.modalities()
    data = {
        name: [None] * len(table) if name.startswith("image_to") else cells
        for name, cells in table.data.items()
    }
    rows = rows_of(HeadTable(table.title, table.columns, data))
    assert {row["panel"] for row in rows} == {"what text looks at"}


def test_a_census_of_images_and_text_has_it_beside_its_heat_map():
    table = tables.modalities()
    columns = [*table.columns, Column("entropy", "nats")]
    census = HeadTable("census", columns, {**table.data, "entropy": tables.numbers(len(table))})
    assert census.kind == "heads"
    assert list_kinds(census)[0] == "heatmap"
    assert "modality" in list_kinds(census)
    assert "modality" not in list_kinds(tables.of_heads("entropy"))


def test_a_measure_that_is_named_has_a_heat_map():
    table = tables.modalities()
    drawn = draw_picture([table], measures=["text_to_image"])
    assert drawn.kind == "heatmap"
    (rows,) = drawn.spec["datasets"].values()
    assert [row["value"] for row in rows] == table.data["text_to_image"]
