"""A command is one function: its command line, Python's keywords, checks and documentation come from it.

An option is a parameter of that function, or a key of the ``TypedDict`` that it unpacks ``**options`` from
(PEP 692), always as ``name: Annotated[type, Option(help)]``; what excludes one another is an ``if`` at the
top of the function.
"""

import inspect
import re
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import cached_property, wraps
from inspect import Parameter
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, ParamSpec, TypeVar, Union, get_args, get_origin

from attnprobe.errors import UsageError

P = ParamSpec("P")
R = TypeVar("R")
#: Where the sections of a docstring begin that are for Python alone; arguments are documented before them.
_PYTHON_ONLY = re.compile(r"^(?=(?:Notes|Returns|Raises|Warns|References):|>>> )", re.M)
#: Command lines that a docstring shows, which Python's documentation leaves out.
_EXAMPLES = re.compile(r"^Examples:\n(?:  .*\n?|\n)+", re.M)


@dataclass(frozen=True)
class Option:
    """An option of the command line, a keyword of Python, or both.

    Attributes:
        help: What ``--help`` says; an option without it is for Python only.
        default: What it is where it is not given; of a parameter, its own default. A switch is off.
        doc: What Python's documentation says, where that is more than the help.
        name: The parameter of the command line, where Python calls it otherwise.
        flags: How it is written, where that is not its name behind two dashes.
        line: The type on the command line, where that is not the first of those that Python takes.
        argument: Whether it is written without its name.
        above: What a number has to be more than; ``low`` and ``high`` are the least and the largest.
        hidden: Whether ``--help-all`` alone shows it.
        reads: ``"data"`` for a file or a dataset, ``"order"`` for FILE:COLUMN, ``"table"`` for tables;
            ``"side"`` for data where a model is given, or else a table.
        free: Whether no number depends on it.
        python: Whether Python has it; ``keyword`` and ``type`` are its name and type there.
    """

    help: str = ""
    _: KW_ONLY
    default: Any = field(default=None, compare=False)
    doc: str = ""
    name: str = ""
    flags: tuple[str, ...] = ()
    metavar: str | None = None
    panel: str | None = None
    line: Any = None
    argument: bool = False
    low: int | None = None
    above: int | None = None
    high: int | None = None
    hidden: bool = False
    reads: Literal["", "data", "order", "table", "side"] = ""
    free: bool = False
    python: bool = True
    keyword: str = ""
    type: Any = None

    def declare(self, keyword: str, kind: Any, *, python: bool, default: Any = None) -> "Option":
        """Copy with the name, flags and types of the parameter that the option stands at."""
        default = self.default if default is None else default
        if kind is bool:
            default = bool(default)
        name, flags, line = self.name or keyword, self.flags, self.line or kind
        if not flags and not self.argument:
            dashed = name.replace("_", "-")
            flags = (f"--{dashed}/--no-{dashed}" if default is True else f"--{dashed}",)
        if isinstance(line, str):  # the name of a type that is not imported here
            line = str | None
        elif line is kind and get_origin(kind) in {Union, UnionType}:
            first, *others = get_args(kind)
            line = first | None if NoneType in others else first
        declared = {"keyword": keyword, "type": kind, "default": default, "python": python}
        return replace(self, name=name, flags=flags, line=line, **declared)

    def make_parameter(self, name: str, annotation: Any) -> Parameter:
        return Parameter(name, Parameter.KEYWORD_ONLY, default=self.default, annotation=annotation)

    def check(self, value: Any) -> None:
        """Refuse a word that is none of the choices, and a number out of bounds."""
        kinds = get_args(self.type) if get_origin(self.type) in {Union, UnionType} else (self.type,)
        words = [word for kind in kinds if get_origin(kind) is Literal for word in get_args(kind)]
        if words and isinstance(value, str | NoneType) and value not in (*words, self.default):
            raise UsageError(f"{self.keyword} must be one of {', '.join(words)}, not {value!r}.")
        if isinstance(value, int | float):
            flag = max(self.flags, key=len)
            if self.low is not None and value < self.low:
                raise UsageError(f"{flag} must be at least {self.low}, not {value}.")
            if self.above is not None and not value > self.above:
                raise UsageError(f"{flag} must be more than {self.above}, not {value}.")
            if self.high is not None and value > self.high:
                raise UsageError(f"{flag} must be at most {self.high}, not {value}.")


