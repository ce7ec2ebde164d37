"""README holds what the project promises of it, and names what there is; ``tests/docs`` runs its examples."""

import re
from pathlib import Path

import outputs
import pages
import pytest

from attnprobe.commands import COMMANDS

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
SHELL = [line for block in re.findall(r"```sh\n(.*?)```", README, re.S) for line in block.splitlines()]
#: What a reader brings along: a checkpoint, a file, a browser to show a page in.
_OWN = re.compile(r"my-|(notes|part1)\.txt|^attnprobe view demo \"[^\"]+\"$")
#: Commands on the pages that anybody can run as they stand, beside those whose output is shown.
ON_DEMO = [
    line
    for path in outputs.PAGES
    for block in re.findall(r"```sh\n(.*?)```", path.read_text(encoding="utf-8"), re.S)
    for line in block.splitlines()
    if re.search(r"(^|\| )attnprobe \w+ demo\b", line) and not _OWN.search(line)
]
#: Commands that read texts, and need no more of them than a few.
LONG = re.compile(
    r"attnprobe (ablate|interact|prune|importance|correlate|compare|report|roles|census|entropy|positional"
    r"|special|rare|distance|rank|mixing|syntax|coreference|links) demo"
)


def shortened(line):
    """Let it read few texts; that pages show what is printed is tested in ``tests/docs``."""
    if not LONG.search(line):
        return line
    read = 60 if re.search("syntax|coreference|links", line) else 6
    few = re.sub(r"(-L|--limit) \d+", f"-L {read}", line)
    return few if few != line else LONG.sub(rf"\g<0> -L {read}", line)


@pytest.mark.parametrize("line", sorted({shortened(line) for line in ON_DEMO}))
@pytest.mark.slow
def test_shell_examples_run(line):
    with outputs.workplace():
        outputs.output_of(outputs.Example("console", line, None))


def test_it_is_a_front_page():
    assert len(README.splitlines()) <= 130
    assert "demo" in next(example.code for example in outputs.examples(README) if example.shown)


def test_every_command_is_named():
    for command in COMMANDS:
        assert f"`{command}`: " in README


def test_the_two_commands_are_there():
    """One installs attnprobe and runs its main job; the other installs the tests and passes them."""
    assert "pip install -e . && attnprobe entropy demo" in SHELL
    assert 'pip install -e ".[test]" && pytest -n auto --dist loadfile' in SHELL
    assert 'pip install -e ".[test]" && pytest -n auto --dist loadfile' in (ROOT / ".ci/run").read_text()


def test_its_links_lead_somewhere():
    links = re.findall(r"\]\((?!https?:)([^)#]+)", README)
    assert len(links) > 10
    for link in links:
        assert (ROOT / link).exists(), link
    for page in (ROOT / "docs").glob("*.md"):
        if page.name not in {"index.md", pages.RECORD.name}:
            assert f"docs/{page.name}" in links, page


def test_figures_in_its_prose_are_printed_or_known():
    """What README says in words, an example on it shows; otherwise the words would grow old.

    Where the tests can't have the data, the paragraph says so.
    """
    paragraphs = re.sub(r"```.*?```", "", README, flags=re.S).split("\n\n")
    prose = "\n\n".join(one for one in paragraphs if "not rerun by the tests" not in " ".join(one.split()))
    assert len(paragraphs) - len(prose.split("\n\n")) <= 1
    shown = "".join(example.shown or "" for example in outputs.examples(README))
    for figure in re.findall(r"(?<![\w.-])\d+\.\d+(?![\w.]*\d)", prose):
        assert figure in shown or figure in {"3.11", "2.0"}, figure
