"""HeadTable: what every command returns, writes, and reads again."""

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attnprobe.errors import DataError, UsageError
from attnprobe.files import write_together
from attnprobe.table.cells import (
    Cell,
    Column,
    Role,
    check_precision,
    clean,
    round_cell,
    to_plain,
    to_plain_column,
)
from attnprobe.table.destination import Destination, Saveable, check_file
from attnprobe.table.formats import FORMATS, Sheet, check_installed
from attnprobe.table.formats.json import write_description
from attnprobe.table.kinds import KINDS, find_kind
from attnprobe.table.naming import name_nearest
from attnprobe.table.reading import read_parts

if TYPE_CHECKING:
    import numpy as np
    import pandas

__all__ = ["Cell", "Column", "HeadTable", "Role"]

#: Keys that say what was measured and how, and not which head a row is about.
_SETTINGS = ("model", "dataset", "objective", "method", "metric", "replaced_by")


@dataclass(frozen=True, repr=False)
class HeadTable:
    """A table of heads, pairs, layers or findings, that can be saved, read and joined.

    Attributes:
        title: What the table shows, in a few words.
        columns: One description per column, in order.
        data: The cells, column by column. An undefined number is NaN, an absent label None; both are
            written as an empty cell.
        notes: Sentences that a reader of the numbers should know.
        provenance: What is needed to make the table again.
        below: Makes a second table, which a terminal shows below this one.
    """

    title: str
    columns: Sequence[Column]
    data: Mapping[str, Sequence[Cell]]
    notes: Sequence[str] = ()
    provenance: Mapping[str, Any] = field(default_factory=dict)
    below: "Callable[[], HeadTable] | None" = field(default=None, compare=False)

    def __post_init__(self) -> None:
        names = [column.name for column in self.columns]
        if names != list(self.data):
            raise ValueError(f"columns {names} do not match the data {list(self.data)}")
        if len({len(cells) for cells in self.data.values()}) > 1:
            raise ValueError("all columns of a table must have the same length")

    @classmethod
    def read(cls, path: Path | str) -> "HeadTable":
        """Read a table that attnprobe wrote, with units, roles, notes and provenance."""
        return cls(*read_parts(Path(path)))

    def __len__(self) -> int:
        return len(next(iter(self.data.values()), ()))

    def __getitem__(self, name: str) -> "np.ndarray":
        """Give a column as an array."""
        import numpy as np

        return np.asarray(self.data[name])

    def rows(self) -> Iterator[tuple[Cell, ...]]:
        """Walk over the rows as tuples in column order."""
        return zip(*self.data.values(), strict=True)

    def column(self, name: str) -> Column:
        """Find the description of a column."""
        return next(column for column in self.columns if column.name == name)

    @cached_property
    def kind(self) -> str:
        """The kind of the table, a name in ``table.kinds``."""
        return find_kind(self.columns, self.data)

    @property
    def models(self) -> list[str]:
        """The checkpoints that the table is about."""
        return list(dict.fromkeys(str(name) for name in self.data.get("model", ())))

    def count_documents(self, name: str) -> "np.ndarray":
        """Count the documents behind each number of a column, or its sequences if fewer; inf if unknown."""
        import numpy as np

        documents = np.full(len(self), min(_list_documents(self.provenance), default=np.inf), np.float64)
        for count in ("n", f"{name}_n"):
            cells = [np.inf if cell is None else cell for cell in self.data.get(count, ())]
            documents = np.fmin(documents, np.array(cells, np.float64)) if cells else documents
        return documents

    def essential(self) -> list[Column]:
        """List the columns that a reader needs: keys, and the main measures with their errors.

        The kind of the table names its main measures. Otherwise they are all measures; of more than eight,
        the headline measures, or else the first eight.
        """
        measures = [column for column in self.columns if column.role in {"measure", "text"}]
        headlines = [column.name for column in measures if column.headline]
        if essential := KINDS[self.kind].essential:
            named = [*essential, *headlines]
        else:
            named = [one.name for one in measures if set(map(to_plain, self.data[one.name])) != {None}]
            named = named if len(named) <= 8 else headlines or named[:8]
        wanted = {"n", *named, *(f"{name}_se" for name in named)}
        return [column for column in self.columns if column.role == "key" or column.name in wanted]

    def take(self, only: Sequence[str] | None = None, rows: int | None = None) -> "HeadTable":
        """Take the columns ``only`` with errors and keys, in the first ``rows``; or refuse unknown names."""
        for name in only or ():
            if name not in self.data:
                near = name_nearest(name, self.data)
                raise UsageError(f"--only {clean(name)}: the table has no such column{near}.")
        kept = list(self.columns)
        if only is not None:
            wanted = {*only, *(f"{name}_se" for name in only)}
            kept = [
                replace(column, headline=column.name in only)
                for column in kept
                if column.role == "key" or column.name in wanted
            ]
        data = {column.name: self.data[column.name][:rows] for column in kept}
        return replace(self, columns=kept, data=data)

    def join(self, other: "HeadTable", suffix: str = "_other") -> "HeadTable":
        """Append the columns of another table about the same rows.

        Rows are matched by the keys of both tables, such as layer and head, and keep the order of this table.
        A column with the same name and cells in both is kept once; one with other cells gets the ``suffix``.
        Raises DataError if the tables are about different models or different rows.
        """
        if self.models != other.models:
            raise DataError(
                f"One table is about {', '.join(self.models)}, the other about {', '.join(other.models)}; "
                "only tables of the same model can be joined."
            )
        keys = [column.name for column in self.columns if column.role == "key" and column.name in other.data]
        keys = [name for name in keys if name not in _SETTINGS]
        if not keys:
            raise DataError("The tables have no columns in common that name a row, such as layer and head.")
        order = _match_rows(self, other, keys)
        more = {name: [cells[row] for row in order] for name, cells in other.data.items()}
        same = {name for name, cells in more.items() if _are_same(self.data.get(name), cells)}
        columns, data = list(self.columns), dict(self.data)
        for column in other.columns:
            base = column.name.removesuffix("_se")
            base = base if base in more else column.name
            if column.name in keys or {base, f"{base}_se"} & more.keys() <= same:
                continue
            name = base + suffix * (base in self.data) + column.name.removeprefix(base)
            if name in data:
                raise UsageError(f"Both tables have a column {name!r}; give another suffix.")
            columns.append(replace(column, name=name))
            data[name] = more[column.name]
        record = {"joined": [dict(self.provenance), dict(other.provenance)]}
        title = self.title if self.title == other.title else f"{self.title}, and {other.title}"
        return HeadTable(title, columns, data, [*self.notes, *other.notes], record)

    def to_pandas(self) -> "pandas.DataFrame":
        """Give the table as a ``pandas.DataFrame`` with clean text, and provenance in ``.attrs``."""
        import pandas

        data = {
            name: [clean(cell) if isinstance(cell, str) else cell for cell in cells]
            for name, cells in self.data.items()
        }
        frame = pandas.DataFrame(data)
        frame.attrs.update(title=self.title, notes=list(self.notes), **self.provenance)
        return frame

    def to_sheet(self, columns: Sequence[Column] | None = None, precision: int | None = None) -> Sheet:
        """Give the table, or only ``columns``, as it leaves the program: clean text and plain numbers."""
        chosen = self.columns if columns is None else columns
        cleaned = [
            replace(column, name=clean(column.name), unit=clean(column.unit), title=clean(column.title))
            for column in chosen
        ]
        cells = [to_plain_column(self.data[column.name], column) for column in chosen]
        if precision is not None:
            cells = [[round_cell(cell, precision) for cell in column] for column in cells]
        notes = list(map(clean, self.notes))
        return Sheet(clean(self.title), cleaned, cells, notes, self.provenance, precision)

    def render(self, format: str, precision: int | None = None) -> bytes:
        """Render the table as bytes of a format; formats for papers have only the ``essential`` columns."""
        check_precision(precision)
        check_installed(format)
        columns = self.essential() if FORMATS[format].is_for_papers else None
        content = FORMATS[format].write(self.to_sheet(columns, precision))
        return content if isinstance(content, bytes) else content.encode()

    def to_csv(self, precision: int | None = None) -> str:
        """Give the table as csv text, as ``save`` writes it."""
        return self.render("csv", precision).decode()

    def save(self, path: Path | str, *, overwrite: bool = False, precision: int | None = None) -> list[Path]:
        """Write the table; the extension picks the format, such as csv, json, md, parquet, tex or xlsx.

        A json file beside it has units, notes and provenance if the format itself has not. Files appear whole
        or not at all; existing files are only replaced with ``overwrite``. ``precision`` is the number of
        significant digits, all by default. Returns the files, the table first.
        """
        return self.write(check_file(Path(path), overwrite), precision)

    def write(self, destination: Destination, precision: int | None = None) -> list[Path]:
        """Write the table to the files of a destination, which ``check_file`` has chosen."""
        assert destination.path is not None
        files = {destination.path: self.render(destination.format, precision)}
        if destination.description is not None:
            about = write_description(self.to_sheet(), destination.path.name)
            files[destination.description] = about.encode()
        write_together(files)
        return list(files)

    def plot(self, kind: str | None = None, **options: Any) -> Saveable:
        """Draw the table as ``attnprobe.plot`` does, which says what else it takes."""
        return sys.modules["attnprobe"].plot(self, kind=kind, **options)

    def _repr_html_(self) -> str:
        return self.to_sheet().to_html()

    def __repr__(self) -> str:
        names = [column.name for column in self.columns if column.role in {"key", "measure"}]
        shown = ", ".join([*names[:6], *(["..."] if len(names) > 6 else [])])
        rows = "1 row" if len(self) == 1 else f"{len(self):,} rows"
        return f"HeadTable({self.title!r}: {rows} of {shown})"


