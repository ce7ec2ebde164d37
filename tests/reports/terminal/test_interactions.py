"""Pairs of heads on a terminal: a line each, with a star where they are confirmed."""

from dataclasses import replace

import picture_tables as tables
from printed import shown


def test_a_line_a_pair():
    out = shown(tables.interactions(), width=80)
    lines = [line for line in out if " + " in line]
    assert [line.split()[:3] for line in lines] == [
        ["0-0", "+", "1-1"],
        ["0-1", "+", "1-0"],
        ["1-0", "+", "2-3"],
    ]
    assert [line.endswith("*") for line in lines] == [True, True, False]
    assert "+0.400" in lines[0]
    assert "-0.300" in lines[1]
    assert "+0.300" in lines[0]  # proposed
    assert "0.003" in lines[0]


def test_kinds_of_attention_are_named():
    table = tables.interactions()
    columns = [*table.columns]
    place = next(number for number, column in enumerate(columns) if column.name == "layer_a")
    data = dict(table.data)
    for side, kinds in (("a", ["encoder"] * 3), ("b", ["encoder", "cross", "decoder"])):
        columns.insert(place, replace(columns[place], name=f"attention_{side}"))
        data[f"attention_{side}"] = kinds
    table = replace(table, columns=columns, data={column.name: data[column.name] for column in columns})
    assert "encoder 0-1 + cross 1-0" in "\n".join(shown(table))
