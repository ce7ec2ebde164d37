"""A table as it leaves the program."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from attnprobe.table.cells import Cell
from attnprobe.table.column import Column
from attnprobe.table.numbers import write_column


@dataclass(frozen=True)
class Sheet:
    """What a format writes: clean text, numbers of Python, None for what is undefined."""

    title: str
    columns: Sequence[Column]
    cells: Sequence[Sequence[Cell]]  # column by column
    notes: Sequence[str]
    provenance: Mapping[str, Any]

    def __len__(self) -> int:
        return len(self.cells[0]) if self.cells else 0

    def rows(self) -> Iterator[tuple[Cell, ...]]:
        return zip(*self.cells, strict=True)

    def find(self, name: str) -> Sequence[Cell]:
        """Find the cells of a column; none where there is no such column."""
        places = (place for place, column in enumerate(self.columns) if column.name == name)
        return next((self.cells[place] for place in places), ())

    def is_beside(self, column: Column) -> bool:
        """Tell whether a column holds the errors of a measure, beside which a reader expects them."""
        return column.role == "error" and bool(self.find(column.name.removesuffix("_se")))

    def write(
        self, place: int, precision: int | None = None, *, undefined: str = "", plus_minus: str = ""
    ) -> list[str]:
        """Write the cells of a column for readers, with errors if something stands before these."""
        column = self.columns[place]
        of_errors = column.name if column.role == "error" else f"{column.name}_se"
        return write_column(
            self.cells[place],
            self.find(of_errors) if column.role in {"measure", "error"} else (),
            precision=precision,
            probability=column.is_probability,
            undefined=undefined,
            plus_minus=plus_minus if column.role == "measure" else "",
        )
