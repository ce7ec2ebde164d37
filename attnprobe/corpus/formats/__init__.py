"""Formats of data, a file each: what stands here is known to readers, errors and gold links.

A file says in ``FORMATS`` what it reads, each a ``TableFormat``, a ``DocumentFormat`` or a
``CoreferenceFormat``. What takes long to import is imported inside functions, as all files are loaded to know
their extensions.
"""

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from itertools import chain, islice
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, BinaryIO, ClassVar

from attnprobe.corpus.sources.streams import EACH_ALSO, peek_lines, shorten, strip_packing
from attnprobe.errors import AttnprobeWarning, DataError
from attnprobe.table.formats import either
from attnprobe.table.naming import join_names

if TYPE_CHECKING:
    from attnprobe.corpus.sources.document import Document
    from attnprobe.corpus.sources.text import Source

#: The columns of rows that name them one by one are those of so many first rows.
PEEK_ROWS = 32
#: What stands for the file that a document lies in, and for its folder, where a column of groups is named.
FILE, FOLDER = "file", "folder"


@dataclass(frozen=True, slots=True)
class Row:
    """The cells of a row by column name, and the words that say where it stands ("line 3").

    Where the format itself says which rows are parts of one document, ``group`` names that document.
    """

    where: str
    cells: Mapping[str, Any]
    group: str | None = None


@dataclass(frozen=True)
class Table:
    """Column names and a stream of rows that is read once."""

    columns: Sequence[str]
    rows: Iterator[Row]
    names: Mapping[str, Sequence[str]] = field(default_factory=dict)  # of classes, by column of lists
    header: bool = False  # whether the columns are named by a first line, which may be data


def make_table(rows: Iterator[Row], names: Mapping[str, Sequence[str]] | None = None) -> Table:
    """Make a table of rows that carry their own column names."""
    first = list(islice(rows, PEEK_ROWS))
    columns = list(dict.fromkeys(column for row in first for column in row.cells))
    return Table(columns, chain(first, rows), names or {})


def name_columns(header: Sequence[str], rows: Iterable[Sequence[str]], source: "Source") -> list[str]:
    """Name columns after the first row, or by their numbers, from 1, where the user says that it is data.

    An empty cell, as pandas has it above its index, is called by its number too: "column 1".
    """
    if not source.header:
        return [str(number) for number in range(1, len(header) + 1)]
    columns = [cell.strip() for cell in header]
    options = {source.text_column, source.pair_column, source.label_column}
    if _is_title(columns, [[cell.strip() for cell in row] for row in rows], options):
        title = " ".join(cell for cell in columns if cell)
        raise DataError(
            f"{source.spec} starts with {shorten(repr(title))}, which looks like a title above the line of "
            "column names; delete what stands above that line, give each column a name, or quote the cells "
            "that hold separators"
        )
    if any(column is not None and column.isdecimal() for column in options) and any(map(is_number, columns)):
        listed = ", ".join(shorten(repr(cell)) for cell in columns[:8])
        sentence = (
            f"the first line of {source.spec} names its columns ({listed}); --no-header says that it is data."
        )
        warnings.warn(sentence, AttnprobeWarning, stacklevel=2)
    return [cell or f"column {number}" for number, cell in enumerate(columns, start=1)]


def _is_title(first: Sequence[str], rows: Sequence[Sequence[str]], named: set[str | None]) -> bool:
    """Tell a title from column names: it leaves cells blank that the line of names below it fills.

    Column names may leave one blank too, as above an index. The row below them is then like the others, with
    numbers where they have some; a line of names is not. ``named`` are columns that the user names.
    """
    filled = [row for row in rows if any(row)]
    wide = [place for place, row in enumerate(filled) if sum(map(bool, row)) > 1]
    full = [place for place, cell in enumerate(first) if cell]
    blank = [place for place, cell in enumerate(first) if not cell]
    if not full or 2 * len(wide) <= len(filled):
        return False
    if len(full) == 1 and (full[0] < len(first) - 1 or len(first) == 1):
        return True
    if not blank:
        return False
    width = max(map(len, [first, *filled]))
    names, *data = ([*row, *[""] * (width - len(row))] for row in filled[wide[0] :])
    kinds = [{is_number(row[place]) for row in data if row[place]} for place in range(width)]
    if any(is_number(names[place]) and False not in kinds[place] for place in blank if place < full[0]):
        return False  # an index, which numbers the rows
    differs = any(
        len(data) > 1 and kinds[place] == {not is_number(names[place])} and (names[place] or place in blank)
        for place in range(width)
    )
    if differs or named & set(names) - set(first):
        return True
    behind = blank[-1] > full[0] or (len(full) == 1 and len(blank) > 1)
    return behind and any(names[place] for place in blank) and not is_number(names[0])


def is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


