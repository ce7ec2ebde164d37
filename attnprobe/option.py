"""What an option is: a parameter of a command, declared once for the command line and for Python.

An option is a parameter of a command's function or an attribute of a ``Group``, always as
``name: Annotated[type, Option(help)] = default``. ``attnprobe.commands.registry`` makes of it an option of
the command line, a keyword of Python with its documentation, and the check of what is given.
"""

import inspect
from collections.abc import Iterator, Mapping
from dataclasses import KW_ONLY, dataclass, field, replace
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin


@dataclass(frozen=True)
class Option:
    """An option of the command line, a keyword of Python, or both.

    Attributes:
        help: What ``--help`` says; an option without it is for Python only.
        doc: What Python's documentation says, where it is not the help in Python's spelling.
        name: The parameter of the command line, where Python calls it otherwise.
        flags: How it is written, where that is not its name behind two dashes.
        line: The type on the command line, where Python takes more.
        argument: Whether it is written without its name.
        low: The least number.
        above: What a number has to be more than.
        high: The largest number.
        hidden: Whether ``--help-all`` alone shows it.
        reads: ``"data"`` for a file or a dataset, ``"order"`` for FILE:COLUMN, ``"table"`` for tables;
            ``"side"`` for data where a model is given, or else a table.
        place: Whether it says where things go or how much is said, and nothing about numbers.
        free: Whether no number depends on it.
        runs: What code of strangers it lets run.
        python: Whether Python has it.
        keyword: Python's name, from the declaration, as are the next two.
        type: Python's type.
        default: What it is where it is not given; ``inspect.Parameter.empty`` where it has to be.
    """

    help: str = ""
    _: KW_ONLY
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
    place: bool = False
    free: bool = False
    runs: str = ""
    python: bool = True
    keyword: str = ""
    type: Any = None
    default: Any = field(default=None, compare=False)

    def declare(self, keyword: str, annotation: Any, default: Any, **more: Any) -> "Option":
        """Fill in what the declaration says."""
        own = {name: value for name, value in more.items() if getattr(self, name) in (None, True)}
        name, flags = self.name or keyword, self.flags
        if not flags and not self.argument:
            dashed = name.replace("_", "-")
            words = (dashed, f"no-{dashed}") if default is True else (dashed,)
            flags = ("/".join(f"--{word}" for word in words),)
        return replace(
            self, keyword=keyword, name=name, flags=flags, type=annotation, default=default,
            line=annotation if self.line is None else self.line, **own,
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


class Group:
    """Options that several commands share; a subclass has one attribute for each."""

    options: tuple[Option, ...] = ()

    def __init_subclass__(cls, panel: str | None = None, *, python: bool = True) -> None:
        """Read the options off the attributes of a group.

        Args:
            panel: What they are sorted under in ``--help``.
            python: Whether Python has them.
        """
        cls.options = tuple(read_options(inspect.get_annotations(cls), vars(cls), panel=panel, python=python))


def read_options(
    annotations: Mapping[str, Any], defaults: Mapping[str, Any], **more: Any
) -> Iterator[Option]:
    """Read options off annotations; what is not ``Annotated`` with an ``Option`` is none."""
    for name, annotation in annotations.items():
        if get_origin(annotation) is Annotated and isinstance(option := annotation.__metadata__[0], Option):
            inner = getattr(annotation.__origin__, "__forward_arg__", annotation.__origin__)
            yield option.declare(name, inner, defaults.get(name, inspect.Parameter.empty), **more)
