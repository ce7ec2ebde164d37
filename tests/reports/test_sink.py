import errno
import io
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from attnprobe.errors import AttnprobeError
from attnprobe.reports import streams
from attnprobe.reports.sink import check_output, write_rescued, write_rescued_tables, write_table


@pytest.fixture
def table(heads):
    return heads(2, 3, entropy=np.linspace(0.1, 0.6, 6))


def test_a_pipe_gets_csv_and_a_person_a_table(capsys, monkeypatch, table):
    assert write_table(table) == []
    assert capsys.readouterr().out.startswith("model,dataset,layer,head,n,entropy,entropy_se\n")
    monkeypatch.setattr(streams, "is_terminal", lambda: True)
    write_table(table)
    assert "lowest" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["heads.csv", "heads.md", "heads.parquet", "HEADS.CSV"])
def test_a_file_has_its_description_beside_it(tmp_path, capsys, table, name):
    path = tmp_path / name
    beside = path.with_name(f"{path.name}.json")
    assert write_table(table, output=path) == [path, beside]
    assert sorted(tmp_path.iterdir()) == sorted([path, beside])
    about = json.loads(beside.read_text("utf-8"))
    assert (about["table"], about["provenance"]["seed"]) == (name, 42)
    assert about["columns"][5]["unit"] == "nats"
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("name", "format", "message"),
    [
        ("heads.ods", None, r"\.csv, \.json, \.md, \.parquet, \.tex or \.xlsx"),
        ("heads", None, r"\.csv, \.json"),
        ("heads.csv", "xml", "unknown format 'xml'"),
        ("heads.csv", "table", "for the terminal"),
        ("heads.json", "csv", r"ends in \.json, but --format is csv"),
        ("heads.csv", "json", r"ends in \.csv, but --format is json"),
        ("heads.MD", "parquet", r"ends in \.md, but --format is parquet"),
        ("missing/heads.csv", None, "does not exist"),
        ("folder.csv", None, "is a folder"),
    ],
)
def test_what_cannot_be_is_refused_before_the_work(tmp_path, table, name, format, message):
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(AttnprobeError, match=message):
        check_output(tmp_path / name, overwrite=True, format=format)
    with pytest.raises(AttnprobeError, match=message):
        write_table(table, output=tmp_path / name, format=format, overwrite=True)
    assert [path.name for path in tmp_path.iterdir()] == ["folder.csv"]


def test_a_device_is_never_replaced():
    with pytest.raises(AttnprobeError, match="not an ordinary file"):
        check_output(Path(os.devnull), overwrite=True, format="csv")


def test_a_closed_folder_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path) != tmp_path)  # root may write anywhere
    with pytest.raises(AttnprobeError, match="permission"):
        check_output(tmp_path / "heads.csv")


@pytest.mark.parametrize("existing", ["heads.csv", "heads.csv.json"])
def test_nothing_is_overwritten_unasked(tmp_path, table, existing):
    (tmp_path / existing).write_text("mine")
    with pytest.raises(AttnprobeError, match="--overwrite"):
        check_output(tmp_path / "heads.csv", overwrite=False)
    with pytest.raises(AttnprobeError, match=existing):
        write_table(table, output=tmp_path / "heads.csv")
    assert [path.read_text() for path in tmp_path.iterdir()] == ["mine"]


def test_overwrite_replaces_both_files_and_keeps_their_mode(tmp_path, table, heads):
    path = tmp_path / "heads.csv"
    write_table(table, output=path)
    path.chmod(0o600)
    write_table(heads(1, 1, entropy=np.ones(1)), output=path, overwrite=True)
    assert len(pd.read_csv(path)) == 1
    assert json.loads(path.with_name(f"{path.name}.json").read_text())["rows"] == 1
    assert path.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("content", ['{"my": "data"}', "[1]", "not json", '{"table": "heads.parquet"}'])
def test_overwrite_spares_a_json_that_is_not_this_tables_own(tmp_path, table, content):
    (tmp_path / "heads.csv.json").write_text(content)
    with pytest.raises(AttnprobeError, match=r"not the description of heads\.csv"):
        write_table(table, output=tmp_path / "heads.csv", overwrite=True)
    assert [path.read_text() for path in tmp_path.iterdir()] == [content]


@pytest.mark.parametrize("step", [("replace", 1), ("replace", 2), ("fsync", 1), ("fsync", 2)])
@pytest.mark.parametrize(
    "failure", [(errno.ENOSPC, "No space left on device"), (errno.EACCES, "Permission"), (errno.EIO, "error")]
)
def test_a_failure_leaves_nothing_behind(tmp_path, table, monkeypatch, step, failure):
    (broken, at_call), (code, message) = step, failure
    working, calls = getattr(os, broken), []

    def fail(*arguments, **options):
        calls.append(arguments)
        if len(calls) == at_call:
            raise OSError(code, os.strerror(code))
        return working(*arguments, **options)

    monkeypatch.setattr(os, broken, fail)
    with pytest.raises(AttnprobeError, match=message):
        write_table(table, output=tmp_path / "heads.csv")
    assert len(calls) == at_call
    assert list(tmp_path.iterdir()) == []


