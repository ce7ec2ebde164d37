"""Formats of tables, a file each: what stands here is known to options, help texts and errors.

A file is named after the extension of its format, and says what it can do: ``FORMAT = Format(...)``. What
takes long to import is imported inside functions, as every ``--help`` reads this list.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from pkgutil import iter_modules
from typing import Any

from attnprobe.errors import UsageError
from attnprobe.table.cells import Cell, Column
from attnprobe.table.numbers import write_column


@dataclass(frozen=True)
class Sheet:
    """What a format writes: clean text, numbers of Python, None for what is undefined."""

    title: str
    columns: Sequence[Column]
    cells: Sequence[Sequence[Cell]]  # column by column
    notes: Sequence[str]
    provenance: Mapping[str, Any]
    precision: int | None = None  # the significant digits to which all numbers are rounded, if to any

    def __len__(self) -> int:
        return len(self.cells[0]) if self.cells else 0

    def rows(self) -> Iterator[tuple[Cell, ...]]:
        return zip(*self.cells, strict=True)

    def constants(self) -> dict[str, str]:
        """Find the columns with one word in all rows, such as the model, for a caption."""
        return {
            column.name: cells[0]
            for column, cells in zip(self.columns, self.cells, strict=True)
            if len(cells) > 1 and len(set(cells)) == 1 and isinstance(cells[0], str)
        }

    def write(
        self, *, undefined: str = "", plus_minus: str = ""
    ) -> Iterator[tuple[Column, Sequence[Cell], list[str]]]:
        """Give each column, its cells, and what a reader sees of them, rounded by their errors.

        With ``plus_minus``, errors are written behind their measures, and columns of errors are left out.
        """
        fields = list(zip(self.columns, self.cells, strict=True))
        by_name = {column.name: cells for column, cells in fields}
        for column, cells in fields:
            is_error = column.role == "error"
            if is_error and plus_minus and column.name.removesuffix("_se") in by_name:
                continue
            written = write_column(
                cells,
                cells if is_error else by_name.get(f"{column.name}_se", ()),
                precision=self.precision,
                probability=column.is_probability,
                undefined=undefined,
                plus_minus="" if is_error else plus_minus,
            )
            yield column, cells, written

    def to_html(self) -> str:
        """Render the table for a notebook, its notes below; every word is escaped."""
        import pandas

        same = self.constants()
        shown = {
            f"{column.name} ({column.unit})" if column.unit else column.name: written
            for column, _, written in self.write(undefined="\N{MIDDLE DOT}", plus_minus=" ± ")
            if column.name not in same
        }
        facts = [f"{name} {word}" for name, word in same.items()]
        with pandas.option_context("display.max_colwidth", None):
            rows = pandas.DataFrame(shown, dtype=str).to_html(index=False, border=0, max_rows=60)
        notes = "".join(f"<li>{escape(note)}</li>" for note in self.notes)
        return (
            f"<div><p><b>{escape(self.title)}</b> {escape(', '.join(facts))}</p>"
            f'<div style="overflow: auto; max-height: 32em">{rows}</div><ul>{notes}</ul></div>'
        )


@dataclass(frozen=True)
class Format:
    """What a format can do."""

    write: Callable[[Sheet], str | bytes]  # gives a table as text or bytes
    #: Gives the rows in a file as a data frame, and what it says of them as ``attrs``, where it can be read;
    #: some columns hold words, whatever they look like.
    read: Callable[[Path, Collection[str]], Any] | None = None
    stands_alone: bool = False  # whether no json with units, notes and provenance is written beside it
    holds_notes: bool = False  # whether a reader sees the notes of the table
    is_for_papers: bool = False  # whether it has the columns that a reader needs, unless others are chosen
    binary: bool = False  # whether it is no text
    package: str = ""  # what it needs, if that may be missing


def extension(path: Path) -> str:
    return path.suffix.lower().removeprefix(".")


def either(names: Iterable[str], before: str = "") -> str:
    """List some names, the last after an "or"."""
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
    package = FORMATS[format].package
    if package and find_spec(package) is None:
        raise UsageError(f"{format} needs {package}: pip install {package}, or choose csv or json")
