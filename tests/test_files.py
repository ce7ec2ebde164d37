import fcntl
import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from attnprobe import files
from attnprobe.cli.app import run
from attnprobe.corpus.store import SequenceStore
from attnprobe.corpus.tokens import TokenSequence
from attnprobe.errors import AttnprobeError, DataError
from attnprobe.files import held, name_unfinished, tidy, write_together
from attnprobe.run.state import State, check_state
from attnprobe.table.destination import check_file, check_free_file


@pytest.fixture
def rest(tmp_path):
    """Make what a process that was killed long ago left, and forget that its folder was tidied."""

    def make(*, folder=False, age=1e6):
        path = name_unfinished(tmp_path / "heads.csv")
        if folder:
            path.mkdir()
            (path / "weights").write_bytes(b"half")
        else:
            path.write_bytes(b"half")
        os.utime(path, (time.time() - age,) * 2)
        files._tidied.discard(tmp_path)
        return path

    return make


def test_a_link_is_kept_and_its_target_written(tmp_path):
    (tmp_path / "there").mkdir()
    link, dangling = tmp_path / "link", tmp_path / "dangling"
    link.symlink_to(tmp_path / "there" / "one")
    dangling.symlink_to(Path("there") / "two")
    (tmp_path / "there" / "one").write_bytes(b"old")
    write_together({link: b"1", dangling: b"2"})
    assert link.is_symlink()
    assert dangling.is_symlink()
    assert [(tmp_path / "there" / name).read_bytes() for name in ("one", "two")] == [b"1", b"2"]


def test_a_state_behind_a_link(tmp_path):
    (tmp_path / "there").mkdir()
    link = tmp_path / "state"
    link.symlink_to(tmp_path / "there" / "state")
    state = State(link, {"setting": "one"})
    state.keep("maps", {}, 1, dict)
    state.write()
    assert link.is_symlink()
    assert State(link, {"setting": "one"}).stage("maps").done == 1


def test_a_state_behind_a_link_into_nowhere_is_refused_early(tmp_path):
    (tmp_path / "state").symlink_to(tmp_path / "gone" / "state")
    with pytest.raises(DataError, match="There is no folder"):
        check_state(tmp_path / "state")


def test_a_link_in_circles(tmp_path):
    (tmp_path / "a").symlink_to(tmp_path / "b")
    (tmp_path / "b").symlink_to(tmp_path / "a")
    with pytest.raises(AttnprobeError, match="a link that leads in circles"):
        write_together({tmp_path / "a": b""})
    assert (tmp_path / "a").is_symlink()


@pytest.mark.parametrize("folder", [False, True])
def test_what_a_killed_process_left_is_removed_by_the_next(tmp_path, rest, folder):
    rest(folder=folder)
    write_together({tmp_path / "heads.csv": b"whole"})
    assert [path.name for path in tmp_path.iterdir()] == ["heads.csv"]


def test_what_is_held_new_or_nobody_knows_whose_is_spared(tmp_path, rest):
    spared = [rest(age=60), tmp_path / ".attnprobe-mine.tmp", tmp_path / "attnprobe-0123456789abcdef.tmp"]
    for path in spared[1:]:
        path.write_bytes(b"mine")
        os.utime(path, (0, 0))
    aside = rest(folder=True)  # killed between two renames: the checkpoint that was there is in .old
    aside.with_suffix(".old").mkdir()
    to_a_link = name_unfinished(tmp_path / "x")
    to_a_link.symlink_to(spared[1])
    os.utime(to_a_link, (0, 0), follow_symlinks=False)
    with held(rest()):
        tidy(tmp_path)
        assert len(list(tmp_path.iterdir())) == 7
    files._tidied.discard(tmp_path)
    tidy(tmp_path)
    assert len(list(tmp_path.iterdir())) == 6


#: Holds a file until it is killed.
HOLDER = """
import sys, time
from pathlib import Path
from attnprobe.files import held
with held(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(60)
"""


def test_a_live_process_keeps_its_file_and_a_killed_one_does_not(tmp_path, rest):
    path = rest()
    command = [sys.executable, "-c", HOLDER, str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "held\n"
        tidy(tmp_path)
        assert path.exists()
        process.send_signal(signal.SIGKILL)
    files._tidied.discard(tmp_path)
    tidy(tmp_path)
    assert not path.exists()


def test_a_file_is_held_until_it_has_its_name(tmp_path, monkeypatch):
    """Between writing and renaming a process may be stopped for as long as somebody likes."""
    seen, replace = [], Path.replace

    def checked(path, target):
        with path.open("rb") as other, pytest.raises(BlockingIOError):
            fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
        seen.append(path)
        return replace(path, target)

    monkeypatch.setattr(Path, "replace", checked)
    write_together({tmp_path / "one": b"1", tmp_path / "two": b"2"})
    assert len(seen) == 2


LONG = "a" * 300


@pytest.mark.parametrize(
    "words",
    [
        ("entropy", "demo", "-o", f"{LONG}.csv"),
        ("entropy", "demo", "-o", f"{'a' * 251}.csv"),  # whose description has a letter more
        ("view", "demo", "a dog ran", "-o", f"{LONG}.html"),
        ("report", "demo", "-o", f"{LONG}.html"),
        ("entropy", "demo", "--resume", LONG),
        ("prune", "demo", "--share", "0.4", "--save", LONG),
    ],
)
def test_a_name_that_is_too_long_is_refused_early(words, tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    assert run(list(words)) == 2
    said = capfd.readouterr().err
    assert "too long" in said
    assert "unexpected" not in said
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("check", [check_file, lambda path: check_free_file(path, ["csv"])])
@pytest.mark.parametrize("name", ["nul\0.csv", "file/heads.csv"])
def test_a_name_that_can_be_none(tmp_path, check, name):
    (tmp_path / "file").touch()
    with pytest.raises(AttnprobeError, match=r"can't write to .*: (embedded null|a part of the path)"):
        check(tmp_path / name)


def test_a_limit_on_the_size_of_files():
    """As ``ulimit -f`` sets it; what is buffered shows it late, and closing the file shows it again."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 22, before[1]))
    try:
        with (
            pytest.raises(AttnprobeError, match=r"does not fit .*larger than is allowed.*ulimit -f.*TMPDIR"),
            SequenceStore(9) as store,
        ):
            store.extend([TokenSequence([1] * (1 << 20)), TokenSequence([1, 2, 3])])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
