"""The command that makes a report: streams, files, refusals."""

import re
import shutil
from pathlib import Path
from unittest.mock import Mock

import pytest

import attnprobe
from attnprobe.commands import _sections
from attnprobe.reports.report import page


def test_a_page_and_its_tables(invoke, saved, text, tmp_path):
    path, folder = tmp_path / "report.html", tmp_path / "tables"
    words = ["report", saved("bert"), "-d", text, "--sections", "census,sentences"]
    code, out, error = invoke(*words, "-o", path, "--save-tables", folder)
    assert (code, out) == (0, "")
    assert error.endswith(f"attnprobe: wrote {path}\n")
    assert "attnprobe report" in path.read_text("utf-8")
    names = ["census.csv", "census.csv.json", "measured.json", "profile.csv", "profile.csv.json"]
    assert sorted(one.name for one in folder.iterdir()) == names
    again = tmp_path / "again.html"
    assert invoke("report", "--from", folder, "-o", again) == (0, "", f"attnprobe: wrote {again}\n")
    table = attnprobe.census(saved("bert"), text)
    assert attnprobe.HeadTable.read(folder / "census.csv").to_csv() == table.to_csv()


def test_nothing_is_written_where_something_is_refused(invoke, saved, text, tmp_path):
    path, page = (tmp_path / name for name in ("report.html", "page.html"))
    path.write_text("mine")
    page.mkdir()
    for words, says in {
        ("-o", path): "already exists",
        ("-o", tmp_path / "report.pdf"): "end it in .html",
        ("-o", tmp_path / "no" / "report.html"): "does not exist",
        ("-o", path, "--overwrite", "--sections", "nonsense"): "There is no section 'nonsense'",
        ("-o", path, "--overwrite", "-d", path): "which this command reads",
        ("-o", path, "--overwrite", "--save-tables", path): "is not a folder",
        ("-o", page): "is a folder",
        ("-o", path, "--overwrite", "--treebank", path): "which this command reads",
    }.items():
        code, out, error = invoke("report", saved("bert"), "-d", text, *words)
        assert (code, out) == (2, "")
        assert re.search(says, error)
        assert error.count("\n") == 1
        assert path.read_text() == "mine"
        assert not list(page.iterdir())
    assert {one.name for one in tmp_path.iterdir()} == {"report.html", "page.html", "text.txt"}


# What was measured is never lost


@pytest.fixture
def words(saved, text):
    return ["report", saved("bert"), "-d", text, "--sections", "census", "-q"]


def rescued(error):
    """Give the folder that a sentence names, which `report --from` reads."""
    folder = Path(
        re.search(r"The tables are in (\S+): `attnprobe report --from \1 -o report.html`", error)[1]
    )
    assert attnprobe.report(from_tables=folder).tables
    return folder


@pytest.mark.parametrize("kept", [False, True])
def test_a_page_that_can_not_be_made_leaves_the_tables(refused, words, tmp_path, monkeypatch, kept):
    def broken(contents):
        raise ZeroDivisionError("somewhere\nelse")

    folder, write_page = tmp_path / "tables", page.write_page
    monkeypatch.setattr(page, "write_page", broken)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    error = refused(*words, "-o", tmp_path / "report.html", *(["--save-tables", folder] if kept else []))
    assert "The page could not be made (ZeroDivisionError: somewhere)" in error
    monkeypatch.setattr(page, "write_page", write_page)
    assert (rescued(error) == folder) is kept


def test_a_folder_that_is_gone_at_the_end_leaves_the_tables(refused, words, tmp_path, monkeypatch):
    gone = tmp_path / "gone"
    gone.mkdir()
    measure = _sections.census

    def taken_away(*given, **more):
        shutil.rmtree(gone, ignore_errors=True)
        return measure(*given, **more)

    taken_away.command = measure.command
    monkeypatch.setitem(_sections._MEASURED, "census", (taken_away, {"by_group", "label_column"}))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    error = refused(*words, "-o", gone / "report.html")
    assert "the folder" in error
    assert "does not exist" in error
    shutil.rmtree(rescued(error))


@pytest.mark.parametrize(
    ("more", "says"),
    [([], "nothing was written"), (["--save-tables", "tables"], "give the same command again to go on")],
)
def test_ctrl_c_says_what_is_left(invoke, words, tmp_path, monkeypatch, more, says):
    def stopped(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.chdir(tmp_path)
    stopped.command = _sections.importance.command
    monkeypatch.setitem(_sections._MEASURED, "importance", (stopped, set()))
    words[words.index("census")] = "census,importance"
    code, _, error = invoke(*words, "-o", "report.html", *more)
    assert code == 130
    assert error.endswith(f"attnprobe: stopped; {says}.\n")


def test_a_section_that_fails_leaves_the_tables(refused, words, tmp_path, monkeypatch):
    fails = Mock(side_effect=RuntimeError("boom"), command=attnprobe.importance.command)
    monkeypatch.setitem(_sections._MEASURED, "importance", (fails, set()))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    rescued(refused(*words, "--sections", "census,importance", "-o", tmp_path / "report.html"))
