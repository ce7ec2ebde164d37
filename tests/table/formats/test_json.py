import json
from pathlib import Path

import numpy as np
import pytest

from attnprobe.table.formats.json import to_json, write_description
from attnprobe.table.table import Column, HeadTable


def render(table: HeadTable) -> str:
    return table.render("json").decode()


def _strictly(text: str):
    def refuse(constant):
        raise ValueError(constant)

    return json.loads(text, parse_constant=refuse)


def test_everything_is_there_and_comes_back_exactly(heads):
    values = np.random.default_rng(0).standard_normal(4)
    values[1] = np.nan
    table = heads(2, 2, entropy=values)
    found = _strictly(render(table))
    assert list(found) == ["title", "columns", "notes", "provenance", "rows"]
    assert found["columns"][5] == {
        **{"name": "entropy", "unit": "nats", "role": "measure"},
        **{"headline": False, "title": ""},
    }
    assert [row["entropy"] for row in found["rows"]] == [values[0], None, values[2], values[3]]
    assert [row["layer"] for row in found["rows"]] == [0, 0, 1, 1]
    assert found["notes"] == ["Entropy falls with depth."]
    assert found["provenance"] == {"seed": 42, "command": "attnprobe entropy demo", "weights": None}


def test_infinities_are_null_since_strict_json_has_none():
    table = HeadTable("t", [Column("x")], {"x": [np.inf, -np.inf, 1.0]})
    assert [row["x"] for row in _strictly(render(table))["rows"]] == [None, None, 1.0]


def test_hostile_strings_are_cleaned_but_stay_text(hostile):
    text = render(hostile)
    assert not any(ord(character) < 32 and character != "\n" for character in text)
    assert "\\u001b" not in text
    found = _strictly(text)
    assert found["title"] == "Hostile =title"
    assert found["rows"][0]["check"] == "=cmd()"  # no spreadsheet reads this, so no apostrophe
    assert found["rows"][3]["check"] == "usergnp.exe"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (Path("a"), "a"),
        ({"b", "a"}, ["a", "b"]),
        (np.arange(2), [0, 1]),
        ({1: (np.float32(0.5), None)}, {"1": [0.5, None]}),
        ([float("nan"), True], [None, True]),
    ],
)
def test_provenance_may_hold_anything(value, expected):
    assert to_json(value) == expected


def test_description_names_its_table(heads):
    found = _strictly(write_description(heads(2, 2, entropy=np.ones(4)).to_sheet(), "heads.csv"))
    assert (found["table"], found["rows"]) == ("heads.csv", 4)
    assert found["columns"][-1]["unit"] == "nats"
    assert found["provenance"]["seed"] == 42
