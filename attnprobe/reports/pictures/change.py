"""Maps of change from one model to another: how far each head has moved, and in what."""

from typing import Any

from attnprobe.reports.pictures import heatmap
from attnprobe.reports.pictures.asked import Asked
from attnprobe.reports.pictures.grid import grid_of
from attnprobe.reports.pictures.rows import numbers
from attnprobe.reports.scales import p_column
from attnprobe.sums.resampling import SIGNIFICANT
from attnprobe.table.head_table import HeadTable
from attnprobe.table.table import Column

_OTHER, _MOVED, _DELTA = "model_b", "jsd", "_delta"
#: How many differences are drawn where nobody names them.
_MOST = 5


def fits(table: HeadTable) -> bool:
    """Tell whether a table compares the heads of two models."""
    return _OTHER in table.data and grid_of(table) is not None and bool(_drawn(table))


def draw(table: HeadTable, asked: Asked) -> Any:
    """Draw how far heads are apart, then differences; + and - where the adjusted p is below 0.05.

    Without names, the differences are those that are significant in most heads. A census measure is as good
    a name as that of its difference: ``entropy`` for ``entropy_delta``.
    """
    if asked.measures:
        named = [f"{name}{_DELTA}" if f"{name}{_DELTA}" in table.data else name for name in asked.measures]
        columns = Asked(asked.theme, asked.width, named).columns(table)
    else:
        columns = _drawn(table)
    return heatmap.maps(table, asked, columns)


def _drawn(table: HeadTable) -> list[Column]:
    found = [column for column in table.columns if column.name == _MOVED]
    deltas = [column for column in table.columns if column.role == "measure" and column.name.endswith(_DELTA)]
    most = sorted(deltas, key=lambda column: -_significant(table, column))[:_MOST]
    return [*found, *sorted(most, key=deltas.index)]


def _significant(table: HeadTable, column: Column) -> int:
    """Count the heads that differ significantly."""
    name = p_column(table, column.name)
    p_values = numbers(table, name) if name is not None else []
    return sum(p is not None and p < SIGNIFICANT for p in p_values)
