"""A report holds the tables of its commands, digit for digit, and what is needed to make it again."""

import base64
import json
import re
import zlib

import numpy as np
import pytest

import attnprobe
from attnprobe.errors import AttnprobeError
from attnprobe.table.numbers import format_with_error

TEXTS = [
    "the river bank was slow .",
    "a bird ran over the red house",
    "the dog and the cat came late .",
    "never stop by the river at night",
    "is it late ?",
]


def block(html, name):
    return re.search(rf'<script type="application/[a-z-]+" id="{name}">(.*?)</script>', html, re.DOTALL)[1]


@pytest.fixture(scope="module")
def made(saved):
    return attnprobe.report(saved("bert"), TEXTS)


@pytest.fixture(scope="module")
def data(made):
    return json.loads(block(made.html, "report-data"))


def test_the_page_holds_every_table_as_its_file(made, data):
    assert [one["name"] for one in data["tables"]] == list(made.tables)
    for number, table in enumerate(made.tables.values()):
        packed = block(made.html, f"table-{number}")
        assert zlib.decompress(base64.b64decode(packed)).decode() == table.to_csv()


def test_every_cell_of_a_map_and_of_the_card_is_of_its_table(made, data):
    census = made.tables["census"]
    measures = [one for one in census.columns if one.role == "measure"]
    assert data["heads"] == [["", layer, head] for layer in range(3) for head in range(4)]
    there = [one for one in measures if np.isfinite(np.array(census.data[one.name], float)).any()]
    assert len(data["measures"]) == len(there)
    for held, column in zip(data["measures"], there, strict=True):
        expected = np.array(census.data[column.name], float)
        errors = census.data.get(f"{column.name}_se", [None] * len(expected))
        numbers = [
            format_with_error(value, error)
            for value, error in zip(census.data[column.name], errors, strict=True)
        ]
        assert held["numbers"] == numbers
        falling = sorted(expected[~np.isnan(expected)], reverse=True)
        assert held["ranks"] == [None if np.isnan(value) else falling.index(value) + 1 for value in expected]
        if not column.headline:
            continue
        for (_, layer, head), value, error in zip(data["heads"], expected, errors, strict=True):
            labels = re.findall(rf'"L{layer} H{head}: (\S+) ± (\S+)"', made.html)
            shown = np.array(labels).astype(float)
            assert np.isclose(shown, [value, error], rtol=[5e-4, 5e-2]).all(1).any()


def test_a_task_brings_importance_and_pruning(classifier, reviews):
    made = attnprobe.report(
        classifier, reviews, text_column="review", label_column="stars", out_domain=reviews, limit=8
    )
    assert set(made.tables) == {
        *("census", "profile", "roles", "distance"),
        *("importance", "prune", "correlate", "correlate_by_head"),
    }
    assert '<h2 id="prune-title">' in made.html
    assert '<h2 id="correlate-title">' in made.html


def test_from_saved_tables_nothing_is_measured_again(made, saved, tmp_path, monkeypatch):
    folder = tmp_path / "tables"
    attnprobe.report(saved("bert"), TEXTS, sections="census,roles", save_tables=folder)
    monkeypatch.setattr("attnprobe.model.load.load_checkpoint", None)
    again = attnprobe.report(from_tables=folder)
    for name in ("census", "roles"):
        assert again.tables[name].to_csv() == made.tables[name].to_csv()
    assert 'id="distance"' not in again.html


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({}, "Name a MODEL"),
        ({"model": "demo", "from_tables": "x"}, "from"),
        ({"from_tables": "x", "limit": 60, "seed": 7}, "limit and .*seed"),
        ({"from_tables": "x", "limit": None, "seed": 42, "threads": 1}, "There is no folder x"),
        ({"model": "demo", "sections": "census,nonsense"}, "There is no section 'nonsense'"),
        ({"model": "demo", "sections": "correlate"}, "out.domain"),
    ],
)
def test_what_can_not_be_is_refused(options, says):
    with pytest.raises(AttnprobeError, match=says):
        attnprobe.report(**options)
