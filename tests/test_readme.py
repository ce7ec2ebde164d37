"""The README's examples run, and it names what there is."""

import re
import shlex
from pathlib import Path

import every_type
import pytest

from attnprobe.cli.app import COMMANDS, run

README = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
SHELL = [line for block in re.findall(r"```sh\n(.*?)```", README, re.S) for line in block.splitlines()]
PYTHON = re.findall(r"```python\n(.*?)```", README, re.S)


@pytest.mark.parametrize("line", [line for line in SHELL if line.startswith("attnprobe") and " demo" in line])
def test_shell_examples_run(line, tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    assert run(shlex.split(line)[1:]) == 0, capfd.readouterr().err


@pytest.mark.parametrize("code", PYTHON)
def test_python_examples_run(code, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    exec(compile(code, "README.md", "exec"), {})
    assert "_se" in (out := capsys.readouterr().out) or "HeadTable(" in out


def test_every_command_has_a_row():
    for command in COMMANDS:
        assert f"| `attnprobe {command.__name__}` |" in README


def test_the_two_commands_are_there():
    assert "pip install -e . && attnprobe entropy demo" in SHELL
    assert 'pip install -e ".[test]" && pytest -n auto --dist loadfile' in SHELL


def test_every_model_type_is_in_a_table():
    """The tables are made by hand from what the test of every type prints; none may be missing."""
    tables = README[README.index("## Which models") : README.index("## Speed")]
    named = {name.split(",")[0] for name in re.findall(r"`([^`]+)`", tables)}
    assert named >= set(every_type.TYPES)


def test_options_in_the_table_exist(capfd):
    for command in COMMANDS:
        run([command.__name__, "--help"])
    options = capfd.readouterr().out
    for option in re.findall(
        r"--[a-z][a-z-]+", README[README.index("## Commands") : README.index("Exit code 0")]
    ):
        assert option in options
