"""A command is one function: its command line, Python's keywords, checks and documentation come from it.

An option is a parameter of that function, or a key of the ``TypedDict`` that it unpacks its keywords from
(PEP 692), always as ``name: Annotated[type, Option(help)]``. It is an option of the command line, a keyword
of Python with its documentation, and the check of what is given.
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
        doc: What Python's documentation says, where it is not the help in Python's spelling.
        name: The parameter of the command line, where Python calls it otherwise.
        flags: How it is written, where that is not its name behind two dashes.
        panel: What it is sorted under in ``--help``.
        line: The type on the command line, where Python takes more.
        argument: Whether it is written without its name.
        low: The least number.
        above: What a number has to be more than.
        high: The largest number.
        hidden: Whether ``--help-all`` alone shows it.
        reads: ``"data"`` for a file or a dataset, ``"order"`` for FILE:COLUMN, ``"table"`` for tables;
            ``"side"`` for data where a model is given, or else a table.
        free: Whether no number depends on it.
        python: Whether Python has it.
        keyword: Python's name, from the declaration, as is the next.
        type: Python's type.
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

    def declare(self, keyword: str, annotation: Any, *, python: bool, default: Any = None) -> "Option":
        """Fill in what the declaration says."""
        default = self.default if default is None else default
        if annotation is bool:
            default = bool(default)
        name, flags = self.name or keyword, self.flags
        if not flags and not self.argument:
            dashed = name.replace("_", "-")
            words = (dashed, f"no-{dashed}") if default is True else (dashed,)
            flags = ("/".join(f"--{word}" for word in words),)
        line = annotation if self.line is None else self.line
        return replace(
            self, keyword=keyword, name=name, flags=flags, type=annotation, default=default, line=line,
            python=python,
        )  # fmt: skip

    @property
    def on_line(self) -> bool:
        """Whether the command line has it."""
        return bool(self.help)

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

    def is_given(self, value: Any) -> bool:
        """Tell whether a value is another than where the option is left out."""
        simple = isinstance(value, str | int | float | NoneType)
        return value is not None and not (simple and value == self.default)


def read_options(
    annotations: Mapping[str, Any], defaults: Mapping[str, Any] | None = None, *, python: bool = True
) -> Iterator[Option]:
    """Read options off annotations; what is not ``Annotated`` with an ``Option`` is none."""
    for name, annotation in annotations.items():
        if get_origin(annotation) is Annotated and isinstance(option := annotation.__metadata__[0], Option):
            inner = getattr(annotation.__origin__, "__forward_arg__", annotation.__origin__)
            default = None if defaults is None else defaults[name]
            yield option.declare(name, inner, python=python, default=default)


def list_names(*groups: type) -> set[str]:
    """Name the options of groups, as Python does."""
    return {name for group in groups for name in group.__annotations__}


@dataclass(frozen=True)
class Command:
    """A command: a function, the options that it takes, and the defaults of those that it unpacks."""

    function: Callable[..., Any]
    options: Sequence[Option]
    docstring: str = ""
    unpacked: Mapping[str, Any] = field(default_factory=dict)

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
        plain = _EXAMPLES.sub("", said).strip()
        names = inspect.signature(self.function).parameters
        arguments = "\n".join(_document(self.keywords[name]) for name in names)
        return f"{plain}\n\nArgs:\n{arguments}\n\n{more}"

    def rename_aliases(self, given: dict[str, Any]) -> dict[str, Any]:
        """Give keywords the names that they have here; the column of labels has two, for one."""
        for name, option in self.keywords.items():
            for alias in set(option.aliases) & set(given) - set(self.keywords):
                if given.get(name) is not None:
                    raise UsageError(f"{alias} is another name of {name}; give one of them.")
                given = {name if one == alias else one: value for one, value in given.items()}
        return given

    def complete(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Check keywords, and add the defaults of the unpacked ones that are not given."""
        named = self.rename_aliases(dict(given))
        self.check(named)
        return {**self.unpacked, **named}

    def check(self, given: Mapping[str, Any]) -> None:
        """Refuse unknown keywords, and values out of bounds."""
        for name, value in given.items():
            if name not in self.keywords:
                raise UsageError(f"{self.name}() has no keyword {name!r}.")
            self._check_value(self.keywords[name], value)

    def _check_value(self, option: Option, value: Any) -> None:
        if option.choices and value not in option.choices:
            words = ", ".join(str(word) for word in option.choices if word is not None)
            raise UsageError(f"{option.keyword} must be one of {words}, not {value!r}.")
        if isinstance(value, int | float):
            spelled = max(option.flags, key=len)
            if option.low is not None and value < option.low:
                raise UsageError(f"{spelled} must be at least {option.low}, not {value}.")
            if option.above is not None and not value > option.above:
                raise UsageError(f"{spelled} must be more than {option.above}, not {value}.")
            if option.high is not None and value > option.high:
                raise UsageError(f"{spelled} must be at most {option.high}, not {value}.")


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
        own = read_options(
            {one.name: one.annotation for one in named}, {one.name: one.default for one in named}
        )
        shared = list(read_options(group))
        beside = [option for one in on_line for option in read_options(one.__annotations__, python=False)]

        @wraps(function)
        def checked(*arguments: P.args, **keywords: P.kwargs) -> R:
            given = described.rename_aliases(dict(keywords))
            names = (one.name for one in named)
            described.check(dict(zip(names, arguments, strict=False)) | given)
            return function(*arguments, **{**described.unpacked, **given})  # type: ignore[arg-type]

        options = sorted([*own, *shared, *beside], key=lambda one: not one.argument)
        unpacked = {one.keyword: one.default for one in shared}
        docstring = inspect.cleandoc(function.__doc__ or "")
        for name, text in parts.items():
            docstring = docstring.replace(f"{{{name}}}", text)
        described = Command(checked, options, docstring, unpacked)
        parameters = [one.replace(annotation=described.keywords[one.name].type) for one in named]
        parameters += [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=one.default, annotation=one.type)
            for name, one in described.keywords.items()
            if name in group
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
