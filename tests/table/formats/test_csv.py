import numpy as np

from attnprobe.table.table import Column, HeadTable


def test_undefined_numbers_and_absent_labels_are_empty():
    columns = [
        Column("label", role="key"),
        Column("nearest", role="count"),
        Column("x"),
        Column("n", role="count"),
    ]
    data = {"label": [None, "a"], "nearest": np.array([np.nan, 3.0]), "x": [np.nan, 0.5], "n": [1, 2]}
    assert HeadTable("t", columns, data).to_csv() == "label,nearest,x,n\n,,,1\na,3,0.5,2\n"


def test_fields_are_quoted_as_rfc_4180_says():
    table = HeadTable("t", [Column("a", role="key"), Column("b", role="key")], {"a": ['x,"y"'], "b": ["z"]})
    assert table.to_csv() == 'a,b\n"x,""y""",z\n'
