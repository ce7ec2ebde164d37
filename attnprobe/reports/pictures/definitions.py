"""What measures mean, in a line; values that mean something; and how layers change with depth."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from attnprobe.reports.columns import label_by_others, name_measure, read_cells, read_numbers, sort_labels
from attnprobe.reports.headline import write_number
from attnprobe.statistics.tabulation import correlate_with_depth
from attnprobe.sums.resampling import SIGNIFICANT
from attnprobe.table.cells import format_cell
from attnprobe.table.head_table import HeadTable
from attnprobe.table.table import Column

#: Measures in symbols, by their column.
_DEFINITIONS = {
    "effective_heads": "participation ratio H\u00b2 / \u03a3 r\u00b2, r: correlation of attention logits",
    "cancellation": "|\u03a3 c|\u00b2 / \u03a3 |c|\u00b2, c: what each head adds",
}
#: And by their unit, of those that several commands tabulate under names of their own.
_BY_UNIT = {
    "|dL/dmask|": "|dL/dmask|: size of the derivative of the loss L by the mask of the head, mean over "
    "examples; not divided by the norm of its layer",
}
_COPIES, _UNRELATED = "all are copies", "none correlate"
_ORTHOGONAL = "heads are orthogonal; above, they add up, below, they cancel"
#: Fewer layers have no trend.
_FEWEST = 3


@dataclass(frozen=True)
class Reference:
    """A value that means something.

    Attributes:
        value: Where its line is.
        says: What holds for a number of that size.
    """

    value: float
    says: str


def define_measure(column: Column) -> str:
    """Define a measure in a line; empty where its name says it all."""
    return _DEFINITIONS.get(column.name) or _BY_UNIT.get(column.unit, "")


def list_references(table: HeadTable, column: Column) -> list[Reference]:
    """List the values of a measure of layers that mean something, the least first.

    The number of heads is that on record, where none is removed.
    """
    if column.name == "cancellation":
        return [Reference(1, _ORTHOGONAL)]
    if column.name != "effective_heads":
        return []
    found = [Reference(1, _COPIES)]
    record = table.provenance.get("architecture")
    heads = record.get("heads") if isinstance(record, Mapping) and not record.get("removed") else None
    return [*found, Reference(heads, _UNRELATED)] if isinstance(heads, int) and heads > 1 else found


def explain_references(references: Sequence[Reference]) -> str:
    """Say what lines mean: "dashes: 1 where all are copies, 4 where none correlate"."""
    said = ", ".join(f"{one.value:g} where {one.says}" for one in references)
    return f"dashes: {said}" if said else ""


def state_trend(table: HeadTable, columns: Sequence[Column]) -> str:
    """State which measure of layers rises or falls with depth: the first that does.

    It does if p of its rank correlation with depth, times the number of measures, is below 0.05.
    """
    layers = read_cells(table, "layer")
    if "head" in table.data or any(label_by_others(table, {"layer"})) or layers != sort_labels(layers):
        return ""
    for column in columns:
        values = np.array([np.nan if one is None else one for one in read_numbers(table, column.name)], float)
        if len(values) < _FEWEST or not np.isfinite(values).all() or not np.ptp(values):
            continue
        rho, p = correlate_with_depth(values)
        if p * len(columns) < SIGNIFICANT:
            ends = [f"{write_number(values[row])} in layer {format_cell(layers[row])}" for row in (0, -1)]
            said = f"{name_measure(column)} {'rises' if rho > 0 else 'falls'} with depth"
            # The ends need not say what all layers do.
            return f"{said}, from {ends[0]} to {ends[1]}" if rho * (values[-1] - values[0]) > 0 else said
    return ""
