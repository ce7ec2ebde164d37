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
from attnprobe.option import DECLARED

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")

#: An option in a sentence, and what may be its value: a number with or without a unit, a word, or a word in
#: capitals that stands for a value.
_OPTION = re.compile(
    r"(?<![\w-])(?P<flag>--[a-z]+(?:-[a-z]+)*|-[a-zA-Z])(?![\w-])(?:[ =](?:(?P<number>\d[\d.]*(?![\w.]))|"
    r"(?P<unit>\d[\d.]*[A-Za-z]+)(?![\w-])|(?P<word>[a-z][\w-]*(?::\d+)?)(?![\w-])|(?P<any>[A-Z]+)\b))?"
)

_commands: ContextVar[bool] = ContextVar("attnprobe_options", default=False)


def in_python(sentence: str) -> str:
    """Spell options as keywords.

    >>> in_python("pass --objective classification --force-head, or a smaller --batch-tokens")
    'pass objective="classification" force_head=True, or a smaller batch_tokens'
    >>> in_python("--max-length 128 is too much for --memory 64MiB")
    'max_length=128 is too much for memory="64MiB"'
    >>> in_python("leave out --offline, or -d")
    'leave out offline=True, or texts'
    """
    return _OPTION.sub(_spell, sentence)


def _spell(found: re.Match[str]) -> str:
    flag, rest = found["flag"], found[0].removeprefix(found["flag"])
    options = sorted(
        DECLARED.get(flag, ()), key=lambda one: (not one.python, one.flags[0].partition("/")[0] != flag)
    )
    if not options or (len(flag) == 2 and not options[0].python):
        return f"{flag[2:].replace('-', '_')}{rest}" if len(flag) > 2 else found[0]
    option = options[0]
    if all(one.is_switch for one in options):  # with some commands, it may have a value
        return f"{option.keyword}={option.flags[0].split('/')[0] == flag}{rest}"
    words = {word for one in options for word in (*one.words, *one.choices)}
    if found["unit"] or (found["word"] or "").partition(":")[0] in words:
        return f'{option.keyword}="{found["unit"] or found["word"]}"'
    value = found["number"] or found["any"]
    return f"{option.keyword}={value}" if value else f"{option.keyword}{rest}"


def spell(sentence: str) -> str:
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
            error.args = (spell(str(error)), *error.args[1:])
            raise

    speaking.__signature__ = inspect.signature(function)  # type: ignore[attr-defined]
    return speaking
