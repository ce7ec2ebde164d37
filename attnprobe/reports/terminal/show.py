"""The terminal: heads as heat maps, over training as sparklines; any other table as rows; then notes."""

from collections.abc import Iterable, Set
from dataclasses import replace

import numpy as np
from rich.console import Console
from rich.text import Text

from attnprobe.reports.columns import list_keys, read_cells, read_floats, read_numbers
from attnprobe.reports.scales import Marks, Scale, fit_scales, mark_column
from attnprobe.reports.shapes import (
    AXES,
    ORDER_KEYS,
    RANDOM,
    Panel,
    lay_out_best_heads,
    lay_out_panels,
    lay_out_positions,
    lay_out_runs,
)
from attnprobe.reports.terminal import curves, grid, rows
from attnprobe.reports.terminal.console import choose_signs, has_palette
from attnprobe.table.cells import clean, format_cell
from attnprobe.table.head_table import HeadTable
from attnprobe.table.kinds import POSITION, STEP
from attnprobe.table.naming import STACKING
from attnprobe.table.table import Column

_MOST_MEASURES = 4
#: Of a list with more measures than this, only the headlines are shown.
_MOST_LISTED = 8
#: So many of the columns that are left out are named.
_MOST_NAMED = 12


def show(table: HeadTable, console: Console, precision: int | None = None, full: bool = False) -> None:
    """Print a table in the colours, width and encoding of a console."""
    described = [column for column in table.columns if column.role == "measure"]
    measures = [column for column in described if read_floats(table, column.name) is not None]
    runs = lay_out_runs(table)
    at_positions = bool(measures) and bool(lay_out_positions(table, measures[0].name))
    apart = runs or at_positions or rows.has_groups(table)
    panels = lay_out_panels(table) if measures and not apart else []
    keys = list_keys(table)
    of_heads = (*AXES, POSITION) if at_positions else AXES
    of_rows = ORDER_KEYS if table.kind.startswith("pruning") else keys
    rows_are = ("attention", STEP, *AXES) if runs else of_heads if panels or at_positions else of_rows
    common = _find_constants(table, [key for key in keys if key in STACKING or key not in rows_are])
    console.print(Text(clean(table.title), "bold"))
    if common:
        said = choose_signs(console).between.join(f"{name} {value}" for name, value in common.items())
        console.print(Text(said))
    shown: Set[str] = table.data.keys()
    chosen = measures if full else _choose_measures(table, measures)
    if runs:
        curves.draw_runs(table, runs, chosen, console, precision, full)
        shown = {column.name for column in chosen}
    elif at_positions:
        shown = _draw_positions(table, measures, console, precision, full)
    elif panels:
        shown = _draw_panels(table, panels, chosen, console, precision, full)
    elif listed := _draw_list(table, console, full):
        shown = listed
    elif len(table):
        short = table if full else _keep_headlines(_drop_random_orders(table), measures)
        rows.draw_rows(short, set(common), console, precision, full)
        shown = short.data.keys()
    else:
        console.print(Text("no rows", "dim"))
    _print_left_out(table, shown, console)
    if table.notes:
        console.print()
    for note in table.notes:
        console.print(Text(f"{choose_signs(console).bullet} {clean(note)}"))


def _draw_list(table: HeadTable, console: Console, full: bool) -> Set[str]:
    """Print groups or best heads; returns the columns shown."""
    shown: Set[str] = frozenset()
    if rows.has_groups(table):
        shown = rows.draw_groups(table, console, full)
    elif (found := lay_out_best_heads(table)) is not None:
        rows.draw_best_heads(table, found, console, full)
        shown = rows.FOUND_COLUMNS
    return shown


def _find_constants(table: HeadTable, names: Iterable[str]) -> dict[str, str]:
    values = {name: {format_cell(cell) for cell in read_cells(table, name)} for name in names}
    return {name: one.pop() for name, one in values.items() if len(one) == 1}