def read_options(
    annotations: Mapping[str, Any], defaults: Mapping[str, Any] | None = None, *, python: bool = True
) -> Iterator[Option]:
    """Read options off annotations; what is not ``Annotated`` with an ``Option`` is none."""
    for name, annotation in annotations.items():
        if get_origin(annotation) is Annotated and isinstance(option := annotation.__metadata__[0], Option):
            kind = getattr(annotation.__origin__, "__forward_arg__", annotation.__origin__)
            yield option.declare(name, kind, python=python, default=(defaults or {}).get(name))


@dataclass(frozen=True)
class Command:
    """A command: a function, the options that it takes, and the defaults of those that it unpacks."""

    function: Callable[..., Any]
    options: Sequence[Option]
    docstring: str
    unpacked: Mapping[str, Any]

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
        return {option.name: option for option in self.options if option.help}

    @property
    def help(self) -> str:
        return _PYTHON_ONLY.split(self.docstring, maxsplit=1)[0].rstrip()

    @property
    def documentation(self) -> str:
        """Python's docstring, with all arguments."""
        fill = textwrap.TextWrapper(110, " " * 4, " " * 8, break_on_hyphens=False).fill
        arguments = [fill(f"{name}: {one.doc or one.help}") for name, one in self.keywords.items()]
        more = "".join(_PYTHON_ONLY.split(self.docstring, maxsplit=1)[1:])
        return "\n".join([_EXAMPLES.sub("", self.help).strip(), "\nArgs:", *arguments, f"\n{more}"])

    def complete(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Add the defaults of unpacked keywords, or refuse unknown ones and values that they can't have."""
        for name, value in given.items():
            if name not in self.keywords:
                raise UsageError(f"{self.name}() has no keyword {name!r}.")
            self.keywords[name].check(value)
        return {**self.unpacked, **given}


def command(*on_line: type, **parts: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Make a command of a function, whose options are its parameters and the keys of ``**options``.

    All keys reach the function as ``options``, with their defaults where they are not given. ``on_line`` are
    groups of options that the command line alone has, ``parts`` what stands for {their names} in the
    docstring.
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        signature = inspect.signature(function)
        named = dict(signature.parameters)
        group = get_args(named.pop("options").annotation)[0].__annotations__ if "options" in named else {}
        shared = [*read_options(group)]
        defaults = {name: one.default for name, one in named.items()}
        options = [*read_options({name: one.annotation for name, one in named.items()}, defaults), *shared]
        options += [option for one in on_line for option in read_options(one.__annotations__, python=False)]
        options.sort(key=lambda one: not one.argument)
        docstring = inspect.cleandoc(function.__doc__ or "")
        for name, text in parts.items():
            docstring = docstring.replace(f"{{{name}}}", text)

        @wraps(function)
        def checked(*arguments: P.args, **keywords: P.kwargs) -> R:
            described.complete(dict(zip(defaults, arguments, strict=False)))
            return function(*arguments, **described.complete(keywords))  # type: ignore[arg-type]

        described = Command(checked, options, docstring, {one.keyword: one.default for one in shared})
        parameters = [one.replace(annotation=described.keywords[name].type) for name, one in named.items()]
        parameters += [one.make_parameter(one.keyword, one.type) for one in shared]
        checked.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
        checked.command = described  # type: ignore[attr-defined]
        return checked

    return decorate


def split_names(named: str | Sequence[Any] | None) -> list[Any] | None:
    """Split names that are given in one string, with commas between them."""
    if isinstance(named, str):
        return [name for name in map(str.strip, named.split(",")) if name]
    return None if named is None else list(named)
