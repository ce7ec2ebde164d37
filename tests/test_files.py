import resource
from pathlib import Path

import pytest

from attnprobe.cli.app import run
from attnprobe.corpus.store import SequenceStore
from attnprobe.corpus.tokens import TokenSequence
from attnprobe.errors import AttnprobeError, DataError
from attnprobe.files import write_together
from attnprobe.run.state import State, check_state
from attnprobe.table.destination import check_file, check_free_file


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
    state.stage("maps").mark_batch_done(dict)
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
    with pytest.raises(DataError, match=r"(oop|circles)"):
        check_state(tmp_path / "a")


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
    error = capfd.readouterr().err
    assert "too long" in error
    assert "unexpected" not in error
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("check", [check_file, lambda path: check_free_file(path, ["csv"])])
@pytest.mark.parametrize("name", ["nul\0.csv", "file/heads.csv"])
def test_a_name_that_can_be_none(tmp_path, check, name):
    (tmp_path / "file").touch()
    with pytest.raises(AttnprobeError, match=r"can't write to .*: (embedded null|Not a directory)"):
        check(tmp_path / name)


def test_a_limit_on_the_size_of_files():
    """As ``ulimit -f`` sets it; what is buffered shows it late, and closing the file shows it again."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 22, before[1]))
    try:
        with (
            pytest.raises(AttnprobeError, match=r"does not fit .*File too large.*TMPDIR"),
            SequenceStore(9) as store,
        ):
            store.extend([TokenSequence([1] * (1 << 20)), TokenSequence([1, 2, 3])]).ids(1)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
