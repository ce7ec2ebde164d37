"""What a table keeps when it is saved and read again."""

import math

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import attnprobe
from attnprobe import AttnprobeError, HeadTable
from attnprobe.table.cells import clean, to_plain
from attnprobe.table.formats.json import to_json
from attnprobe.table.table import Column

FORMATS = ["csv", "json", "parquet"]

COLUMNS = [
    Column("model", role="key"),
    Column("layer", role="key"),
    Column("seed", role="key"),
    Column("n", role="count"),
    Column("offset", "tokens", role="count"),
    Column("entropy", "nats", headline=True, title="entropy of a row"),
    Column("entropy_se", "nats", role="error"),
    Column("never", "share"),
    Column("flag"),
]
NAN = math.nan
DATA = {
    "model": ["org/bert", "org/bert", "org/bert"],
    "layer": [0, 1, 2],
    "seed": [None, 1, 2],
    "n": [2**53 + 1, 12, 0],
    "offset": [-1, None, 3],
    "entropy": [0.1 + 0.2, 1 / 3, NAN],
    "entropy_se": [5e-324, 1e22, None],
    "never": [NAN, NAN, NAN],
    "flag": [True, False, True],
}
PROVENANCE = {
    "command": ["attnprobe", "entropy", "demo"],
    "corpus": {"sequences": 12, "share": 0.1 + 0.2, "texts": ["abc"], "none": None, "whole": True},
}
NOTES = ["Entropy falls with depth.", "Another note, with a comma; and “quotes”."]
TABLE = HeadTable("entropy of heads", COLUMNS, DATA, NOTES, PROVENANCE)


def cells(table):
    """Give every cell with its type; an undefined number and an absent label are both None."""
    plain = {
        column.name: [to_plain(cell, column.role) for cell in table.data[column.name]]
        for column in table.columns
    }
    return {name: [(type(cell).__name__, cell) for cell in column] for name, column in plain.items()}


def assert_same(read, table):
    assert cells(read) == cells(table)
    assert list(read.columns) == list(table.columns)
    assert (read.title, list(read.notes)) == (table.title, list(table.notes))
    assert read.provenance == to_json(table.provenance)


@pytest.mark.parametrize("kind", FORMATS)
def test_round_trip(tmp_path, kind):
    path = tmp_path / f"heads.{kind}"
    files = TABLE.save(path)
    assert files == ([path] if kind == "json" else [path, tmp_path / f"heads.{kind}.json"])
    for known in (path, str(path)):
        assert_same(HeadTable.read(known), TABLE)
    # Once more, since what was read is written as well.
    HeadTable.read(path).save(tmp_path / f"again.{kind}")
    assert_same(HeadTable.read(tmp_path / f"again.{kind}"), TABLE)
    again = (tmp_path / f"again.{kind}").read_bytes()
    assert again == path.read_bytes()


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("name", ["007", "1e5", "True", "NA", "null"])
def test_a_name_stays_a_name(tmp_path, kind, name):
    """A folder may be called anything, and so may a file of text."""
    columns = [Column("model", role="key"), Column("dataset", role="key"), Column("x")]
    table = HeadTable("t", columns, {"model": [name] * 2, "dataset": [name, "b"], "x": [1.5, 2.5]})
    table.save(tmp_path / f"t.{kind}")
    assert_same(HeadTable.read(tmp_path / f"t.{kind}"), table)


@pytest.mark.parametrize("kind", FORMATS)
def test_a_table_without_rows(tmp_path, kind):
    """As distance gives of a model whose layers have one head."""
    table = HeadTable("t", COLUMNS, {column.name: [] for column in COLUMNS}, ["Nothing."], {"seed": 1})
    table.save(tmp_path / f"t.{kind}")
    assert_same(HeadTable.read(tmp_path / f"t.{kind}"), table)


#: Letters, and everything that steers a terminal, a spreadsheet, csv or json.
LETTERS = st.characters() | st.sampled_from(
    "=+-@'\"\t\r\n ,;\\\0\x1b\x85\u2028\u3000\u202e\ufeff\ud800\uff1d0e."
)
WORDS = st.lists(st.text(LETTERS, max_size=12), min_size=1, max_size=5)


