"""A table as it leaves the program."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from attnprobe.table.cells import Cell, Column
from attnprobe.table.numbers import write_column

#: Of longer tables, a notebook shows the first and the last rows, half of so many each.
_MOST_ROWS = 60


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
        columns = zip(self.columns, self.cells, strict=True)
        return {
            column.name: cells[0]
            for column, cells in columns
            if len(cells) > 1 and len(set(cells)) == 1 and isinstance(cells[0], str)
        }

    def write(
        self, *, undefined: str = "", plus_minus: str = ""
    ) -> Iterator[tuple[Column, Sequence[Cell], list[str]]]:
        """Give each column, its cells, and what a reader sees of them, rounded by their errors.

        With something to stand before errors, these are beside their measures and no columns of their own.
        """
        cells_of = {column.name: cells for column, cells in zip(self.columns, self.cells, strict=True)}
        for column, cells in zip(self.columns, self.cells, strict=True):
            errors: Sequence[Cell] = cells_of.get(f"{column.name}_se", ()) if column.role == "measure" else ()
            between = plus_minus
            if column.role == "error":
                if plus_minus and column.name.removesuffix("_se") in cells_of:
                    continue
                errors, between = cells, ""
            written = write_column(
                cells,
                errors,
                precision=self.precision,
                probability=column.is_probability,
                undefined=undefined,
                plus_minus=between,
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
        if len(self) > _MOST_ROWS:
            facts.append(f"{len(self):,} rows")
        with pandas.option_context("display.max_colwidth", None):
            rows = pandas.DataFrame(shown, dtype=str).to_html(index=False, border=0, max_rows=_MOST_ROWS)
        notes = "".join(f"<li>{escape(note)}</li>" for note in self.notes)
        return (
            f"<div><p><b>{escape(self.title)}</b> {escape(', '.join(facts))}</p>"
            f'<div style="overflow: auto; max-height: 32em">{rows}</div><ul>{notes}</ul></div>'
        )
