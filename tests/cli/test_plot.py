"""``attnprobe plot`` from the command line: files, pipes, refusals, and the same picture as in Python."""

import io
import sys

import picture_tables as tables
import pytest

import attnprobe
from attnprobe.cli.app import run


@pytest.fixture
def heads(tmp_path, monkeypatch):
    """Write a table, and go where it lies."""
    monkeypatch.chdir(tmp_path)
    tables.of_heads("entropy", "previous").save("heads.csv")
    return tmp_path


def test_a_picture_is_that_of_the_function(heads, capsys):
    words = ["--theme", "dark", "--only", "previous", "--width", "400", "--title", "mine", "--kind", "depth"]
    assert run(["plot", "heads.csv", "-o", "heads.svg", *words]) == 0
    assert capsys.readouterr().err == "attnprobe: wrote heads.svg\n"
    given = attnprobe.plot("heads.csv", theme="dark", only="previous", width=400, title="mine", kind="depth")
    assert (heads / "heads.svg").read_bytes() == given.render("svg")


def test_a_pipe_gets_svg(heads, monkeypatch):
    class Piped(io.StringIO):
        pass

    monkeypatch.setattr(sys, "stdout", Piped())
    assert run(["plot", "heads.csv"]) == 0
    assert sys.stdout.getvalue().startswith("<svg")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["heads.csv", "-o", "heads.gif"], "end it in .svg, .png, .pdf or .html"),
        (["heads.csv", "-o", "there.svg"], "add --overwrite"),
        (["heads.csv", "-o", "x.svg", "--kind", "map"], "it can with heatmap, scatter, depth"),
        (["heads.csv", "-o", "x.svg", "--only", "no\x1b[31m"], "--only no: the table has no such"),
        ([".", "-o", "x.svg"], ". is no table"),
        (["gone\u202e\x1b[2J.csv", "-o", "x.svg"], "There is no file gone.csv"),
    ],
)
def test_refusals_are_one_sentence(heads, capsys, words, says):
    (heads / "there.svg").write_text("mine")
    before = sorted(heads.iterdir())
    assert run(["plot", *words]) == 2
    error = capsys.readouterr().err
    assert says in error
    assert error.count("\n") == 1
    assert sorted(heads.iterdir()) == before
    assert (heads / "there.svg").read_text() == "mine"


def test_a_table_is_not_written_over(heads, capsys):
    (heads / "link.svg").symlink_to(heads / "heads.csv")
    assert run(["plot", "heads.csv", "-o", "link.svg", "--overwrite"]) == 2
    assert (heads / "heads.csv").read_text().startswith("model,")
