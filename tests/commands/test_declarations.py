"""What a declaration of a command gives: documentation, bounds and defaults."""

import inspect
from typing import Annotated, Literal, TypedDict, Unpack

import pytest

import attnprobe
from attnprobe import AttnprobeError
from attnprobe.commands import COMMANDS
from attnprobe.registry import Option, command


@pytest.mark.parametrize("name", COMMANDS)
def test_documentation_names_every_keyword(name):
    documentation = getattr(attnprobe, name).__doc__
    parameters = inspect.signature(COMMANDS[name].function).parameters
    assert all(f"\n    {parameter}: " in documentation for parameter in parameters)
    assert documentation.startswith(COMMANDS[name].help.partition("\n")[0])


class Shared(TypedDict, total=False):
    """Options that several commands would share."""

    number: Annotated[int | None, Option("Number.", low=0, high=5)]
    folds: Annotated[int, Option("Folds.", default=5)]
    quiet: Annotated[bool, Option("Quiet.")]


@command()
def sample(
    kind: Annotated[Literal["a", "b"], Option("Kind.")] = "a",
    **options: Unpack[Shared],
):
    """Give what was given."""
    return kind, options


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"number": 6}, "--number must be at most 5, not 6."),
        ({"number": -1}, "--number must be at least 0, not -1."),
        ({"kind": "c"}, "kind must be one of a, b, not 'c'."),
        ({"numbr": 1}, "sample() has no keyword 'numbr'."),
    ],
)
def test_bounds_and_names(given, sentence):
    with pytest.raises(AttnprobeError) as caught:
        sample(**given)
    assert str(caught.value) == sentence


def test_defaults_reach_the_body():
    assert sample() == ("a", {"number": None, "folds": 5, "quiet": False})
    assert sample("b", quiet=True) == ("b", {"number": None, "folds": 5, "quiet": True})


LINKED = {"text": "a dog", "links": [{"source": [0, 1], "target": [2, 5]}]}
PAIR = {"clean": "a [MASK]", "corrupted": "the [MASK]", "answer": "dog", "other": "dog"}


@pytest.mark.parametrize(
    ("name", "given", "sentence"),
    [
        ("entropy", {"texts": 3}, "not int"),
        ("entropy", {"texts": ["a"], "text_column": "t"}, "one by one have no columns"),
        ("entropy", {"texts": {"t": ["a"]}}, "A dict is a table, not texts: name the column"),
        ("entropy", {"texts": {"t": "abc"}, "text_column": "t"}, "The column 't' of the dict is one string"),
        ("entropy", {"texts": {"t": ["a"], "u": []}, "text_column": "t", "text_pair_column": "u"},
         "differ in length"),
        ("entropy", {"texts": ["\u200b"]}, "None of the documents gives a single token"),
        ("importance", {"texts": "embedded", "labels": ["a"]}, "labels go with a list of texts"),
        ("importance", {"texts": ["a"], "labels": [[{}]]}, "not a string or a number"),
        ("importance", {"texts": [("a", "b")], "labels": ["x"], "objective": "similarity"},
         "The score 'x' of a pair is not a number"),
        ("probe", {"texts": [LINKED], "gold": "links"}, "All links of texts are of one document"),
        ("patch", {"pairs": [PAIR]}, "Both answers to .* are the same to demo"),
        ("view", {"text": "[SEP]", "hide_special": True}, "Every token is a special one"),
        ("view", {"text": "a", "text_pair": "b", "image": "c.png"}, "An image is read with one text"),
        ("importance", {"texts": ["a", "b"], "labels": ["c"]}, "There are 2 texts, but 1 labels"),
        ("importance", {"texts": [("a", "\u200b")], "labels": [1], "objective": "similarity"},
         "There are no pairs that could be scored"),
        ("importance", {"texts": [("a", "b")], "labels": [1], "objective": "triplet"}, "negative 1 is no"),
        ("entropy", {"texts": ["a"], "device": "cpu", "device_map": "auto"}, "leave out --device cpu"),
        ("links", {"texts": [{"links": []}]}, "text 0 has no text"),
        ("links", {"texts": [("a", "b")], "alignments": [3]}, "Alignments are strings"),
        ("compare", {"model": ["demo", "demo"], "tokenizers": ["a"]}, "There are 2 models, but 1 tokenizers"),
        ("dynamics", {"model": ["demo"] * 2, "steps": [0, 1], "texts": ["a"], "labels": [1],
                      "measure": "entropy"}, "labels are for importance and prune"),
    ],
)  # fmt: skip
def test_what_python_alone_can_ask(name, given, sentence):
    with pytest.raises(AttnprobeError, match=sentence):
        getattr(attnprobe, name)(**{"model": "demo"} | given)
