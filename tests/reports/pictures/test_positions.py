"""Heads at positions of tokens: tokens below, pale cells, and what the terminal shows."""

import json

import numpy as np
import picture_tables as tables
import pytest

from attnprobe.reports.pictures.choosing import draw_picture


def spec_of(table, **how):
    return draw_picture([table], **how).chart.to_dict()


@pytest.mark.parametrize("token", ['"+alert(1)+"', "\\", "'];x", "\U0001f600\u2028", "</script>"])
def test_a_token_is_never_a_part_of_an_expression(token):
    """It is one string of JSON, cut and cleaned, whatever it holds."""
    spec = spec_of(tables.at_positions(tokens=("[CLS]", token, "dog")))
    (found,) = set(find_expressions(spec))
    words = json.loads(found[: found.index("][") + 1])
    assert len(words) == 3
    assert words[::2] == ["[CLS]", "dog"]
    assert found.endswith("[indexof([0, 1, 2], datum.value)]")
    assert (
        draw_picture([tables.at_positions(tokens=("[CLS]", token, "dog"))])
        .rendered("svg")
        .startswith(b"<svg")
    )


def find_expressions(node):
    """Give the expressions of axes; that of a legend has no token."""
    if isinstance(node, dict):
        if "labelExpr" in node and "gradientLength" not in node:
            yield node["labelExpr"]
        for part in node.values():
            yield from find_expressions(part)
    elif isinstance(node, list):
        for part in node:
            yield from find_expressions(part)


def test_the_map_of_layers_has_the_strongest_significant_head_of_each():
    table = tables.at_positions()
    table.data["p_adjusted"][:] = [0.01 if row % 3 == 0 else 0.5 for row in range(len(table))]
    significant = (np.array(table.data["p_adjusted"]) < 0.05).reshape(tables.LAYERS, tables.HEADS, 4)
    rows = next(rows for rows in spec_of(table)["datasets"].values() if "strongest" in rows[0])
    values = np.array(table.data["effect"]).reshape(tables.LAYERS, tables.HEADS, 4)
    assert len(rows) == tables.LAYERS * 4
    for row in rows:
        own = values[row["layer"], :, row["position"]]
        sure = significant[row["layer"], :, row["position"]]
        assert row["head"] == np.where(sure if sure.any() else True, np.abs(own), 0).argmax()
        assert row["strongest"] == own[row["head"]]


def find_remarks(node):
    if isinstance(node, dict):
        if isinstance(node.get("title"), dict):
            yield from node["title"].get("subtitle") or []
        for part in node.values():
            yield from find_remarks(part)
    elif isinstance(node, list):
        for part in node:
            yield from find_remarks(part)