def test_an_interrupt_leaves_nothing_behind_and_the_old_file_whole(tmp_path, table, monkeypatch):
    path = tmp_path / "heads.json"
    path.write_text("old")

    def interrupt(descriptor):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupt)
    with pytest.raises(KeyboardInterrupt):
        write_table(table, output=path, overwrite=True)
    assert [file.read_text() for file in tmp_path.iterdir()] == ["old"]


PROGRAM = """
import numpy as np, sys
from attnprobe.reports.sink import write_table
from attnprobe.table.table import HeadTable
from attnprobe.table.table import Column
rows = int(sys.argv[2])
table = HeadTable("t", [Column("pair", role="key"), Column("x")], {"pair": range(rows), "x": np.ones(rows)})
if sys.argv[1] == "table":
    table = HeadTable("t", [Column("layer", role="key"), Column("head", role="key"), Column("x")],
                      {"layer": range(rows), "head": [0] * rows, "x": np.ones(rows)})
write_table(table, format=sys.argv[1])
print("printed later")
print("still here", file=sys.stderr)
"""


@pytest.mark.parametrize("format", ["csv", "table"])
@pytest.mark.parametrize("rows", ["3", "3000"])  # within and beyond one buffer
def test_a_closed_pipe_ends_quietly(format, rows):
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, format, rows],
        stdout=writer,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    os.close(writer)
    assert (done.returncode, done.stderr) == (0, "still here\n")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="Linux only")
def test_a_full_disk_behind_stdout_is_one_clear_error():
    program = (
        "from attnprobe.errors import AttnprobeError\ntry:\n"
        + "".join(f"    {line}\n" for line in PROGRAM.strip().splitlines())
        + "except AttnprobeError as error:\n    print(error, file=sys.stderr)\nprint('printed later')\n"
    )
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-c", program, "csv", "3"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert (done.returncode, done.stderr) == (
        0,
        "could not write to standard output: No space left on device\n",
    )


class Disk(io.RawIOBase):
    """A disk that has room for so many bytes: it takes a part of what does not fit, then nothing."""

    def __init__(self, room: int):
        self.room, self.content = room, b""

    def writable(self):
        return True

    def write(self, content):
        if not self.room:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        taken = bytes(content[: min(self.room, 100)])
        self.content += taken
        self.room -= len(taken)
        return len(taken)


@pytest.fixture
def rooms(tmp_path, monkeypatch):
    """Give two folders that rescued tables may go to, the first of which is the temporary one."""
    folders = tmp_path / "tmp", tmp_path / "home"
    for folder in folders:
        folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folders[0]))
    monkeypatch.setattr(Path, "home", lambda: folders[1])
    return folders


@pytest.mark.parametrize("unbuffered", [True, False])
@pytest.mark.parametrize("room", [*range(0, 400, 23), -2, -1, 0, 1])
def test_a_rescued_table_is_whole_in_the_place_that_is_named(table, monkeypatch, rooms, room, unbuffered):
    whole = table.to_csv()
    disk = Disk(room if room > 1 else max(0, len(whole) + room))
    buffer = disk if unbuffered else io.BufferedWriter(disk)
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(buffer, write_through=unbuffered))
    where = write_rescued(table, Path("heads.csv"), None)
    monkeypatch.undo()
    kept = list(rooms[0].rglob("*.csv"))
    if where == "on standard output instead, as csv":
        assert (disk.content.decode(), kept) == (whole, [])
        return
    assert where.startswith(f"in {kept[0]} instead")
    assert kept[0].read_text() == whole
    assert len(disk.content) < len(whole)
    assert ("and standard output holds its beginning only" in where) == bool(disk.content)
    assert kept[0].parent.stat().st_mode & 0o077 == 0


def test_rescue_goes_on_to_the_next_folder_with_room(table, monkeypatch, rooms):
    monkeypatch.setattr(sys, "stdout", None)
    opened = Path.open

    def full_in_tmp(path, mode="r", *given, **more):
        if mode == "xb" and rooms[0] in path.parents:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return opened(path, mode, *given, **more)

    monkeypatch.setattr(Path, "open", full_in_tmp)
    where = write_rescued(table, Path("heads.csv"), None)
    folder = write_rescued_tables({"one": table})
    assert Path(where.split()[1]).read_text() == table.to_csv()
    assert (folder / "one.csv").read_text() == table.to_csv()
    assert folder.parent == rooms[1]
    assert list(rooms[0].iterdir()) == []
