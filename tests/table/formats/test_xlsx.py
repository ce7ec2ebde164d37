import io
import json
import zipfile

import numpy as np
import openpyxl

from attnprobe.table.table import Column, HeadTable


def book(table, precision=None):
    return openpyxl.load_workbook(io.BytesIO(table.render("xlsx", precision)))


def values(sheet):
    return [list(row) for row in sheet.iter_rows(values_only=True)]


FORMULAS = ["=cmd()", "+1", "-2", "@sum", "  =1", "\uff1d1", "'=x"]


def test_what_looks_like_a_formula_is_text():
    table = HeadTable("=t", [Column("=name", role="key"), Column("x")], {"=name": FORMULAS, "x": [-1.5] * 7})
    page = book(table)["table"]
    for row, text in enumerate(FORMULAS, start=2):
        cell, number = page.cell(row, 1), page.cell(row, 2)
        assert (cell.value, cell.data_type, cell.quotePrefix) == (text, "s", True)
        assert (number.value, number.data_type, number.quotePrefix) == (-1.5, "n", False)
    assert page.cell(1, 1).data_type == "s"
    with zipfile.ZipFile(io.BytesIO(table.render("xlsx"))) as parts:
        assert not any(b"<f>" in parts.read(name) for name in parts.namelist())


def test_characters_that_the_format_forbids(hostile):
    texts = ["a\x00b\x07", "\ufffe\uffff", "_x0041_", "x" * 40_000, "two\r\nlines"]
    table = HeadTable("t", [Column("check", role="key")], {"check": texts})
    page = [row[0] for row in values(book(table)["table"])[1:]]
    assert page == ["ab", "\ufffd\ufffd", "_x0041_", "x" * 32_767, "two lines"]
    assert len(values(book(hostile)["table"])) == 8


def test_gaps_and_infinities():
    nan = float("nan")
    columns = [Column("label", role="key"), Column("nearest", role="count"), Column("x"), Column("yes")]
    data = {
        "label": [None, "a"], "nearest": [nan, 3.0], "x": [float("inf"), 1 / 3], "yes": [True, False],
    }  # fmt: skip
    assert values(book(HeadTable("t", columns, data), 2)["table"])[1:] == [
        [None, None, "inf", True],
        ["a", 3, 0.33, False],
    ]


def test_written_and_read_again(heads, tmp_path):
    table = heads(2, 3, entropy=np.linspace(0, 0.1 + 0.2, 6))  # of 17 digits, and openpyxl writes 16
    table.data["model"][:] = ["_x0041_ =x"] * 6
    path = tmp_path / "heads.xlsx"
    assert table.save(path) == [path, tmp_path / "heads.xlsx.json"]
    page = HeadTable.read(path)
    assert page.to_csv() == table.to_csv()
    assert (list(page.columns), page.notes) == (list(table.columns), list(table.notes))
    assert json.loads((tmp_path / "heads.xlsx.json").read_text())["table"] == "heads.xlsx"