@dataclass(frozen=True)
class TableFormat:
    """How files of some extensions are read as tables.

    ``read`` is given the bytes of a file, unpacked, and what is wanted of it; errors call it ``source.spec``.
    """

    extensions: tuple[str, ...]
    read: "Callable[[BinaryIO, Source], Table]"
    links: bool = False  # whether it can hold words and gold links
    sheets: bool = False  # whether --dataset-config names one of its sheets
    header: bool = False  # whether the first row names the columns


@dataclass(frozen=True)
class DocumentFormat:
    """The same for files without columns, which are read as documents."""

    extensions: tuple[str, ...]
    read: "Callable[[BinaryIO, Source], Iterator[Document]]"
    links: bool = False
    header: ClassVar[bool] = False


@dataclass(frozen=True)
class CoreferenceFormat:
    """How files of coreference are read: documents with a link for every mention that has an antecedent.

    ``read`` is given the lines and the path of a file, or what errors call them, and the column or comment
    that says in which group a document counts, or None. ``begins`` tells the format by its first line that is
    not blank, where no extension does.
    """

    name: str
    extension: str
    read: "Callable[[Iterable[str], str, str | None], Iterator[Document]]"
    begins: Callable[[str], bool]


def refuse_columns(source: "Source", name: str) -> None:
    """Refuse columns of what has none, which errors call ``name``."""
    if source.image_column is not None:
        raise DataError(f"{name} is text without columns; leave out --image-column")
    if any((source.text_column, source.pair_column, source.label_column, source.document_column)):
        raise DataError(
            f"{name} is text without columns; leave out --text-column, --text-pair-column, "
            "--label-column and --document-column, or rename it to .conll if it holds a word and its label a "
            "line"
        )


def refuse_group(source: "Source", name: str) -> None:
    """Refuse a column of groups of what has neither columns nor comments, which errors call ``name``."""
    if source.group_column is not None:
        raise DataError(
            f"{name} is text without columns, which says of no document in which group it counts; give a "
            "table with such a column, or a folder with a folder of .txt files for each group and "
            f"--by-group {FOLDER}"
        )


#: The modules that read formats, in the order in which errors list them.
_READERS = (
    "corefud",
    "formats.csv",
    "gap",
    "formats.json",
    "formats.parquet",
    "formats.plain_text",
    "formats.tagged",
    "conllu",
    "formats.xlsx",
)


@cache
def _load_formats(kind: type[Any]) -> list[Any]:
    every = chain.from_iterable(import_module(f"attnprobe.corpus.{name}").FORMATS for name in _READERS)
    return [one for one in every if isinstance(one, kind)]


@cache
def find_tables() -> dict[str, TableFormat]:
    """Find the formats with columns, by extension."""
    formats: list[TableFormat] = _load_formats(TableFormat)
    return {extension: one for one in formats for extension in one.extensions}


@cache
def find_formats() -> dict[str, DocumentFormat | TableFormat]:
    """Find the formats of text by extension, those without columns first."""
    formats: list[DocumentFormat] = _load_formats(DocumentFormat)
    return {extension: one for one in formats for extension in one.extensions} | find_tables()


def list_linked_extensions() -> list[str]:
    """List the extensions of formats that can hold words and gold links, those of tables first."""
    return [name for name, one in (find_tables() | find_formats()).items() if one.links]


def find_extension(path: PurePath) -> str:
    """Give the extension that names the format, that of packing set aside; none at all means plain text."""
    extension = strip_packing(path).suffix.lower() or ".txt"
    if extension not in find_formats():
        raise DataError(
            f"{path} has the unknown extension {extension}; convert it to one of "
            f"{', '.join(find_formats())}, {EACH_ALSO}"
        )
    return extension


def list_coreference(join: Callable[[Sequence[str]], str] = either) -> str:
    """List the formats of coreference: CorefUD (.conllu) or GAP (.tsv)."""
    return join([f"{one.name} ({one.extension})" for one in _load_formats(CoreferenceFormat)])


def find_coreference_format(name: str | PurePath) -> CoreferenceFormat | None:
    """Find the format of a file of coreference by its extension; None where it has none."""
    extension = strip_packing(PurePath(name)).suffix.lower()
    found = next((one for one in _load_formats(CoreferenceFormat) if one.extension == extension), None)
    if extension and found is None:
        raise DataError(
            f"{name} has the extension {extension}; coreference reads {list_coreference(join_names)}, "
            f"{EACH_ALSO}. attnprobe links reads links of your own from JSON lines."
        )
    return found


def read_coreference(
    lines: Iterable[str], name: str | PurePath, group: str | None = None
) -> "Iterator[Document]":
    """Read documents with a link for every mention that has an antecedent.

    Args:
        lines: Of a file, or of standard input.
        name: The path of the file, or what errors call it. Without an extension, the first line decides.
        group: The column or the comment that says in which group a document counts.
    """
    found = find_coreference_format(name)
    if found is None:
        first, lines = peek_lines(lines)
        if not first.strip():
            return iter(())
        found = next((one for one in _load_formats(CoreferenceFormat) if one.begins(first)), None)
    if found is None:
        raise DataError(f"{name} holds no coreference; give {list_coreference()}.")
    return found.read(lines, str(name), group)
