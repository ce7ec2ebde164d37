"""An option is declared once: what is declared is read, and no list by hand says anything about options."""

import ast
import inspect
import itertools
from functools import cache
from pathlib import Path
from typing import Annotated

import pytest
import stub

import attnprobe
from attnprobe import AttnprobeError
from attnprobe.cli.rerun import RERUN
from attnprobe.commands import COMMANDS
from attnprobe.commands.registry import Rule, command
from attnprobe.option import DECLARED, Group, Option
from attnprobe.wording import in_python

ROOT = Path(attnprobe.__file__).parent
EVERY = [*COMMANDS.values(), RERUN]
#: Read by the front door from the words of a command line, or by the parser.
BY_THE_PARSER = {"verbose"}


@cache
def trees():
    return {
        path.relative_to(ROOT).as_posix(): ast.parse(path.read_text("utf-8")) for path in ROOT.rglob("*.py")
    }


@cache
def words_read():
    """Give every name and every string by which code may read an option, but for the declarations."""
    found = set()
    for path, tree in trees().items():
        if path.startswith("options/"):
            continue
        declared = {
            inner
            for node in ast.walk(tree)
            if isinstance(node, ast.Subscript) and getattr(node.value, "id", "") == "Annotated"
            for inner in ast.walk(node)
        }
        for node in ast.walk(tree):
            if node in declared:
                continue
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                found.add(node.value)
            elif isinstance(node, ast.Attribute):
                found.add(node.attr)
            elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                found.add(node.target.id)  # the field of a class that is filled with the options
    return found


def unread(group):
    """Name the options of a group that no code reads."""
    return (
        {one.keyword for one in group.options}
        - words_read()
        - {one.name for one in group.options if one.name in words_read()}
    )


def groups():
    found = [Group]
    for one in found:
        found += one.__subclasses__()
    return found[1:]


@pytest.mark.parametrize("group", groups(), ids=lambda one: one.__name__)
def test_a_shared_option_is_read(group):
    assert unread(group) <= BY_THE_PARSER | function_parameters()


@cache
def function_parameters():
    """Name the parameters that a command's own function takes and uses."""
    found = set()
    for path, tree in trees().items():
        if path.startswith("commands/") and path.count("/") == 1:
            for node in tree.body:
                if isinstance(node, ast.FunctionDef):
                    found |= used_parameters(node)
    return found


def used_parameters(function):
    taken = {one.arg for one in (*function.args.args, *function.args.kwonlyargs)}
    inside = {node.id for part in function.body for node in ast.walk(part) if isinstance(node, ast.Name)}
    return taken & inside


def test_an_option_that_no_code_reads_is_found():
    class Planted(Group):
        nobody_reads_this: Annotated[bool, Option("Do nothing.")] = False

    assert unread(Planted) == {"nobody_reads_this"}


@pytest.mark.parametrize("one", COMMANDS.values(), ids=lambda one: one.name)
def test_a_command_reads_its_own_options(one):
    (node,) = [
        node
        for path, tree in trees().items()
        if path.startswith("commands/")
        for node in tree.body
        if isinstance(node, ast.FunctionDef) and node.name == one.name and node.decorator_list
    ]
    taken = {part.arg for part in (*node.args.args, *node.args.kwonlyargs)}
    assert taken == used_parameters(node)


def test_switches_and_words_stand_in_no_list():
    """Whoever needs to know them asks their declarations."""
    options = [one for some in DECLARED.values() for one in some]
    switches = {
        name for one in options if one.is_switch for name in (one.keyword, one.name.replace("_", "-"))
    }
    words = {word for one in options for word in (*one.words, *one.choices) if word is not None}
    for path, tree in trees().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.Tuple | ast.List | ast.Set):
                listed = {part.value for part in node.elts if isinstance(part, ast.Constant)}
                assert len(listed) < 4 or not listed <= switches, (path, listed)
    wording = {node.value for node in ast.walk(trees()["wording.py"]) if isinstance(node, ast.Constant)}
    assert not wording & (switches | words)


@pytest.mark.parametrize("one", EVERY, ids=lambda one: one.name)
def test_every_option_is_documented(one):
    for option in one.options:
        assert option.help or option.doc, option.keyword
        assert not option.help or option.name in one.on_line
        assert option.argument or option.default is not inspect.Parameter.empty
    for rule in one.rules:
        for condition in (*rule.given, *rule.beside, *rule.lacks):
            assert condition.removeprefix("not ").partition("=")[0] in one.keywords
        assert "--" not in in_python(rule.said)


@pytest.mark.parametrize("one", COMMANDS.values(), ids=lambda one: one.name)
def test_documentation_names_every_keyword(one):
    said = getattr(attnprobe, one.name).__doc__
    assert all(f"\n    {name}: " in said for name in inspect.signature(one.function).parameters)
    assert "[bold]" not in said
    assert said.startswith(one.help.partition("\n")[0])


def test_editors_see_what_there_is():
    """After a change: python docs/scripts/stub.py."""
    assert stub.PATH.read_text("utf-8") == stub.stub()


@command(
    rules=[
        Rule("--one excludes --other.", given=("one",), beside=("other",)),
        Rule("--kind b needs --number.", given=("kind=b",), lacks=("number",)),
        Rule("--third is for --kind a.", given=("third", "not kind=a")),
    ]
)
def sample(
    *,
    one: Annotated[bool, Option("One.")] = False,
    other: Annotated[str | None, Option("Other.")] = None,
    kind: Annotated[str, Option("Kind.")] = "a",
    number: Annotated[int | None, Option("Number.", low=0, high=5)] = None,
    third: Annotated[bool, Option("Third.")] = False,
):
    """Give what was given."""
    return one, other, kind, number, third


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"one": True, "other": "x"}, "one=True excludes other."),
        ({"kind": "b"}, "kind b needs number."),
        ({"kind": "b", "number": 0, "third": True}, "third=True is for kind a."),
        ({"number": 6}, "number must be at most 5, not 6."),
        ({"number": -1}, "number must be at least 0, not -1."),
        ({"numbr": 1}, "sample() has no keyword 'numbr'. Did you mean number?"),
    ],
)
def test_rules_and_bounds(given, said):
    with pytest.raises(AttnprobeError) as caught:
        sample(**given)
    assert str(caught.value) == said


def test_what_rules_allow():
    for one, number in itertools.product((False, True), (None, 0)):
        assert sample(one=one, number=number) == (one, None, "a", number, False)
    assert sample(kind="b", number=0)[2] == "b"
