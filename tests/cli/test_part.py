"""``--part``: for every command whose tables add up, refused where it makes no sense, and resumed."""

import pandas as pd
import pytest

from attnprobe.commands import COMMANDS
from attnprobe.findings.merge import list_mergeable_commands

LINES = [f"the dog number {place} ran to the old house ." for place in range(12)]


@pytest.fixture
def corpus(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "text.txt").write_text("\n".join(LINES) + "\n")
    (tmp_path / "second.txt").write_text("\n".join(LINES[1::3]) + "\n")
    return tmp_path


def test_whatever_merge_adds_up_has_parts():
    """But for random tokens, which nobody reads, and the columns that have no command of their own."""
    having = {name for name, command in COMMANDS.items() if "part" in command.keywords}
    assert having == set(list_mergeable_commands()) - {"induction", "norm", "profile"}


def test_a_part_is_as_a_file_of_its_documents(invoke, corpus):
    code, _, _ = invoke("entropy", "demo", "-d", "second.txt", "-o", "second.csv")
    assert code == 0
    code, _, err = invoke("entropy", "demo", "-d", "text.txt", "--part", "2/3", "-o", "part.csv")
    assert code == 0
    assert "Only part 2 of 3 was read" in err
    part, expected = (pd.read_csv(name).drop(columns="dataset") for name in ("part.csv", "second.csv"))
    pd.testing.assert_frame_equal(part, expected)


def test_it_is_not_for_runs_that_end_by_themselves(invoke, corpus):
    code, _, err = invoke("entropy", "demo", "-d", "text.txt", "--part", "1/2", "--until", "0.1")
    assert code == 2
    assert "--until as many as it takes; leave one out" in err
