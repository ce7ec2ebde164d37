"""A command is one function: its command line, Python's keywords, checks and documentation come from it.

An option is a parameter of that function, or a key of the ``TypedDict`` that it unpacks its keywords from
(PEP 692), always as ``name: Annotated[type, Option(help)]``; what excludes one another is an ``if`` at the
top of the function.
"""

import inspect
import re
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import cached_property, wraps
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, ParamSpec, TypeVar, Union, get_args, get_origin

from attnprobe.errors import UsageError

P = ParamSpec("P")
R = TypeVar("R")
#: Sections of a docstring that are for Python alone; arguments are documented before them.
_PYTHON_ONLY = re.compile(r"^(Notes|Returns|Raises|Warns|References):|^>>> ", re.M)
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
        line: The type on the command line, where Python takes more.
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
        """Fill in what the declaration says."""
        default = self.default if default is None else default
        if kind is bool:
            default = bool(default)
        name, flags = self.name or keyword, self.flags
        if not flags and not self.argument:
            dashed = name.replace("_", "-")
            flags = (f"--{dashed}/--no-{dashed}" if default is True else f"--{dashed}",)
        line = kind if self.line is None else self.line
        declared = {"keyword": keyword, "type": kind, "default": default, "python": python}
        return replace(self, name=name, flags=flags, line=line, **declared)

    @property
    def aliases(self) -> tuple[str, ...]:
        """Its other names in Python, as the command line has other flags."""
        return tuple(flag.strip("-").replace("-", "_") for flag in self.flags[1:] if flag.startswith("--"))

    @property
    def choices(self) -> tuple[Any, ...]:
        """The words that it may be, and None; nothing where it may be anything."""
        parts = get_args(self.type) if get_origin(self.type) in {Union, UnionType} else (self.type,)
        if not all(part is NoneType or get_origin(part) is Literal for part in parts):
            return ()
        return tuple(word for part in parts for word in ((None,) if part is NoneType else get_args(part)))

    def check(self, value: Any) -> None:
        """Refuse a word that is none of the choices, and a number out of bounds."""
        if self.choices and value not in self.choices:
            words = ", ".join(str(word) for word in self.choices if word is not None)
            raise UsageError(f"{self.keyword} must be one of {words}, not {value!r}.")
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
        return _split(self.docstring)[0]

    @property
    def documentation(self) -> str:
        """Python's docstring, with all arguments."""
        text, more = _split(self.docstring)
        options = (self.keywords[name] for name in inspect.signature(self.function).parameters)
        arguments = "\n".join(
            textwrap.fill(
                f"{option.keyword}: {option.doc or option.help}", 110, break_on_hyphens=False,
                initial_indent=" " * 4, subsequent_indent=" " * 8,
            )
            for option in options
        )  # fmt: skip
        return f"{_EXAMPLES.sub('', text).strip()}\n\nArgs:\n{arguments}\n\n{more}"

    def complete(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Check keywords, give each the name that it has here, and add the defaults of unpacked ones."""
        named = dict(given)
        for name, option in self.keywords.items():
            for alias in set(option.aliases) & set(named) - set(self.keywords):
                if named.get(name) is not None:
                    raise UsageError(f"{alias} is another name of {name}; give one of them.")
                named[name] = named.pop(alias)
        self.check(named)
        return {**self.unpacked, **named}

    def check(self, given: Mapping[str, Any]) -> None:
        """Refuse unknown keywords, and values that an option can't have."""
        for name, value in given.items():
            if name not in self.keywords:
                raise UsageError(f"{self.name}() has no keyword {name!r}.")
            self.keywords[name].check(value)


def command(*on_line: type, **parts: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Make a command of a function, whose options are its parameters and the keys of ``**options``.

    All keys reach the function as ``options``, with their defaults where they are not given. ``on_line`` are
    groups of options that the command line alone has, ``parts`` what stands for {their names} in the
    docstring.
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        signature = inspect.signature(function)
        named = [one for one in signature.parameters.values() if one.kind is not one.VAR_KEYWORD]
        unpacked = [one for one in signature.parameters.values() if one.kind is one.VAR_KEYWORD]
        group = get_args(unpacked[0].annotation)[0].__annotations__ if unpacked else {}
        defaults = {one.name: one.default for one in named}
        options = [*read_options({one.name: one.annotation for one in named}, defaults)]
        shared = [*read_options(group)]
        options += shared
        options += [option for one in on_line for option in read_options(one.__annotations__, python=False)]
        docstring = inspect.cleandoc(function.__doc__ or "")
        for name, text in parts.items():
            docstring = docstring.replace(f"{{{name}}}", text)

        @wraps(function)
        def checked(*arguments: P.args, **keywords: P.kwargs) -> R:
            described.check(dict(zip(defaults, arguments, strict=False)))
            return function(*arguments, **described.complete(keywords))  # type: ignore[arg-type]

        options.sort(key=lambda one: not one.argument)
        described = Command(checked, options, docstring, {one.keyword: one.default for one in shared})
        parameters = [one.replace(annotation=described.keywords[one.name].type) for one in named]
        parameters += [
            inspect.Parameter(
                one.keyword, inspect.Parameter.KEYWORD_ONLY, default=one.default, annotation=one.type
            )
            for one in shared
        ]
        checked.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
        checked.command = described  # type: ignore[attr-defined]
        return checked

    return decorate


def _split(docstring: str) -> tuple[str, str]:
    """Split a docstring where the part begins that is for Python alone."""
    match = _PYTHON_ONLY.search(docstring)
    start = len(docstring) if match is None else match.start()
    return docstring[:start].rstrip() if match else docstring, docstring[start:]


def split_names(named: str | Sequence[Any] | None) -> list[Any] | None:
    """Split names that are given in one string, with commas between them."""
    if isinstance(named, str):
        return [name for name in map(str.strip, named.split(",")) if name]
    return None if named is None else list(named)