def _draw_panels(
    table: HeadTable,
    panels: list[Panel],
    shown: list[Column],
    console: Console,
    precision: int | None,
    full: bool,
) -> set[str]:
    console.print(Text("rows: layers, columns: heads, counted from 0", "dim"))
    if table.kind == "roles":
        grid.draw_roles(table, panels, console)
        return {"role"}
    scales = fit_scales(table, shown)
    for column in shown:
        for panel in panels:
            console.print()
            _draw_measure(table, column, panel, console, precision, scales[column.name], full)
    return {column.name for column in shown}


def _draw_positions(
    table: HeadTable, measures: list[Column], console: Console, precision: int | None, full: bool
) -> set[str]:
    """Print layers by positions, each cell of its strongest head; returns the columns that are shown."""
    column = next((one for one in measures if one.headline), measures[0])
    console.print(Text("rows: layers, columns: positions; of each layer the strongest head", "dim"))
    scale = fit_scales(table, [column])[column.name]
    for panel in lay_out_positions(table, column.name):
        console.print()
        _draw_measure(table, column, panel, console, precision, scale, full, averaged=False)
    return {column.name, "token"}


def _draw_measure(
    table: HeadTable,
    column: Column,
    panel: Panel,
    console: Console,
    precision: int | None,
    scale: Scale,
    full: bool,
    *,
    averaged: bool = True,
) -> None:
    """Print a heat map: numbers, or where these have no room, blocks of half height."""
    values = read_floats(table, column.name)
    if values is None or not np.isfinite(values[panel.rows()]).any():
        console.print(grid.write_undefined(column, panel))
        return
    cells = panel.grid(values)
    averaged = averaged and column.unit != "probability"
    layout = grid.arrange(panel, cells, console.width, precision, averaged=averaged)
    marks = mark_column(table, column) if scale.is_of_effects else Marks([""] * len(table), "")
    pale = panel.grid(np.array(marks.pale)) == 1
    console.print(grid.write_heading(column, panel, layout.figures))
    blocks = not full and grid.can_draw_blocks(panel, layout, console)
    draw = grid.draw_blocks if blocks else grid.draw_grid
    draw(panel, cells, layout, console, scale, pale)
    console.print(grid.write_extremes(column, cells, layout, precision))
    if has_palette(console):
        console.print(grid.write_colours(scale, marks.rule, console))
    if trust := grid.write_trust(table, column.name, panel, console):
        console.print(trust)


def _choose_measures(table: HeadTable, measures: list[Column]) -> list[Column]:
    if len(measures) <= _MOST_MEASURES:
        return measures
    known = [one for one in measures if any(cell is not None for cell in read_numbers(table, one.name))]
    return [column for column in known if column.headline] or measures[:_MOST_MEASURES]


def _drop_random_orders(table: HeadTable) -> HeadTable:
    """Leave out the steps of random orders beside those of a criterion, which say how they compare."""
    if not table.kind.startswith("pruning"):
        return table
    kept = [row for row, name in enumerate(read_cells(table, "criterion")) if name != RANDOM]
    data = {name: [cells[row] for row in kept] for name, cells in table.data.items()}
    return replace(table, data=data) if kept else table


def _keep_headlines(table: HeadTable, measures: list[Column]) -> HeadTable:
    headlines = [column.name for column in measures if column.headline]
    if len(measures) <= _MOST_LISTED or not headlines:
        return table
    kept = {*headlines, *(f"{name}_se" for name in headlines)}
    columns = [one for one in table.columns if one.role in {"key", "count"} or one.name in kept]
    return replace(table, columns=columns, data={one.name: table.data[one.name] for one in columns})


def _print_left_out(table: HeadTable, shown: Set[str], console: Console) -> None:
    """Name the columns that are not shown: further measures, and indices other than n."""
    seen = {*shown, "n"}
    left = [c.name for c in table.columns if c.role in {"measure", "count", "text"} and c.name not in seen]
    if left:
        names = ", ".join(clean(name) for name in left[:_MOST_NAMED])
        names += ", ..." if len(left) > _MOST_NAMED else ""
        columns = "column" if len(left) == 1 else "columns"
        console.print()
        console.print(Text(f"{len(left)} more {columns} ({names}); -o heads.csv writes them all", "dim"))
