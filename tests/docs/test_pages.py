"""What the code writes into the pages is whole: every number and command has its place."""

import importlib.util
import re
import subprocess
import sys
import tomllib
import warnings
from functools import cache

import outputs
import pages
import pytest
from typer.main import get_command

import attnprobe
from attnprobe.cli.app import make_app
from attnprobe.commands import COMMANDS
from attnprobe.statistics.registry import all_statistics

ROOT = outputs.ROOT
GUIDE = {path.name: path.read_text(encoding="utf-8") for path in outputs.PAGES}


@cache
def options_of_commands():
    commands = get_command(make_app()).commands  # type: ignore[attr-defined]
    return {
        command: {
            option
            for parameter in commands[command].params
            for option in (*parameter.opts, *parameter.secondary_opts)
        }
        | {"--help", "--help-all"}
        for command in COMMANDS
    }


@pytest.mark.parametrize("statistic", all_statistics().values(), ids=lambda one: one.name)
def test_a_statistic_says_all_there_is_to_say(statistic):
    """Formula or definition first, then limits and source; the unit is a field of its own."""
    definition = statistic.definition
    assert statistic.unit
    assert re.search(r"^Limits: \S", definition, re.M), definition
    assert re.search(r"^Source: \S", definition, re.M), definition


def test_every_statistic_has_its_place():
    page = pages.statistics()
    for statistic in all_statistics().values():
        assert f"#### `{statistic.name}`" in page
    assert ">>>" not in page
    assert "**Limits:** 0 for a one-hot row" in page


def test_every_column_is_defined():
    """Of the commands that switch heads, ask what they find or look inside; others list their statistics."""
    page = pages.interventions() + pages.gold() + pages.inside() + pages.statistics()
    few = {"limit": 6, "workers": 1}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tables = [
            attnprobe.importance("demo", **few),
            attnprobe.importance("demo", method="lrp", **few),
            attnprobe.ablate("demo", **few),
            attnprobe.prune("demo", step=0.5, random_orders=1, **few),
            attnprobe.syntax("demo", limit=20),
            attnprobe.syntax("demo", limit=20, trees=True),
            attnprobe.coreference("demo", limit=20),
            attnprobe.roles("demo", limit=20),
        ]
        tables += [attnprobe.mixing("demo", by=by, **few) for by in ("head", "layer", "pair")]
        tables.append(attnprobe.rank("demo", map_rank=True, **few))
        tables.append(attnprobe.correlate(in_domain=tables[0], out_domain=tables[2]))
    for table in tables:
        for column in table.columns:
            if column.role == "measure":
                assert f"`{column.name}`" in page, column.name


@pytest.mark.slow
def test_every_column_of_a_comparison_is_defined():
    page = pages.compared()
    few = {"measure": "entropy", "limit": 6, "workers": 1}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tables = [attnprobe.compare(["demo", "demo"], match="layer", **few)]
    for table in tables:
        for column in table.columns:
            name = re.sub("^entropy", "NAME", column.name)
            if column.role in {"measure", "count"} and column.name not in {"n", "checkpoints"}:
                assert f"`{name}`" in page, column.name


def test_formulas_are_left_as_they_are():
    prose = pages.prose("An a_b and a `c_d`.\n\n    sum_c d_c * 2\n\nArgs:\n    d_c: No prose.")
    assert prose == "An a\\_b and a `c_d`.\n\n    sum_c d_c * 2"


def test_every_option_has_its_place():
    page = pages.commands()
    for name, command in get_command(make_app()).commands.items():  # type: ignore[attr-defined]
        section = page[page.index(f"## `attnprobe {name}`") :].partition("\n## ")[0]
        for parameter in command.params:
            if parameter.name != "help":
                assert any(option in section for option in (*parameter.opts, str(parameter.metavar)))
    assert "[bold]" not in page
    assert "<span" not in page


def test_every_room_is_in_the_house():
    page = (ROOT / "docs" / "house.md").read_text(encoding="utf-8")
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    layers = settings["tool"]["importlinter"]["contracts"][0]["layers"]
    assert re.findall(r"(?m)^\| `(\w+)(?:/|\.py)` \| ", page) == layers


@pytest.mark.parametrize("name", GUIDE)
def test_what_a_page_names_is_there(name):
    page = GUIDE[name]
    for path in re.findall(r"`((?:tests|examples|docs|attnprobe)/[\w/.-]*)`", page):
        assert (ROOT / path).exists(), path
    options = options_of_commands()
    for command, rest in re.findall(r"\battnprobe (\w+)((?: [^\s`|>]+)*)", page):
        if command in options:
            given = set(re.findall(r"(?<=\s)--?[a-zA-Z][\w-]*", rest))
            assert given <= options[command], f"attnprobe {command}{rest}"


@pytest.mark.skipif(importlib.util.find_spec("mkdocs") is None, reason="needs the extra docs")
@pytest.mark.slow
def test_the_pages_are_built(tmp_path):
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    built = {path.relative_to(tmp_path).parts[0] for path in tmp_path.rglob("index.html")}
    assert {"numbers", "commands", "models", "python", "house"} <= built
    for page in (tmp_path / "index.html", tmp_path / "numbers" / "index.html"):
        html = page.read_text(encoding="utf-8")
        fetched = re.findall(r'<(?:script|link|img)[^>]+(?:src|href)="(https?://[^"]+)"', html)
        assert not fetched, "a page fetches something from elsewhere"
