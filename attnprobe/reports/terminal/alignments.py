"""Alignments and their error rates, a line each."""

from collections.abc import Iterator

import numpy as np
from rich.console import Console
from rich.text import Text

from attnprobe.reports.terminal.lists import draw_rows
from attnprobe.sums.resampling import SIGNIFICANT
from attnprobe.table.cells import clean, format_cell
from attnprobe.table.head_table import HeadTable
from attnprobe.table.table import Cell, Column

#: The measures of a line, with the errors that belong to them.
_MEASURES = ("aer", "aer_se", "precision", "recall", "baseline")
#: What is on the screen.
ALIGNMENT_COLUMNS = frozenset({*_MEASURES, "alignment", "layer", "head", "position", "p_adjusted"})
#: What lines may have in common, where several have one name.
_GROUPS = ("weights", "attention", "direction")


def draw_alignments(
    table: HeadTable, console: Console, precision: int | None = None, full: bool = False
) -> None:
    """Print a line an alignment, apart for each direction and weighting; then say what stands there."""
    numbers = sorted({number for number in table.data["n"] if isinstance(number, int)})
    pairs = " to ".join(f"{number:,}" for number in dict.fromkeys([*numbers[:1], *numbers[-1:]]))
    for said, rows in _part_rows(table):
        if said:
            console.print()
            console.print(Text(clean(said), "bold"))
        draw_rows(_shorten_table(table, rows), set(), console, precision, full)
    console.print()
    console.print(
        Text(
            f"{pairs} pairs of texts; head: layer-head, counted from 0, or the layer of a mean, and where a "
            "decoder is asked; baseline: words at the same relative place; *: significantly fewer errors "
            f"(adjusted p < {SIGNIFICANT})",
            "dim",
        )
    )


def _part_rows(table: HeadTable) -> Iterator[tuple[str, list[int]]]:
    """Part the rows where names of alignments come again, by what else names them."""
    names = list(table.data["alignment"])
    if len(set(names)) == len(names):
        yield "", list(range(len(names)))
        return
    keys = [table.data[name] for name in _GROUPS if name in table.data and len(set(table.data[name])) > 1]
    groups: dict[tuple[Cell, ...], list[int]] = {}
    for row, said in enumerate(zip(*keys, strict=True)):
        groups.setdefault(said, []).append(row)
    for said, rows in groups.items():
        yield ", ".join(format_cell(one).replace("_", " ") for one in said), rows


def _shorten_table(table: HeadTable, rows: list[int]) -> HeadTable:
    """Make a table of the lines of a group, which fits a terminal."""
    data = {"alignment": [table.data["alignment"][row] for row in rows]}
    data["head"] = [_name_place(table, row) for row in rows]
    data |= {name: [table.data[name][row] for row in rows] for name in _MEASURES}
    found = np.array([table.data["p_adjusted"][row] for row in rows], np.float64)
    data["*"] = ["*" if p < SIGNIFICANT else "" for p in found]
    roles = {"alignment": "key", "head": "text", "aer_se": "error", "*": "text"}
    columns = [Column(name, role=roles.get(name, "measure")) for name in data]  # type: ignore[arg-type]
    return HeadTable(table.title, columns, data)


def _name_place(table: HeadTable, row: int) -> str:
    layer, head, position = (
        table.data[name][row] if name in table.data else None for name in ("layer", "head", "position")
    )
    place = "-".join(format_cell(one) for one in (layer, head) if one is not None)
    return " ".join(part for part in (place, format_cell(position)) if part)
