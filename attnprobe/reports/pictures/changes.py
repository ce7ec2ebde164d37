"""What changed from one model to another: maps of how far heads moved, and of differences."""

from dataclasses import replace
from math import log
from typing import Any

from attnprobe.reports.columns import DrawingRequest, read_cells
from attnprobe.reports.pictures.maps import draw_maps
from attnprobe.reports.scales import mark_column
from attnprobe.reports.shapes import lay_out_grid
from attnprobe.table.cells import clean, format_cell
from attnprobe.table.head_table import HeadTable
from attnprobe.table.table import Column

_MOVED, _DELTA = "jsd", "_delta"
#: How many differences are drawn where nobody names them.
_MOST = 5
#: What is said of other measures than differences.
_SAME = f"0 where both attend alike, {log(2):.2f} at most"


def can_draw_change(table: HeadTable) -> bool:
    """Tell whether each head is there once, with what has changed."""
    return lay_out_grid(table) is not None and bool(_choose_changes(table))


def draw_change(table: HeadTable, request: DrawingRequest) -> Any:
    """Draw how far heads are apart, then differences, with numbers where they are significant."""
    columns, models = list_changes(table, request), _name_models(table)
    direction = f"{models[1]} minus {models[0]}"
    remarks = {
        one.name: direction if one.name.endswith(_DELTA) else _SAME
        for one in columns
        if one.name.endswith(_DELTA) or one.name == _MOVED
    }
    return draw_maps(table, request, columns, remarks)


def list_changes(table: HeadTable, request: DrawingRequest) -> list[Column]:
    """List the columns of a picture of changes."""
    if not request.measures:
        return _choose_changes(table)
    named = [f"{name}{_DELTA}" if f"{name}{_DELTA}" in table.data else name for name in request.measures]
    return replace(request, measures=named).columns(table)


def _name_models(table: HeadTable) -> list[str]:
    said = []
    for name, other in (("model", "the first model"), ("model_b", "the second model")):
        named = {clean(format_cell(cell)) for cell in read_cells(table, name)}
        said.append(named.pop() if len(named) == 1 and "" not in named else other)
    return said


def _choose_changes(table: HeadTable) -> list[Column]:
    found = [column for column in table.columns if column.name == _MOVED]
    deltas = [column for column in table.columns if column.role == "measure" and column.name.endswith(_DELTA)]
    most = sorted(deltas, key=lambda column: -sum(map(bool, mark_column(table, column).signs)))[:_MOST]
    return [*found, *sorted(most, key=deltas.index)]
