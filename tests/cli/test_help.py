"""What ``--help`` says fits a terminal of 80 columns and a narrower one; what goes on record."""

import itertools
import re

import pytest

from attnprobe.cli.app import COMMANDS, run
from attnprobe.cli.session import command_line, run_words


@pytest.mark.parametrize("command", COMMANDS, ids=lambda one: one.__name__)
def test_paragraphs_fill_their_lines_and_examples_have_one_each(command, capfd, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    assert run([command.__name__, "--help"]) == 0
    said = capfd.readouterr().out.split("╭")[0].splitlines()
    examples = next(number for number, line in enumerate(said) if "Examples:" in line)
    for line in said[examples + 1 :]:  # what goes on in the next line has no indent
        assert not line.strip() or line.startswith("   "), line
    prose = [line.strip() for line in said[3:examples]]
    for line, following in itertools.pairwise(prose):
        if line and following and not line.endswith((".", ")")):  # a sentence that goes on
            first = re.match(r"\S+", following)
            assert first is not None
            assert len(line) + 1 + len(first[0]) > 77, line


@pytest.mark.parametrize(
    ("words", "recorded"),
    [
        (["entropy", "demo", "--token", "hf_abc", "-q"], ["entropy", "demo", "--token", "***", "-q"]),
        (["entropy", "--token=hf_abc", "demo"], ["entropy", "--token=***", "demo"]),
        (["entropy", "demo", "-o", "token.csv"], ["entropy", "demo", "-o", "token.csv"]),
    ],
)
def test_an_access_token_is_not_on_record(words: list[str], recorded: list[str]):
    with run_words(words):
        assert command_line() == ["attnprobe", *recorded]
