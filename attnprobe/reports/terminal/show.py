"""The terminal: heads as heat maps, pruning as curves, any other table as a list; then the notes."""

from collections.abc import Set
from dataclasses import replace

import numpy as np
from rich.console import Console
from rich.text import Text

from attnprobe.reports.scales import Marks, Scale, marks_of, scales_of
from attnprobe.reports.terminal import caption
from attnprobe.reports.terminal.curve import SHOWN as CURVE_COLUMNS
from attnprobe.reports.terminal.curve import draw as draw_curves
from attnprobe.reports.terminal.dynamics import draw as draw_runs
from attnprobe.reports.terminal.dynamics import runs_in
from attnprobe.reports.terminal.heatmap import draw as draw_grid
from attnprobe.reports.terminal.listing import draw as draw_list
from attnprobe.reports.terminal.settling import SHOWN as SETTLING_COLUMNS
from attnprobe.reports.terminal.settling import draw as draw_settling
from attnprobe.reports.terminal.settling import orders_in
from attnprobe.reports.terminal.spread import SHOWN as SHARES_COLUMNS
from attnprobe.reports.terminal.spread import draw as draw_shares
from attnprobe.reports.terminal.spread import is_spread
from attnprobe.reports.terminal.arrangement import arrange
from attnprobe.reports.terminal.console import has_palette, signs
from attnprobe.reports.terminal.figures import numbers
from attnprobe.reports.terminal.found import draw as draw_found
from attnprobe.reports.terminal.found import found_in
from attnprobe.reports.terminal.orders import ORDER_KEYS, comparisons
from attnprobe.reports.terminal.panels import AXES, Panel, constants, panels
from attnprobe.reports.terminal.rolemap import draw as draw_roles
from attnprobe.reports.terminal.rolemap import is_map
from attnprobe.table.cleaning import clean
from attnprobe.table.head_table import HeadTable
from attnprobe.table.table import Column

_MOST_MEASURES = 4
#: Of a list with more measures than this, only the headlines are shown.
_MOST_LISTED = 8
#: So many of the columns that are left out are named.
_MOST_NAMED = 12
_STACKING = ("model", "dataset", "model_out", "model_b")  # first in tables, so that files can be stacked


def show(table: HeadTable, console: Console, precision: int | None = None) -> None:
    """Print a table for a person.

    - ``table``: What to print.
    - ``console``: Where; colours, width and encoding are taken from it.
    - ``precision``: Significant digits; None for as many as can be taken in at a glance.
    """
    measures = _measures(table)
    runs = runs_in(table)
    grids = panels(table) if measures and not runs else []
    keys = [column.name for column in table.columns if column.role == "key"]
    orders = comparisons(table)
    rows_are = runs[0].keys if runs else AXES if grids else ORDER_KEYS if orders else keys
    common = constants(table, [key for key in keys if key in _STACKING or key not in rows_are])
    _title(table, common, console)
    if runs:
        chosen = _chosen(measures)
        shown = draw_runs(table, runs, chosen, console, precision)
        _more(table, shown, console)
    elif settled := orders_in(table):
        draw_settling(settled, console)
        _more(table, SETTLING_COLUMNS, console)
    elif grids and is_map(table):
        console.print(Text("rows: layers, columns: heads, counted from 0", "dim"))
        draw_roles(table, grids, console)
        _more(table, {"role"}, console)
    elif grids:
        _grids(table, grids, measures, console, precision)
    elif is_spread(table):
        draw_shares(table, console)
        _more(table, SHARES_COLUMNS, console)
    elif (found := found_in(table)) is not None:
        draw_found(found, console)
        _more(table, found.shown, console)
    elif orders:
        draw_curves(orders, console, precision)
        _more(table, CURVE_COLUMNS, console)
    elif len(table):
        short = _short(table, measures)
        draw_list(short, set(common), console, precision)
        _more(table, set(short.data), console)
    else:
        console.print(Text("no rows", "dim"))
    if table.notes:
        console.print()
    for note in table.notes:
        console.print(Text(f"{signs(console).bullet} {clean(note)}"))


def _title(table: HeadTable, common: dict[str, str], console: Console) -> None:
    console.print(Text(clean(table.title), "bold"))
    if common:
        console.print(Text(signs(console).between.join(f"{name} {value}" for name, value in common.items())))


def _measures(table: HeadTable) -> list[Column]:
    return [
        column
        for column in table.columns
        if column.role == "measure" and numbers(table, column.name) is not None
    ]


def _grids(
    table: HeadTable, grids: list[Panel], measures: list[Column], console: Console, precision: int | None
) -> None:
    console.print(Text("rows: layers, columns: heads, counted from 0", "dim"))
    shown = _chosen(measures)
    scales = scales_of(table, shown)
    for column in shown:
        for panel in grids:
            console.print()
            _measure(table, column, panel, console, precision, scales[column.name])
    _more(table, {column.name for column in shown}, console)


def _measure(
    table: HeadTable, column: Column, panel: Panel, console: Console, precision: int | None, scale: Scale
) -> None:
    values = numbers(table, column.name)
    if values is None or not np.isfinite(values[panel.rows()]).any():
        console.print(caption.undefined(column, panel))
        return
    grid = panel.grid(values)
    layout = arrange(panel, grid, console.width, precision, averaged=column.unit != "probability")
    console.print(caption.heading(column, panel, layout.figures))
    marks = marks_of(table, column) if scale.is_of_effects else Marks([""] * len(table), "")
    draw_grid(panel, grid, layout, console, scale, panel.grid(np.array(marks.pale)) == 1)
    console.print(caption.extremes(column, grid, layout, precision))
    if has_palette(console):
        console.print(caption.colours(scale, marks.rule, console))
    if trust := caption.trust(table, column.name, panel, console):
        console.print(trust)
    if said := caption.named_outliers(table, column, panel, precision):
        console.print(said)


def _chosen(measures: list[Column]) -> list[Column]:
    if len(measures) <= _MOST_MEASURES:
        return measures
    return [column for column in measures if column.headline] or measures[:_MOST_MEASURES]


def _short(table: HeadTable, measures: list[Column]) -> HeadTable:
    """Leave out all measures but the headlines, where there are too many for a list."""
    headlines = {column.name for column in measures if column.headline}
    if len(measures) <= _MOST_LISTED or not headlines:
        return table
    kept = {*headlines, *(f"{name}_se" for name in headlines)}
    columns = [one for one in table.columns if one.role in {"key", "count"} or one.name in kept]
    return replace(table, columns=columns, data={one.name: table.data[one.name] for one in columns})


def _more(table: HeadTable, shown: Set[str], console: Console) -> None:
    """Say what a picture has no place for: further measures, and indices other than n."""
    seen = {*shown, "n"}
    left = [c.name for c in table.columns if c.role in {"measure", "count", "text"} and c.name not in seen]
    if left:
        console.print()
        columns = "column" if len(left) == 1 else "columns"
        names = ", ".join(clean(name) for name in left[:_MOST_NAMED])
        names += ", ..." if len(left) > _MOST_NAMED else ""
        console.print(Text(f"{len(left)} more {columns} ({names}); -o heads.csv writes them all", "dim"))
