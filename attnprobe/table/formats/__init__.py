"""Formats of tables, a file each: what stands here is known to options, help texts and errors.

A file is named after the extension of its format, and says what it can do: ``FORMAT = Format(...)``. What
takes long to import is imported inside functions, as every ``--help`` reads this list.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from pkgutil import iter_modules
from typing import TYPE_CHECKING, Any

from attnprobe.errors import AttnprobeError
from attnprobe.table.sheet import Sheet

if TYPE_CHECKING:
    import pandas


@dataclass(frozen=True)
class Format:
    """What a format can do."""

    write: Callable[[Sheet], str | bytes]  # gives a table as text or bytes
    #: Gives the rows in a file, where that can be read; some columns hold words, be they like numbers.
    read: "Callable[[Path, Collection[str]], pandas.DataFrame] | None" = None
    #: Gives what the file itself says of its table, where the format has room for that.
    describe: "Callable[[Path], Mapping[str, Any]] | None" = None
    stands_alone: bool = False  # whether no json with units, notes and provenance is written beside it
    holds_notes: bool = False  # whether a reader sees the notes of the table
    is_for_papers: bool = False  # whether it has the columns that a reader needs, unless others are chosen
    binary: bool = False  # whether it is no text
    package: str = ""  # what it needs, if that may be missing


def extension(path: Path) -> str:
    """Give the extension of a file, without its dot and in small letters."""
    return path.suffix.lower().removeprefix(".")


def either(names: Iterable[str], before: str = "") -> str:
    """List some names, the last after an "or".

    >>> either(["csv", "json", "md"], before=".")
    '.csv, .json or .md'
    """
    *most, last = [f"{before}{name}" for name in names]
    return f"{', '.join(most)} or {last}" if most else last


#: Every format by its extension.
FORMATS: dict[str, Format] = {
    name: import_module(f"{__name__}.{name}").FORMAT
    for name in sorted(module.name for module in iter_modules(__path__))
}
#: The extensions of those that can be read again.
READABLE = tuple(name for name, format in FORMATS.items() if format.read is not None)


def check_installed(format: str) -> None:
    """Refuse a format whose package is missing."""
    package = FORMATS[format].package
    if package and find_spec(package) is None:
        raise AttnprobeError(f"{format} needs {package}: pip install {package}, or choose csv or json")
