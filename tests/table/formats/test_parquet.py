import io

import numpy as np
import pandas as pd
import pyarrow.parquet

from attnprobe.table.table import Column, HeadTable


def render(table: HeadTable) -> bytes:
    return table.render("parquet")


def _read(content: bytes) -> pyarrow.Table:
    return pyarrow.parquet.read_table(io.BytesIO(content))


def test_round_trip(heads):
    values = np.random.default_rng(0).standard_normal(12)
    table = heads(3, 4, entropy=values)
    frame = pd.read_parquet(io.BytesIO(render(table)))
    np.testing.assert_array_equal(frame["entropy"], values)
    assert frame["layer"].dtype == "int64"
    assert list(frame["model"]) == ["demo"] * 12


def test_provenance_units_and_notes_ride_in_the_schema(heads):
    about = pd.read_parquet(io.BytesIO(render(heads(1, 2, entropy=np.ones(2))))).attrs
    assert about["provenance"]["seed"] == 42
    assert about["columns"][5]["unit"] == "nats"
    assert about["notes"] == ["Entropy falls with depth."]


def test_gaps_are_null_and_integers_stay_integers():
    columns = [Column("label", role="key"), Column("nearest", role="count"), Column("x"), Column("never")]
    nan = float("nan")
    data = {"label": [None, "a"], "nearest": [nan, 3.0], "x": [nan, 1.0], "never": [nan, nan]}
    arrow = _read(render(HeadTable("t", columns, data)))
    assert [str(field.type) for field in arrow.schema] == ["string", "int64", "double", "double"]
    assert arrow.to_pydict() == {
        "label": [None, "a"],
        "nearest": [None, 3],
        "x": [None, 1.0],
        "never": [None, None],
    }


def test_strings_are_cleaned(hostile):
    found = _read(render(hostile)).to_pydict()["check"]
    assert found[2] == "red"
    assert found[0] == "=cmd()"
