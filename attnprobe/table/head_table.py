"""HeadTable: rows with names, units and provenance; what every command returns."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

if TYPE_CHECKING:
    import pandas

Cell = str | int | float | None
Role = Literal["key", "count", "measure", "error", "half"]
#: How the columns of the two halves of the examples end.
HALVES = ("half_a", "half_b")
#: How many columns a table names when it is printed.
_NAMED = 6


@dataclass(frozen=True)
class Column:
    """What a column holds.

    Attributes:
        name: The header; a contract with programs that read the table.
        unit: "nats", "share", "tokens", "ratio", ... or "" for labels and counts.
        role: "key" names the row (model, layer, head, ...), "count" is a number of sequences
            or an index, "measure" is a measurement, "error" the standard error of the measure
            whose name comes before ``_se``, "half" the measure whose name comes before ``_half_a``
            or ``_half_b``, over one half of the examples.
        headline: Whether a terminal shows the measure when there is no room for all.
        title: A few words for the axis of a picture, where the name says too little.
    """

    name: str
    unit: str = ""
    role: Role = "measure"
    headline: bool = False
    title: str = ""


@dataclass(frozen=True, repr=False)
class HeadTable:
    """A table of heads, pairs, layers or findings.

    Attributes:
        title: What the table shows, in a few words.
        columns: One description a column, in order.
        data: The cells, column by column; every column has the same length. An undefined
            number is NaN, an absent label None; both are written as an empty cell.
        notes: Sentences worth reading beside the table, such as a trend over depth.
        provenance: Everything needed to make the table again.
    """

    title: str
    columns: Sequence[Column]
    data: Mapping[str, Sequence[Cell]]
    notes: Sequence[str] = ()
    provenance: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Refuse columns without cells, cells without a column, and ragged data."""
        names = [column.name for column in self.columns]
        if names != list(self.data):
            raise ValueError(f"columns {names} do not match the data {list(self.data)}")
        if len({len(cells) for cells in self.data.values()}) > 1:
            raise ValueError("all columns of a table must have the same length")

    def __len__(self) -> int:
        """Give the number of rows."""
        return len(next(iter(self.data.values()), ()))

    def __getitem__(self, name: str) -> np.ndarray:
        """Give one column as an array."""
        return np.asarray(self.data[name])

    def rows(self) -> Iterator[tuple[Cell, ...]]:
        """Walk over the rows as tuples in column order."""
        return zip(*self.data.values(), strict=True)

    def column(self, name: str) -> Column:
        """Find the description of a column."""
        return next(column for column in self.columns if column.name == name)

    @property
    def models(self) -> list[str]:
        """The checkpoints that the table is about."""
        return list(dict.fromkeys(str(name) for name in self.data.get("model", ())))

    @classmethod
    def read(cls, path: Path | str) -> "HeadTable":
        """Read a table that attnprobe wrote: csv, json or parquet, with units, roles, notes and provenance.

        Raises:
            AttnprobeError: When there is no such file, or it is no table.
        """
        from attnprobe.table.reading import read_head_table

        return read_head_table(Path(path))

    def save(self, path: Path | str, *, overwrite: bool = False, precision: int | None = None) -> list[Path]:
        """Write the table; the extension picks the format: csv, json, md or parquet.

        A json beside it holds units, notes and provenance where the format itself does not. Files appear
        whole or not at all.

        Args:
            path: The file.
            overwrite: Whether files that exist are replaced.
            precision: Significant digits; all of them by default.

        Returns:
            The files, the table first.

        Raises:
            AttnprobeError: When a file can't be written.
        """
        from attnprobe.table.destination import check_file
        from attnprobe.table.saving import saved

        return saved(self, check_file(Path(path), overwrite), precision)

    def join(self, other: "HeadTable", suffix: str = "_other") -> "HeadTable":
        """Put the columns of another table about the same rows behind these; see ``table.joining``.

        Examples:
            >>> head, x = Column("head", role="key"), Column("x")
            >>> one = HeadTable("a", [head, x], {"head": [0, 1], "x": [1.0, 2.0]})
            >>> two = HeadTable("b", [head, x], {"head": [1, 0], "x": [3.0, 4.0]})
            >>> one.join(two)["x_other"].tolist()
            [4.0, 3.0]
        """
        from attnprobe.table.joining import joined

        return joined(self, other, suffix)

    def to_csv(self, precision: int | None = None) -> str:
        """Give the table as csv text, as ``save`` writes it."""
        from attnprobe.table.saving import rendered

        return rendered(self, "csv", precision).decode()

    def to_pandas(self) -> "pandas.DataFrame":
        """Give the table as a ``pandas.DataFrame``, provenance in ``.attrs``."""
        import pandas

        frame = pandas.DataFrame({name: list(cells) for name, cells in self.data.items()})
        frame.attrs.update(title=self.title, notes=list(self.notes), **self.provenance)
        return frame

    def _repr_html_(self) -> str:
        """Show the table in a notebook; pandas escapes every cell."""
        return self.to_pandas().to_html(max_rows=60, notebook=True)

    def __repr__(self) -> str:
        """Say what the table is, in a line."""
        names = [column.name for column in self.columns if column.role in {"key", "measure"}]
        shown = ", ".join(names[:_NAMED]) + (", ..." if len(names) > _NAMED else "")
        rows = "1 row" if len(self) == 1 else f"{len(self):,} rows"
        return f"HeadTable({self.title!r}: {rows} of {shown})"