def _match_rows(left: HeadTable, right: HeadTable, keys: list[str]) -> list[int]:
    """Find the right table's row for each of the left, by keys; or refuse unless rows match one to one."""
    ours, theirs = (list(zip(*(side.data[key] for key in keys), strict=True)) for side in (left, right))
    places = {place: row for row, place in enumerate(theirs)}
    if len(places) < len(theirs) or len(set(ours)) < len(ours):
        raise DataError(
            f"A table has more than one row for some {', '.join(keys)}; join tables of a row each."
        )
    if alone := places.keys() ^ set(ours):
        raise DataError(
            f"The tables are not about the same rows: {len(alone)} of them are in only one "
            f"({', '.join(keys)})."
        )
    return [places[place] for place in ours]


def _are_same(ours: Sequence[Cell] | None, theirs: Sequence[Cell]) -> bool:
    """Compare cells, where NaN and None are the same."""
    return ours is not None and [to_plain(cell) for cell in ours] == [to_plain(cell) for cell in theirs]


def _list_documents(record: Mapping[str, Any]) -> list[int]:
    """List the numbers of documents on a record, and on the records that it holds."""
    corpus = record.get("corpus")
    if isinstance(corpus, Mapping):
        return [corpus["clusters"]] if isinstance(corpus.get("clusters"), int) else []
    parts = [part for value in record.values() for part in (value if isinstance(value, list) else [value])]
    return [number for part in parts if isinstance(part, Mapping) for number in _list_documents(part)]


