"""A command is one function: its command line, Python's keywords, checks and documentation come from it."""

import inspect
import re
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, wraps
from typing import Any

from attnprobe.errors import AttnprobeError
from attnprobe.option import Group, Option, read_options

#: Sections of a docstring that are for Python alone; arguments are documented before them.
_PYTHON_ONLY = re.compile(r"^(Notes|Returns|Raises|Warns|References):|^>>> ", re.M)
#: Command lines that a docstring shows, which Python's documentation leaves out.
_EXAMPLES = re.compile(r"^Examples:\n(?:  .*\n?|\n)+", re.M)


@dataclass(frozen=True)
class Rule:
    """Options that exclude or need one another.

    Attributes:
        said: The error for who breaks it.
        given: Options that are all given; ``name=value`` has that value, ``not name=value`` has another.
        beside: It is broken where one of these is given too; or, if there are none, without more.
        lacks: It holds where one of these is given.
    """

    said: str
    given: tuple[str, ...]
    beside: tuple[str, ...] = ()
    lacks: tuple[str, ...] = ()


@dataclass(frozen=True)
class Command:
    """A command: a function, and the options that it takes."""

    function: Callable[..., Any]
    options: Sequence[Option]
    rules: Sequence[Rule] = ()
    docstring: str = ""

    @property
    def name(self) -> str:
        return self.function.__name__

    @cached_property
    def keywords(self) -> dict[str, Option]:
        """The options that Python has, by their names there."""
        return {option.keyword: option for option in self.options if option.python}

    @cached_property
    def on_line(self) -> dict[str, Option]:
        """The options that the command line has, by their names there."""
        return {option.name: option for option in self.options if option.on_line}

    @property
    def help(self) -> str:
        return _split(self.docstring)[0]

    @property
    def documentation(self) -> str:
        """Python's docstring, with all arguments."""
        said, more = _split(self.docstring)
        plain = re.sub(r"\[bold\](.*?)\[/bold\]", r"``\1``", _EXAMPLES.sub("", said)).strip()
        names = inspect.signature(self.function).parameters
        arguments = "\n".join(_document(self.keywords[name]) for name in names)
        return f"{plain}\n\nArgs:\n{arguments}\n\n{more}"

    def rename_aliases(self, given: dict[str, Any]) -> dict[str, Any]:
        """Give keywords the names that they have here; the column of labels has two, for one."""
        for name, option in self.keywords.items():
            for alias in set(option.aliases) & set(given) - set(self.keywords):
                if given.get(name) is not None:
                    raise AttnprobeError(f"{alias} is another name of {name}; give one of them.")
                given = {name if one == alias else one: value for one, value in given.items()}
        return given

    def check(self, given: Mapping[str, Any]) -> None:
        """Refuse unknown keywords, values out of bounds, and options that exclude one another."""
        for name, value in given.items():
            if name not in self.keywords:
                raise AttnprobeError(f"{self.name}() has no keyword {name!r}.")
            self._check_value(self.keywords[name], value)
        for rule in self.rules:
            beside = not rule.beside or any(self._holds(one, given) for one in rule.beside)
            lacks = not any(self._holds(one, given) for one in rule.lacks)
            if beside and lacks and all(self._holds(one, given) for one in rule.given):
                raise AttnprobeError(rule.said)

    def _check_value(self, option: Option, value: Any) -> None:
        if option.choices and value not in option.choices:
            words = ", ".join(str(word) for word in option.choices if word is not None)
            raise AttnprobeError(f"{option.keyword} must be one of {words}, not {value!r}.")
        if isinstance(value, int | float):
            spelled = max(option.flags, key=len)
            if option.low is not None and value < option.low:
                raise AttnprobeError(f"{spelled} must be at least {option.low}, not {value}.")
            if option.above is not None and not value > option.above:
                raise AttnprobeError(f"{spelled} must be more than {option.above}, not {value}.")
            if option.high is not None and value > option.high:
                raise AttnprobeError(f"{spelled} must be at most {option.high}, not {value}.")

    def _holds(self, condition: str, given: Mapping[str, Any]) -> bool:
        """Tell whether an option is given, or has a value."""
        name, has_value, value = condition.removeprefix("not ").partition("=")
        option = self.keywords[name]
        found = given.get(name, option.default)
        return (found == value) is not condition.startswith("not ") if has_value else option.is_given(found)


def command(
    *groups: type[Group], rules: Sequence[Rule] = ()
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Make a command of a function, with options of groups and rules.

    Parameters that are ``Annotated`` with an ``Option`` are options of its own; others are options of the
    groups; those that it does not name reach it as ``**options``, as far as they are given.
    """

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        signature = inspect.signature(function)
        raw = [one for one in signature.parameters.values() if one.kind is not one.VAR_KEYWORD]
        annotations, defaults = (
            {p.name: getattr(p, part) for p in raw} for part in ("annotation", "default")
        )
        own = list(read_options(annotations, defaults))
        named = {(one.keyword, one.python) for one in own}
        shared = [one for group in groups for one in group.options if (one.keyword, one.python) not in named]

        @wraps(function)
        def checked(*arguments: Any, **keywords: Any) -> Any:
            keywords = described.rename_aliases(keywords)
            described.check(dict(zip(annotations, arguments, strict=False)) | keywords)
            return function(*arguments, **keywords)

        options = sorted([*shared, *own], key=lambda one: not one.argument)
        described = Command(checked, options, rules, inspect.cleandoc(function.__doc__ or ""))
        parameters = [one.replace(annotation=described.keywords[one.name].type) for one in raw]
        parameters += [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=one.default, annotation=one.type)
            for name, one in described.keywords.items()
            if name not in annotations
        ]
        checked.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
        checked.command = described  # type: ignore[attr-defined]
        return checked

    return decorate


def _split(said: str) -> tuple[str, str]:
    """Split a docstring where the part begins that is for Python alone."""
    found = _PYTHON_ONLY.search(said)
    return (said, "") if found is None else (said[: found.start()].rstrip(), said[found.start() :])


def _document(option: Option) -> str:
    text = f"{option.keyword}: {option.doc or option.help}"
    wrapped = textwrap.fill(text, 106, subsequent_indent=" " * 4, break_on_hyphens=False)
    return textwrap.indent(wrapped, " " * 4)


def split_names(named: str | Sequence[Any] | None) -> list[Any] | None:
    """Split names that are given in one string, with commas between them."""
    if isinstance(named, str):
        return [name for name in map(str.strip, named.split(",")) if name]
    return None if named is None else list(named)
