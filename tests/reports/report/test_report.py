"""Tables are told apart by their columns, and a report is about one checkpoint."""

import json
import shutil

import pytest

import attnprobe
from attnprobe.errors import AttnprobeError
from attnprobe.reports.report.contents import read_folder, sort_tables

TEXTS = ["the dog ran .", "a bird came late , by night .", "stone"]


@pytest.fixture(scope="module")
def tables(saved):
    model = saved("bert")
    return {
        "heads": attnprobe.census(model, TEXTS),
        "what": attnprobe.roles(model, TEXTS),
        "gone": attnprobe.importance(model, TEXTS, objective="representation"),
    }


def test_a_folder_is_read_with_whatever_else_lies_in_it(tables, tmp_path):
    tables["heads"].save(tmp_path / "one.csv")
    tables["what"].save(tmp_path / "two.json")
    tables["gone"].save(tmp_path / "three.parquet")
    (tmp_path / "notes.txt").write_text("x")
    (tmp_path / "other.json").write_text(json.dumps({"a": 1}))
    (tmp_path / "folder.csv").mkdir()
    read = read_folder(tmp_path)
    assert sorted(read) == ["one", "three", "two"]
    assert read["one"].to_csv() == tables["heads"].to_csv()


def test_a_description_that_leads_nowhere_is_refused(tables, tmp_path):
    tables["heads"].save(tmp_path / "one.csv")
    (tmp_path / "one.csv.json").write_text("[" * 100_000)
    with pytest.raises(AttnprobeError, match=r"one\.csv\.json, which describes one\.csv, can't be read"):
        read_folder(tmp_path)


def test_tables_of_two_checkpoints_are_refused(tables, saved, tmp_path):
    other = attnprobe.census(saved("distilbert"), TEXTS)
    with pytest.raises(AttnprobeError, match="heads and other are about different checkpoints"):
        sort_tables({"heads": tables["heads"], "other": other})
    shutil.copytree(saved("distilbert"), tmp_path / "bert")  # the same name, but other weights
    with pytest.raises(AttnprobeError, match="different checkpoints"):
        sort_tables({"heads": tables["heads"], "other": attnprobe.census(tmp_path / "bert", TEXTS)})


@pytest.mark.parametrize(("make", "says"), [(False, "There is no folder"), (True, "holds no table")])
def test_a_folder_without_tables_is_refused(tmp_path, make, says):
    folder = tmp_path / "tables"
    if make:
        folder.mkdir()
    with pytest.raises(AttnprobeError, match=says):
        read_folder(folder)
