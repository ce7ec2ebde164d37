"""Errors and remarks name options as the command line spells them, and in Python as keywords.

One notation, ``--max-length 128``, is written everywhere below the two fronts. The functions of the library
turn it into ``max_length=128``; a command leaves it as it is.
"""

import inspect
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from typing import ParamSpec, TypeVar

from attnprobe.errors import AttnprobeError

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")

#: Options that are switches: True where they are given.
_SWITCHES = {
    *(
        "across-models",
        "all-pairs",
        "allow-bin",
        "content-only",
        "control",
        "everything",
        "force-head",
        "hide-special",
        "highest-first",
        "keep-one",
        "map-rank",
        "offline",
    ),
    *("overwrite", "physical", "rerank", "rollout", "spread", "subtypes", "trees", "truncate"),
    *("trust-remote-code", "words"),
}
#: Switches that are on unless they are switched off, which the command line does with ``--no-``.
_OFF = {"no-keep": "keep", "no-nearest": "nearest"}
#: What is called otherwise in Python.
_RENAMED = {
    "dataset": "texts",
    "from": "from_tables",
    "rank-data": "rank_texts",
    "target-column": "label_column",
}
#: What may stand behind an option as its value: a number with or without a unit, a word in capitals that
#: stands for a value, or one of the words that some option takes.
_WORDS = (
    "float32|float64|float16|bfloat16|cpu|cuda(?::\\d+)?|mps|classification|multi-label|regression|"
    "token-classification|question-answering|seq2seq|masked-lm|causal-lm|representation|accuracy|mcc|"
    "f1_micro|f1_macro|f1|exact_match|pearson|spearman|mse|loss|similarity|bleu|gradient|lrp|ablation|confidence"
)
_OPTION = re.compile(
    r"(?<![\w-])--(?P<name>[a-z]+(?:-[a-z]+)*)(?:[ =](?:"
    r"(?P<number>\d[\d.]*(?![\w.]))|"
    r"(?P<word>\d[\d.]*[A-Za-z]+|" + _WORDS + r")(?![\w-])|"
    r"(?P<any>[A-Z]+)\b))?"
)
_SHORT = re.compile(r"(?<![\w-])-d\b")

_commands: ContextVar[bool] = ContextVar("attnprobe_options", default=False)


def in_python(sentence: str) -> str:
    """Spell options as keywords.

    >>> in_python("pass --objective classification --force-head, or a smaller --batch-tokens")
    'pass objective="classification" force_head=True, or a smaller batch_tokens'
    >>> in_python("--max-length 128 is too much for --memory 64MiB")
    'max_length=128 is too much for memory="64MiB"'
    >>> in_python("leave out --no-nearest")
    'leave out nearest=False'
    """

    def keyword(found: re.Match[str]) -> str:
        name = found["name"]
        spelled = _RENAMED.get(name, name.replace("-", "_"))
        if name in _OFF:
            return f"{_OFF[name]}=False{found[0].removeprefix(f'--{name}')}"
        if name in _SWITCHES:
            return f"{spelled}=True{found[0].removeprefix(f'--{name}')}"
        if found["word"]:
            return f'{spelled}="{found["word"]}"'
        value = found["number"] or found["any"]
        return f"{spelled}={value}" if value else spelled

    return _SHORT.sub("texts", _OPTION.sub(keyword, sentence))


def spoken(sentence: str) -> str:
    """Spell a sentence as whoever reads it would write what it names."""
    return sentence if _commands.get() else in_python(sentence)


@contextmanager
def speaking_options() -> Iterator[None]:
    """Leave options as the command line spells them."""
    token = _commands.set(True)
    try:
        yield
    finally:
        _commands.reset(token)


def speaks_python(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """Let the errors of a function that programs call name its keywords, unless a command calls it."""

    @wraps(function)
    def speaking(*arguments: Parameters.args, **keywords: Parameters.kwargs) -> Result:
        try:
            return function(*arguments, **keywords)
        except AttnprobeError as error:
            error.args = (spoken(str(error)), *error.args[1:])
            raise

    speaking.__signature__ = inspect.signature(function)  # type: ignore[attr-defined]
    return speaking
