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
