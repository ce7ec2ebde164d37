import io

import numpy as np
import pandas as pd
import pyarrow.parquet

from attnprobe.table.table import Column, HeadTable


def test_provenance_units_and_notes_ride_in_the_schema(heads):
    about = pd.read_parquet(io.BytesIO(heads(1, 2, entropy=np.ones(2)).render("parquet"))).attrs
    assert about["provenance"]["seed"] == 42
    assert about["columns"][5]["unit"] == "nats"
    assert about["notes"] == ["Entropy falls with depth."]


def test_gaps_are_null_and_integers_stay_integers():
    columns = [Column("label", role="key"), Column("nearest", role="count"), Column("x"), Column("never")]
    nan = float("nan")
    data = {"label": [None, "a"], "nearest": [nan, 3.0], "x": [nan, 1.0], "never": [nan, nan]}
    content = HeadTable("t", columns, data).render("parquet")
    arrow = pyarrow.parquet.read_table(io.BytesIO(content))
    assert [str(field.type) for field in arrow.schema] == ["string", "int64", "double", "double"]
    assert arrow.to_pydict() == {
        "label": [None, "a"],
        "nearest": [None, 3],
        "x": [None, 1.0],
        "never": [None, None],
    }
