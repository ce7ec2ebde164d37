"""What a table holds: rows with names, units and provenance."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from attnprobe.table.cells import Cell, Role, clean
from attnprobe.table.kinds import ESSENTIAL, TableKind, guess_kind, is_of_kind

if TYPE_CHECKING:
    import numpy as np
    import pandas


#: Of so many measures a reader is shown, where nobody says which tell most.
_MOST_MEASURES = 8


def _is_defined(cell: Cell) -> bool:
    return cell is not None and not (isinstance(cell, float) and math.isnan(cell))


@dataclass(frozen=True)
class Column:
    """What a column holds.

    Attributes:
        name: The header; a contract with programs that read the table.
        unit: "nats", "share", "tokens", "ratio", ...; what a count counts, if not sequences; "" for labels.
        role: "key" names the row (model, layer, head, ...), "count" is a number of sequences
            or an index, "measure" is a measurement, "error" the standard error of the measure
            whose name comes before ``_se``, "text" a finding in words.
        headline: Whether a terminal shows the measure when there is no room for all.
        title: A few words for the axis of a picture, where the name says too little.
    """

    name: str
    unit: str = ""
    role: Role = "measure"
    headline: bool = False
    title: str = ""

    @property
    def is_probability(self) -> bool:
        """Whether it holds p values."""
        return self.unit == "probability" or self.name == "p" or self.name.endswith(("_p", "p_adjusted"))


@dataclass(frozen=True)
class Table:
    """A table of heads, pairs, layers or findings.

    Attributes:
        title: What the table shows, in a few words.
        columns: One description a column, in order.
        data: The cells, column by column; every column has the same length. An undefined
            number is NaN, an absent label None; both are written as an empty cell.
        notes: Sentences worth reading beside the table, such as a trend over depth.
        provenance: Everything needed to make the table again.
        kind: What a row is, one of ``table.kinds``; told from the columns where nobody says so.
    """

    title: str
    columns: Sequence[Column]
    data: Mapping[str, Sequence[Cell]]
    notes: Sequence[str] = ()
    provenance: Mapping[str, Any] = field(default_factory=dict)
    kind: TableKind = "other"

    def __post_init__(self) -> None:
        """Refuse columns without cells, cells without a column, and ragged data."""
        names = [column.name for column in self.columns]
        if names != list(self.data):
            raise ValueError(f"columns {names} do not match the data {list(self.data)}")
        if len({len(cells) for cells in self.data.values()}) > 1:
            raise ValueError("all columns of a table must have the same length")
        # Some of the columns of its kind may have been left out.
        if self.kind == "other" or not is_of_kind(self, self.kind):
            object.__setattr__(self, "kind", guess_kind(self))

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

    def essential(self) -> list[Column]:
        """List the columns that a reader needs: keys, and the measures that tell most with their errors.

        They are those of the table's kind, or else all; of more than eight its headlines, or else its first.
        """
        measures = [column for column in self.columns if column.role in {"measure", "text"}]
        named = [column.name for column in measures if any(map(_is_defined, self.data[column.name]))]
        if self.kind in ESSENTIAL:
            named = [*ESSENTIAL[self.kind]]
        elif len(named) > _MOST_MEASURES:
            headlines = [column.name for column in measures if column.headline]
            named = headlines or named[:_MOST_MEASURES]
        wanted = {"n", *named, *(f"{name}_se" for name in named)}
        return [column for column in self.columns if column.role == "key" or column.name in wanted]

    @property
    def models(self) -> list[str]:
        """The checkpoints that the table is about."""
        return list(dict.fromkeys(str(name) for name in self.data.get("model", ())))

    def to_pandas(self) -> "pandas.DataFrame":
        """Give the table as a ``pandas.DataFrame``, provenance in ``.attrs``.

        Text is cleaned as in files: it may hold what steers a terminal, or what no file can hold.
        """
        import pandas

        data = {
            name: [clean(cell) if isinstance(cell, str) else cell for cell in cells]
            for name, cells in self.data.items()
        }
        frame = pandas.DataFrame(data)
        frame.attrs.update(title=self.title, notes=list(self.notes), **self.provenance)
        return frame

    def _repr_html_(self) -> str:
        """Show the table in a notebook: numbers with their errors, rounded as papers do, and the notes."""
        from attnprobe.table.notebook import render_table

        return render_table(self)
