"""What ``--help`` says fits a terminal of 80 columns and a narrower one; what goes on record."""

import pytest

from attnprobe.cli.session import command_line, run_words


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
