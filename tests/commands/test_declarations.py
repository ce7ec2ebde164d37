"""What a declaration of a command gives: documentation, bounds and rules."""

import inspect
import itertools
from typing import Annotated

import pytest

import attnprobe
from attnprobe import AttnprobeError
from attnprobe.commands import COMMANDS
from attnprobe.registry import Option, Rule, command


@pytest.mark.parametrize("one", COMMANDS.values(), ids=lambda one: one.name)
def test_documentation_names_every_keyword(one):
    said = getattr(attnprobe, one.name).__doc__
    assert all(f"\n    {name}: " in said for name in inspect.signature(one.function).parameters)
    assert said.startswith(one.help.partition("\n")[0])


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
        ({"one": True, "other": "x"}, "--one excludes --other."),
        ({"kind": "b"}, "--kind b needs --number."),
        ({"kind": "b", "number": 0, "third": True}, "--third is for --kind a."),
        ({"number": 6}, "--number must be at most 5, not 6."),
        ({"number": -1}, "--number must be at least 0, not -1."),
        ({"numbr": 1}, "sample() has no keyword 'numbr'."),
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
