"""Where a table goes: never over what is read or kept, and somewhere when the place is gone."""

import errno
import io
import json
import os
import shutil
from pathlib import Path

import pandas
import pytest

from attnprobe import HeadTable, files


@pytest.fixture
def data(tmp_path, monkeypatch):
    """Make a folder with a text, a table of frequencies, a model, and two tables of heads; go there."""
    monkeypatch.chdir(tmp_path)
    Path("in.csv").write_text("text,label\nthe dog ran,0\nshe came late,1\n")
    for name in ("in.json", "in.md.json"):
        Path(name).write_text('["the dog ran", "she came late"]')
    Path("counts.md").write_text("the\t90\n")
    shutil.copytree(Path(files.__file__).with_name("demo"), "model")
    Path("link.csv").symlink_to("in.csv")
    os.link("in.csv", "hard.csv")
    Path("sub").mkdir()
    return tmp_path


def contents(folder):
    return {path: path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


READ = [
    (["entropy", "demo", "-d", "in.csv"], "in.csv"),
    (["entropy", "demo", "-d", "in.csv"], "link.csv"),
    (["entropy", "demo", "-d", "link.csv"], "in.csv"),
    (["entropy", "demo", "-d", "in.csv"], "hard.csv"),
    (["entropy", "demo", "-d", "in.csv"], "sub/../in.csv"),
    (["entropy", "demo", "-d", "in.json"], "in.json"),
    (["entropy", "demo", "-d", "in.md.json"], "in.md"),  # which is described in in.md.json
    (["rare", "demo", "--frequencies", "counts.md"], "counts.md"),
    (["census", "model"], "model/config.json"),
    (["distance", "model", "--format", "csv"], "model/model.safetensors"),
    (["doctor", "model", "--format", "json"], "model/config.json"),
    (["importance", "demo", "-d", "in.csv"], "in.csv"),
    (["ablate", "demo", "-d", "in.csv"], "in.csv"),
    (["prune", "demo", "--rank-data", "in.csv"], "in.csv"),
    (["prune", "demo", "--by", "in.csv:label"], "in.csv"),
    (["correlate", "--in-domain", "in.csv", "--out-domain", "hard.csv"], "in.csv"),
    (["merge", "in.csv", "hard.csv"], "in.csv"),
]


@pytest.mark.parametrize("overwrite", [["--overwrite"], []])
@pytest.mark.parametrize(("words", "target"), READ)
def test_what_is_read_is_not_written_over(refused, data, words, target, overwrite):
    before = contents(data)
    assert "which this command reads" in refused(*words, "-o", target, *overwrite)
    assert contents(data) == before


def test_standard_input_is_a_file_too(refused, data, monkeypatch):
    with Path("in.csv").open() as stream:
        monkeypatch.setattr("sys.stdin", stream)
        sentence = refused("entropy", "demo", "-d", "-", "-o", "in.csv", "--overwrite")
    assert "standard input" in sentence


def test_the_state(refused, data):
    words = ["entropy", "demo", "-o", "heads.csv"]
    for state in ("heads.csv", "HEADS.csv.json", "sub/../heads.csv"):
        assert "--resume and -o name the same file" in refused(*words, "--resume", state)
    words = ["entropy", "demo", "--format", "csv", "-o", "state.1"]  # of the second of several processes
    assert "--resume and -o name the same file" in refused(*words, "--resume", "state")


def test_the_folder_of_a_pruned_checkpoint(refused, data):
    prune = ["prune", "model", "-d", "in.csv", "--share", "0.3", "--overwrite", "--save"]
    assert "-o lies in the folder of --save" in refused(*prune, "sub", "-o", "sub/heads.csv")
    assert "--resume lies in the folder of --save" in refused(*prune, "new", "--resume", "new/state")
    assert "model, which is read, lies in the folder of --save" in refused(*prune, "model")
    assert "which is read" in refused(*prune, ".")


# What can't be written where it should


@pytest.fixture
def full(monkeypatch):
    """Let the disk be full, but for standard output, which pytest keeps in a file."""

    def fails(descriptor):
        if not os.path.samestat(os.fstat(descriptor), os.fstat(1)):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(files.os, "fsync", fails)


#: What stands in for each format on standard output.
SHOWN = {"csv": "csv", "json": "json", "parquet": "csv", "md": "md", "xlsx": "csv"}


@pytest.mark.parametrize(("ending", "shown"), SHOWN.items())
def test_a_full_disk_costs_no_table(invoke, data, full, ending, shown):
    _, expected, _ = invoke("entropy", "demo", "-L", "2", "--format", shown)
    before = contents(data)
    code, out, error = invoke("entropy", "demo", "-L", "2", "-o", f"heads.{ending}")
    assert code == 2
    assert error.splitlines()[-1] == (
        f"attnprobe: could not write {data / 'heads'}.{ending}: No space left on device; the table is on "
        f"standard output instead, as {shown}."
    )
    if shown == "json":
        assert json.loads(out)["rows"] == json.loads(expected)["rows"]
    else:
        assert out == expected
    assert contents(data) == before


def test_a_full_standard_output(invoke, data, monkeypatch, tmp_path):
    """The table is then kept in the temporary folder."""
    from attnprobe.errors import AttnprobeError
    from attnprobe.reports import streams

    def fails(_):
        raise AttnprobeError("could not write to standard output: No space left on device")

    monkeypatch.setattr(streams, "write", fails)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "sub"))
    code, _, error = invoke("entropy", "demo", "-L", "2")
    assert code == 2
    (kept,) = (tmp_path / "sub").rglob("*.csv")
    assert error.splitlines()[-1] == (
        f"attnprobe: could not write to standard output: No space left on device; the table is in "
        f"{kept} instead."
    )
    assert len(pandas.read_csv(kept)) == 24


def test_scores_outlive_a_checkpoint_that_can_not_be_saved(invoke, data, monkeypatch):
    from attnprobe.errors import AttnprobeError

    def fails(*_, **__):
        raise AttnprobeError("pruned can't be written (no space left on device); choose another folder.")

    monkeypatch.setattr("attnprobe.intervention.pruning.writing.save_pruned", fails)
    words = ["--random-orders", "0", "--step", "0.5", "--save", "pruned", "--share", "0.3"]
    code, out, error = invoke("prune", "demo", "-L", "8", *words)
    assert code == 2
    assert "pruned can't be written" in error.splitlines()[-1]
    assert len(pandas.read_csv(io.StringIO(out))) >= 3


def test_a_wrong_name_costs_no_table(invoke, data):
    code, _, error = invoke(
        "entropy", "demo", "-d", "in.csv", "-q", "-o", "heads.csv", "--only", "confidense"
    )
    assert code == 2
    assert "no such column; the nearest is confidence; all columns were written" in error
    assert len(HeadTable.read("heads.csv")) == 24
