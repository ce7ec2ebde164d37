"""Attention to image and text: bars that add up to 1, a point for each head, and the table's numbers."""

import numpy as np
import picture_tables as tables
import pytest
from scipy.stats import norm

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
    assert ">dashed lines: share of tokens" in draw_picture([table], columns=1).rendered("svg").decode()


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


def half(errors, many):
    return norm.ppf(1 - 0.05 / 2 / many) * np.asarray(errors)


def with_text_to_image(values, lifts, errors):
    """Give a table whose text gives the image these shares, at these lifts with their errors."""
    table = tables.modalities(1, len(values))
    data = {**table.data, "text_to_image": list(values), "text_to_image_lift": list(lifts)}
    data["text_to_image_lift_se"] = list(errors)
    more = [Column("text_to_image_lift", "ratio"), Column("text_to_image_lift_se", "ratio", "error")]
    return HeadTable(table.title, [*table.columns, *more], data)


def test_a_title_states_which_heads_differ_from_the_share_of_tokens():
    """By an interval of the lift for all heads together, and by more than 0.02 of the attention."""
    share, lifts = 0.2, np.array([3.1, 1.5, 0.5, 1.05, 1.5])
    errors = np.array([0.1, 0.1, 0.1, 0.001, 0.2])
    apart = np.abs(lifts - 1) > half(errors, 5)
    assert apart.tolist() == [True, True, True, True, False]
    assert abs(lifts[4] - 1) > 1.96 * errors[4]  # alone, the last one would differ
    table = with_text_to_image(share * lifts, lifts, errors)
    assert draw_picture([table]).title == (
        "Compared with the share of tokens, attention of text to the image is higher in 2 of 5 heads and "
        "lower in 1, such as L0 H0: 62 % of its attention, 20 % of the tokens"
    )
    one = with_text_to_image([0.1, 0.2], [0.5, 1.0], [0.01, 0.01])
    assert draw_picture([one]).title == (
        "Text looks less at the image than its share of tokens in L0 H0: 10 % of its attention, "
        "20 % of the tokens"
    )


def test_a_title_states_that_attention_is_as_the_share_of_tokens():
    """Where all intervals lie within 0.02 of it, be they clear of 1; and not where one is wider."""
    near = with_text_to_image([0.5, 0.501, 0.5], [1.0, 1.002, 1.0], [1e-6, 1e-6, 0.016])
    assert half(0.016, 3) * 0.5 < 0.02
    assert draw_picture([near]).title == (
        "Text attends to the image as uniform attention would, in all 3 heads: 50 %"
    )
    unsure = with_text_to_image([0.5, 0.501, 0.5], [1.0, 1.002, 1.0], [1e-6, 1e-6, 0.017])
    assert half(0.017, 3) * 0.5 > 0.02
    assert draw_picture([unsure]).title == unsure.title  # no head has significantly most


def test_without_lifts_a_title_states_the_head_with_most():
    table = tables.modalities()
    values = np.array(table.data["text_to_image"]).reshape(tables.LAYERS, -1)
    layer, head = np.unravel_index(values.argmax(), values.shape)
    first, second = np.sort(values.ravel())[[-1, -2]]
    for factor, sure in ((0.49, True), (0.51, False)):
        error = factor * (first - second) / half(1.0, values.size)
        table.data["text_to_image_se"][:] = table.data["image_to_text_se"][:] = [error] * len(table)
        assert draw_picture([table]).title.startswith("Text looks most at the image in L") is sure
    table.data["text_to_image_se"][:] = table.data["image_to_text_se"][:] = [1e-6] * len(table)
    assert draw_picture([table]).title == (
        f"Text looks most at the image in L{layer} H{head}: {100 * values.max():.0f} % of its attention"
    )
    data = {
        name: [None] * len(table) if name.startswith("text_to") else cells
        for name, cells in table.data.items()
    }
    image = np.array(table.data["image_to_text"])
    layer, head = divmod(int(image.argmax()), tables.HEADS)
    assert draw_picture([HeadTable(table.title, table.columns, data)]).title == (
        f"The image looks most at text in L{layer} H{head}: {100 * image.max():.0f} % of its attention"
    )


def test_a_line_at_the_share_of_tokens_is_longer_than_a_bar():
    """A point on it does not hide it."""
    table = with_lifts(tables.modalities(1, 2), {"text_to_image": 0.6, "text_to_text": 0.3})
    (spec,) = [one["spec"] for one in draw_picture([table]).spec["vconcat"]]
    line = next(one["encoding"] for one in spec["layer"] if one["encoding"]["x"]["field"] == "uniform")
    step = spec["height"]["step"]
    bar = next(one["mark"]["height"]["band"] for one in spec["layer"] if one["mark"]["type"] == "bar") * step
    assert line["y2"]["value"] - line["y"]["value"] > bar + 6
    assert line["y"]["value"] < (step - bar) / 2 - 3
