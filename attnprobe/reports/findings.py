"""The line that says what is found: how many are significant, and the strongest or highest."""

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
    known = [row for row, value in enumerate(values) if value is not None]
    if not known or column.is_probability:
        return ""
    if not is_effect(column.name, values) and find_p_column(table, column.name) is None:
        return f"highest {_write_row(table, column, max(known, key=lambda row: values[row] or 0.0))}"
    marks = mark_column(table, column)
    if not marks.rule:
        return ""
    some = [row for row in known if marks.signs[row]]
    counted = f"{len(some)} of {len(known)} significant"
    if not some:
        return counted
    strongest = max(some, key=lambda row: abs(values[row] or 0.0))
    return f"{counted}; strongest {_write_row(table, column, strongest)}"


def _write_row(table: HeadTable, column: Column, row: int) -> str:
    value, error = (read_numbers(table, name)[row] for name in (column.name, f"{column.name}_se"))
    return f"{name_row(table, row)}, {format_with_error(value, error)}"


def name_row(table: HeadTable, row: int) -> str:
    """Name a row by what sets it apart, and by its head, its pair of heads or its layer."""
    names = {"model", "layer", "head", *PAIR, "attention_a", "attention_b"}
    label = clean(label_by_others(table, names)[row])
    if set(PAIR) <= table.data.keys():
        return " ".join(filter(None, [label, clean(name_pairs(table)[row])]))
    layer, head = (read_cells(table, name)[row] for name in ("layer", "head"))
    if layer is None:
        return label
    return f"{label} {name_head(layer, head) if head is not None else f'layer {format_cell(layer)}'}".strip()
