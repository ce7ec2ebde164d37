"""The line that says what a table shows: how many are significant, and the strongest or highest."""

from collections.abc import Collection

from attnprobe.reports.columns import label_by_others, name_measure, read_cells, read_numbers
from attnprobe.reports.pairs import name_pairs
from attnprobe.reports.scales import find_p_column, is_effect, mark_column
from attnprobe.sums.inference import SIGNIFICANT
from attnprobe.table.cells import clean, format_cell
from attnprobe.table.kinds import PAIR
from attnprobe.table.numbers import format_with_error, name_head
from attnprobe.table.table import Column, HeadTable


def state_effects(table: HeadTable) -> list[str]:
    """State how many effects are significant, and the strongest, of the first measure with p values.

    Not of a curve of pruning, whose last step is the strongest anyway.
    """
    for column in [] if table.kind.startswith("pruning") else table.columns:
        if column.role == "measure" and find_p_column(table, column.name) is not None:
            return [f"{name_measure(column)}: {state_finding(table, column)} (adjusted p < {SIGNIFICANT})"]
    return []


def state_finding(table: HeadTable, column: Column) -> str:
    """State what a measure shows; errors are standard errors."""
    values = read_numbers(table, column.name)
    sizes = {row: abs(value) for row, value in enumerate(values) if value is not None}
    if not sizes or column.is_probability:
        return ""
    if not is_effect(column.name, values) and find_p_column(table, column.name) is None:
        return f"highest {_write_row(table, column, max(sizes, key=lambda row: values[row] or 0.0))}"
    marks = mark_column(table, column)
    if not marks.rule:
        return ""
    significant = [row for row in sizes if marks.signs[row]]
    counted = f"{len(significant)} of {len(sizes)} significant"
    if not significant:
        return counted
    return f"{counted}; strongest {_write_row(table, column, max(significant, key=sizes.__getitem__))}"


def _write_row(table: HeadTable, column: Column, row: int) -> str:
    value, error = (read_numbers(table, name)[row] for name in (column.name, f"{column.name}_se"))
    return f"{name_rows(table, {'model'})[row]}, {format_with_error(value, error)}"


def name_rows(table: HeadTable, known: Collection[str] = ()) -> list[str]:
    """Name each row by what sets it apart beside ``known``, and by its head, pair of heads or layer."""
    labels = label_by_others(table, {"layer", "head", *PAIR, "attention_a", "attention_b", *known})
    if set(PAIR) <= table.data.keys():
        places = name_pairs(table)
    else:
        places = [
            ""
            if layer is None
            else name_head(layer, head)
            if head is not None
            else f"layer {format_cell(layer)}"
            for layer, head in zip(read_cells(table, "layer"), read_cells(table, "head"), strict=True)
        ]
    return [clean(f"{label} {place}".strip()) for label, place in zip(labels, places, strict=True)]