@pytest.mark.parametrize("kind", FORMATS)
@settings(max_examples=40)
@given(words=WORDS)
@example(words=["'=x", "''-", "'\u3000@", " ", "'", "\u3000=x"])
def test_any_string(tmp_path_factory, kind, words):
    """Is read as the clean string that was written; csv can't tell an empty string from none."""
    path = tmp_path_factory.mktemp("any") / f"t.{kind}"
    columns = [Column("check", "=unit\x1b[0m", role="key", title="@title"), Column("place", role="key")]
    data = {"check": ["a word", *words], "place": list(range(len(words) + 1))}
    table = HeadTable(f"title {words[0]}", columns, data, words, {"words": words, words[0]: 1})
    table.save(path)
    read = HeadTable.read(path)
    expected = ["a word", *(clean(word) or (None if kind == "csv" else "") for word in words)]
    assert list(read.data["check"]) == expected
    assert list(read.data["place"]) == data["place"]
    assert (read.title, list(read.notes)) == (clean(table.title), list(map(clean, words)))
    assert read.columns[0] == Column("check", "=unit", role="key", title="@title")
    assert read.provenance == to_json(table.provenance)


@pytest.mark.parametrize("kind", FORMATS)
@settings(max_examples=40)
@given(
    numbers=st.lists(st.none() | st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=20)
)
def test_any_number(tmp_path_factory, kind, numbers):
    """Is read as exactly the number that was written."""
    path = tmp_path_factory.mktemp("any") / f"t.{kind}"
    HeadTable("t", [Column("x", "nats")], {"x": numbers}).save(path)
    read = HeadTable.read(path).data["x"]
    assert list(map(repr, read)) == list(map(repr, numbers))


@pytest.fixture(scope="session")
def tables(saved):
    """Ask every command for a table."""
    bert, texts = saved("bert"), ["the dog ran .", "is it late ?", "a bird by the river , at night ."] * 2
    task = {"objective": "representation"}
    importance = attnprobe.importance(bert, texts, **task)
    return {
        "census": attnprobe.census(bert, texts),
        "encoder and decoder": attnprobe.positional(saved("t5"), texts),
        "pairs": attnprobe.distance(bert, texts, all_pairs=True),
        "layers": attnprobe.distance(bert, texts, by="layer"),
        "heads": attnprobe.distance(bert, texts, by="head"),
        "importance": importance,
        "ablation": attnprobe.ablate(bert, texts, **task),
        "curve": attnprobe.prune(bert, texts, step=0.5, random_orders=1, **task),
        "comparison": attnprobe.correlate(importance, importance),
        "disagreement": attnprobe.correlate(importance, importance, by="head"),
        "diagnosis": attnprobe.doctor(bert, texts),
    }


@pytest.mark.parametrize("kind", FORMATS)
def test_tables_of_every_command(tmp_path, tables, kind):
    """Whatever columns they have."""
    for name, table in tables.items():
        path = tmp_path / f"{name}.{kind}"
        table.save(path)
        assert_same(HeadTable.read(path), table)
        if kind == "csv":  # one that has lost its json can still be joined
            path.with_name(f"{path.name}.json").unlink()
            read = HeadTable.read(path)
            assert [(one.name, one.role) for one in read.columns] == [
                (one.name, one.role) for one in table.columns
            ]
            assert cells(read) == cells(table)


def test_csv_alone(tmp_path, heads):
    """What its columns are is told from their names; units, notes and provenance are gone."""
    table = heads(2, 2, entropy=np.arange(4.0))
    columns = [*table.columns, Column("lift"), Column("lift_n", role="count"), Column("y_n")]
    data = {**table.data, "lift": [1.5, 2.5, 3.5, 4.5], "lift_n": [1, 2, 3, 4], "y_n": [1.5, 2.5, 3.5, 4.5]}
    path = tmp_path / "heads.csv"
    HeadTable("t", columns, data, ["note"], {"seed": 1}).save(path)
    (tmp_path / "heads.csv.json").unlink()
    read = HeadTable.read(path)
    roles = ["key"] * 4 + ["count", "measure", "error", "measure", "count", "measure"]
    assert [column.role for column in read.columns] == roles
    assert {column.unit for column in read.columns} == {""}
    assert (read.title, list(read.notes), read.provenance) == ("heads", [], {})
    assert [cell for _, cell in cells(read)["layer"]] == [0, 0, 1, 1]
    assert {kind for kind, _ in cells(read)["layer"]} == {"int"}


