import json

import pandas
import pytest

from attnprobe.errors import AttnprobeError
from attnprobe.table.reading import read_table
from attnprobe.table.table import HeadTable

ROWS = pandas.DataFrame({
    "model": ["null", "null", "null"],
    "layer": [0, 0, 1],
    "head": [0, 1, 0],
    "importance": [0.1, None, 1 / 3],
})  # fmt: skip


@pytest.fixture
def written(tmp_path):
    """Write the same rows in every format."""

    def write(name):
        path = tmp_path / name
        kind = path.suffix.lower()
        if kind == ".csv":
            ROWS.to_csv(path, index=False, encoding="utf-8-sig" if name.startswith("bom") else "utf-8")
        elif kind == ".json":
            rows = json.loads(ROWS.to_json(orient="records", double_precision=15))
            path.write_text(json.dumps({"title": "x", "rows": rows}))
        else:
            ROWS.to_parquet(path)
        return path

    return write


@pytest.mark.parametrize("name", ["a.csv", "bom.csv", "A.CSV", "a.json", "a.parquet"])
def test_formats_read_alike(written, name):
    pandas.testing.assert_frame_equal(read_table(written(name)), ROWS)


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("a.txt", b"layer,head\n", "no table"),
        ("a", b"layer,head\n", "no table"),
        ("a.csv", None, "no file"),
        ("a.csv", b"", "can't be read"),
        ("a.csv", b"\xff\xfe\x00\x81", "can't be read"),
        ("a.csv", b"a,b\n1,2,3,4\n1,2,3,4,5,6,7\n", "can't be read"),
        ("a.json", b"", "can't be read"),
        ("a.json", b"[1, 2]", "can't be read"),
        ("a.json", b'{"columns": []}', "can't be read"),
        ("a.parquet", b"PAR1", "can't be read"),
    ],
)
def test_what_is_no_table(tmp_path, name, content, says):
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(AttnprobeError, match=says) as caught:
        read_table(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("decimal", [".", ","])
def test_a_csv_that_a_spreadsheet_wrote_with_semicolons(tmp_path, decimal):
    """Many countries write semicolons between cells, and commas in numbers."""
    lines = [
        "\ufefflayer;head;model;entropy;entropy_se",
        "0;0;a,b;0.5;0.25",
        "0;1;a,b;;-1.5",
        "1;0;c;2.0;1e-05",
    ]
    path = tmp_path / "heads.csv"
    words = [line.replace(".", decimal) for line in lines]
    path.write_text("\n".join(words).replace("1e-05", f"1{decimal}0e-05"), encoding="utf-8")
    table = HeadTable.read(path)
    assert table.data["entropy"] == [0.5, None, 2.0]
    assert table.data["entropy_se"] == [0.25, -1.5, 1e-05]
    assert table.data["model"] == ["a,b", "a,b", "c"]
    assert [column.role for column in table.columns] == ["key", "key", "key", "measure", "error"]


def test_rows_longer_than_the_header_shift_nothing(tmp_path):
    path = tmp_path / "heads.csv"
    path.write_text("layer,head,entropy\n0,0,1,5\n0,1,2,6\n")
    with pytest.raises(AttnprobeError, match=r"a row has more cells than columns"):
        HeadTable.read(path)


def test_a_damaged_description_is_named(tmp_path):
    (tmp_path / "a.csv").write_text("model,layer,head,importance\nm,0,0,1.5\n", encoding="utf-8")
    (tmp_path / "a.csv.json").write_text('{"table": "a.csv", "rows": ', encoding="utf-8")
    with pytest.raises(AttnprobeError, match=r"a\.csv\.json, which describes .* Delete it"):
        HeadTable.read(tmp_path / "a.csv")
