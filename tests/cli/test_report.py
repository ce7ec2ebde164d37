"""The command that makes a report: streams, files, refusals."""

import pytest

import attnprobe
from attnprobe.cli import browsing


def test_a_page_and_its_tables(invoke, saved, text, tmp_path):
    path, folder = tmp_path / "report.html", tmp_path / "tables"
    words = ["report", saved("bert"), "-d", text, "--sections", "census,sentences"]
    code, out, error = invoke(*words, "-o", path, "--save-tables", folder)
    assert (code, out) == (0, "")
    assert error.endswith(f"attnprobe: wrote {path}\n")
    assert "attnprobe report" in path.read_text("utf-8")
    assert sorted(one.name for one in folder.iterdir()) == ["census.csv", "census.json"]
    again = tmp_path / "again.html"
    assert invoke("report", "--from", folder, "-o", again) == (0, "", f"attnprobe: wrote {again}\n")
    table = attnprobe.census(saved("bert"), text)
    assert attnprobe.HeadTable.read(folder / "census.csv").to_csv() == table.to_csv()


def test_nothing_is_written_where_something_is_refused(invoke, saved, text, tmp_path):
    path = tmp_path / "report.html"
    path.write_text("mine")
    for words, said in {
        ("-o", path): "already exists",
        ("-o", tmp_path / "report.pdf"): "end its name in .html",
        ("-o", tmp_path / "no" / "report.html"): "does not exist",
        ("-o", path, "--overwrite", "--sections", "nonsense"): "There is no section 'nonsense'",
        ("-o", path, "--overwrite", "-d", path): "which this command reads",
        ("-o", path, "--overwrite", "--save-tables", path): "is not a folder",
    }.items():
        code, out, error = invoke("report", saved("bert"), "-d", text, *words)
        assert (code, out) == (2, "")
        assert said in error
        assert error.count("\n") == 1
        assert path.read_text() == "mine"
    assert {one.name for one in tmp_path.iterdir()} == {"report.html", "text.txt"}


@pytest.mark.parametrize(
    ("words", "said"), [([], "Name a MODEL"), (["demo", "--from", "x"], "leave out the MODEL")]
)
def test_a_model_or_tables(invoke, tmp_path, words, said):
    code, _, error = invoke("report", *words, "-o", tmp_path / "report.html")
    assert code == 2
    assert said in error


def test_without_a_file_and_a_browser_it_says_so(invoke, monkeypatch):
    monkeypatch.setattr(browsing, "browser_there", lambda: False)
    code, _, error = invoke("report", "demo")
    assert code == 2
    assert "-o report.html" in error