@pytest.mark.parametrize("beside", ["[1]", '{"columns": [3], "notes": null}'])
def test_a_json_of_something_else_beside_it(tmp_path, beside):
    """Is left aside."""
    TABLE.save(tmp_path / "heads.csv")
    (tmp_path / "heads.csv.json").write_text(beside)
    read = HeadTable.read(tmp_path / "heads.csv")
    assert list(read.data) == list(DATA)
    assert (read.title, list(read.notes), read.provenance) == ("heads", [], {})


@pytest.mark.parametrize("precision", [0, 18])
def test_digits_that_no_number_has(tmp_path, precision):
    """As --precision refuses them."""
    with pytest.raises(AttnprobeError, match="1 to 17"):
        TABLE.save(tmp_path / "t.csv", precision=precision)
    with pytest.raises(AttnprobeError, match="1 to 17"):
        TABLE.to_csv(precision)


def test_text_is_clean_in_pandas_and_in_a_notebook():
    """A label may turn the direction of what is shown; a file name of undecodable bytes has surrogates."""
    cells = ["\u202eevil\u2069", "a\x1b[31mb", "\udcff.txt", None]
    table = HeadTable("t", [Column("label", role="text")], {"label": cells})
    assert table.to_pandas()["label"].tolist()[:3] == ["evil", "ab", "\ufffd.txt"]
    assert not set(table._repr_html_()) & {"\u202e", "\u2069", "\x1b"}


@pytest.mark.parametrize("data", [{"x": [1]}, {"x": [1], "y": [1, 2]}, {"y": [1], "x": [1]}, {}])
def test_columns_must_fit_their_cells(data):
    with pytest.raises(ValueError, match="column"):
        HeadTable("t", [Column("x"), Column("y")], data)


def test_one_name_in_two_formats(tmp_path):
    """Each has a record of its own, and is read with it."""
    for kind in (*FORMATS, "xlsx"):
        TABLE.save(tmp_path / f"heads.{kind}")
    for kind in FORMATS:
        assert_same(HeadTable.read(tmp_path / f"heads.{kind}"), TABLE)
    assert HeadTable.read(tmp_path / "heads.xlsx").provenance == to_json(TABLE.provenance)


def test_columns_and_rows_that_are_taken():
    """With what names the rows, and errors."""
    taken = TABLE.take(["entropy"], rows=2)
    assert list(taken.data) == ["model", "layer", "seed", "entropy", "entropy_se"]
    assert [list(cells) for cells in taken.data.values()] == [list(DATA[name][:2]) for name in taken.data]
    assert TABLE.take().to_csv() == TABLE.to_csv()
    with pytest.raises(AttnprobeError, match="no such column; the nearest is entropy"):
        TABLE.take(["entropi"])


def test_workbooks_of_too_many_rows_or_without_their_package(monkeypatch):
    monkeypatch.setattr("attnprobe.table.formats.xlsx._MOST_ROWS", 1)
    with pytest.raises(AttnprobeError, match="xlsx holds 1 rows"):
        TABLE.render("xlsx")
    monkeypatch.setattr("attnprobe.table.formats.find_spec", lambda _: None)
    with pytest.raises(AttnprobeError, match="pip install openpyxl"):
        TABLE.render("xlsx")


def test_each_column_has_a_number_of_documents():
    """That on record, of several runs the least, or what the row or the column counts if that is less."""

    def make(record, **data):
        return HeadTable("t", [Column(name) for name in data], data, provenance=record)

    record = {"corpus": {"clusters": 12, "sequences": 40}}
    table = make(record, n=[40, 40], entropy=[0.1, 0.2], separator=[0.1, 0.2], separator_n=[30, 3])
    assert table.count_documents("entropy").tolist() == [12, 12]
    assert table.count_documents("separator").tolist() == [12, 3]
    joined = {"tables": [{"provenance": {"corpus": {"clusters": number}}} for number in (9, 7)]}
    assert make(joined, jsd=[0.1]).count_documents("jsd").tolist() == [7]
    assert make({}, n=[5, None], x=[0.1, 0.2]).count_documents("x").tolist() == [5, np.inf]
    assert make({}, x=[0.1]).count_documents("x").tolist() == [np.inf]
