"""Heads at positions of tokens: tokens below."""

import json

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