def join_side_by_side(left: HeadTable, right: HeadTable) -> HeadTable:
    """Append to the left table what columns only the right one has, row by row; the left's record stays."""
    added = [column for column in right.columns if column.name not in left.data]
    data = {**left.data, **{column.name: right.data[column.name] for column in added}}
    notes = list(dict.fromkeys([*left.notes, *right.notes]))
    return HeadTable(left.title, [*left.columns, *added], data, notes, left.provenance)


def stack_rows(parts: Sequence[tuple[Any, HeadTable]], name: str, notes: Sequence[str]) -> HeadTable:
    """Stack the rows of tables, with the part of each as third column ``name``, behind model and data set.

    The record is that of the first part. Cells of columns that a part lacks are None.
    """
    first, *_ = tables = [table for _, table in parts]
    columns = {column.name: column for table in reversed(tables) for column in table.columns}
    columns[name] = Column(name, role="key")
    names = list(dict.fromkeys(key for table in tables for key in table.data))
    names.insert(2, name)
    marked = [{**table.data, name: [part] * len(table)} for part, table in parts]
    data = {
        key: [cell for part in marked for cell in part.get(key, [None] * len(part[name]))] for key in names
    }
    return HeadTable(first.title, [columns[key] for key in names], data, list(notes), first.provenance)
