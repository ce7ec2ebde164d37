"""The terminal: heads as heat maps, pruning as curves, any other table as a list; then the notes."""

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
    Panel,
    Runs,
    lay_out_best_heads,
    lay_out_panels,
    lay_out_positions,
    lay_out_pruning,
    lay_out_runs,
    lay_out_settling,
)
from attnprobe.reports.terminal import (
    alignments,
    curves,
    grid,
    groups,
    interactions,
    lists,
    overview,
    probes,
    settling,
)
from attnprobe.reports.terminal.console import choose_signs, crop_line, has_palette
from attnprobe.table.cells import clean, format_cell
from attnprobe.table.head_table import HeadTable
from attnprobe.table.kinds import POSITION, PRUNING_STEP
from attnprobe.table.naming import STACKING
from attnprobe.table.table import Column

_MOST_MEASURES = 4
#: Of a list with more measures than this, only the headlines are shown.
_MOST_LISTED = 8
#: So many of the columns that are left out are named.
_MOST_NAMED = 12
#: More orders of heads than this have a line each, and not a line a step.
_MOST_ORDERS = 4


def show(table: HeadTable, console: Console, precision: int | None = None, full: bool = False) -> None:
    """Print a table in the colours, width and encoding of a console.

    Without ``precision``, numbers have as many digits as can be taken in at a glance. Unless it is to be
    ``full``, what does not fit a screen is drawn as maps of half height, where the console has the colours.
    """
    described = [column for column in table.columns if column.role == "measure"]
    measures = [column for column in described if read_floats(table, column.name) is not None]
    runs = lay_out_runs(table)
    at_positions = bool(measures) and bool(lay_out_positions(table, measures[0].name))
    apart = runs or at_positions or groups.has_groups(table)
    panels = lay_out_panels(table) if measures and not apart else []
    orders = lay_out_pruning(table)
    keys = list_keys(table)
    of_heads = (*AXES, POSITION) if at_positions else AXES
    rows_are = (
        runs[0].keys if runs else of_heads if panels or at_positions else ORDER_KEYS if orders else keys
    )
    common = _find_constants(table, [key for key in keys if key in STACKING or key not in rows_are])
    console.print(Text(clean(table.title), "bold"))
    if common:
        said = choose_signs(console).between.join(f"{name} {value}" for name, value in common.items())
        console.print(Text(said))
    shown: Set[str] = table.data.keys()
    chosen = measures if full else _choose_measures(table, measures)
    glance = frozenset() if full else _draw_glance(table, runs, panels, chosen, console, precision)
    if glance:
        shown = glance
    elif runs:
        shown = curves.draw_runs(table, runs, chosen, console, precision, full)
    elif at_positions:
        shown = _draw_positions(table, measures, console, precision)
    elif panels:
        shown = _draw_panels(table, panels, chosen, console, precision)
    elif listed := _draw_list(table, console, precision, full):
        shown = listed
    elif (found := lay_out_best_heads(table)) is not None:
        lists.draw_best_heads(found, console, full)
        shown = lists.FOUND_COLUMNS
    elif orders:
        curves.draw_curves(orders, console, precision, full)
        shown = curves.CURVE_COLUMNS
    elif len(table):
        short = table if full else _keep_headlines(table, measures)
        lists.draw_rows(short, set(common), console, precision, full)
        shown = short.data.keys()
    else:
        console.print(Text("no rows", "dim"))
    _print_left_out(table, shown, console, whole=not glance)
    if table.notes:
        console.print()
    for note in table.notes:
        line = f"{choose_signs(console).bullet} {clean(note)}"
        console.print(Text(crop_line(line, console) if glance else line))


def _draw_glance(
    table: HeadTable,
    runs: list[Runs],
    panels: list[Panel],
    measures: list[Column],
    console: Console,
    precision: int | None,
) -> Set[str]:
    """Print what takes more than a screen at a glance; returns the columns shown, none where it is not."""
    orders = lay_out_settling(table)
    if len(orders) > _MOST_ORDERS:
        settling.draw_settling_lines(orders, console)
        return settling.SETTLING_COLUMNS
    if not has_palette(console) or console.options.ascii_only:
        return frozenset()
    if runs and PRUNING_STEP not in table.data and overview.can_draw_changes(runs, console):
        return overview.draw_changes(table, runs, measures, console, precision)
    if panels and table.kind != "roles" and overview.can_draw_maps(panels, measures, table, console):
        overview.draw_maps(table, panels, measures, fit_scales(table, measures), console, precision)
        return {column.name for column in measures}
    return frozenset()


def _draw_list(table: HeadTable, console: Console, precision: int | None, full: bool) -> Set[str]:
    """Print groups, steps, alignments, probes, shares or pairs, a line each; returns the columns shown."""
    shown: Set[str] = frozenset()
    if groups.has_groups(table):
        shown = groups.draw_groups(table, console, full)
    elif steps := lay_out_settling(table):
        settling.draw_settling(steps, console, full)
        shown = settling.SETTLING_COLUMNS
    elif table.kind == "alignments" and len(table):
        alignments.draw_alignments(table, console, precision, full)
        shown = alignments.ALIGNMENT_COLUMNS
    elif interactions.has_interactions(table):
        interactions.draw_interactions(table, console, full)
        shown = interactions.PAIR_COLUMNS
    elif probes.has_probes(table):
        probes.draw_probes(table, console, full)
        shown = probes.PROBE_COLUMNS
    return shown


def _find_constants(table: HeadTable, names: Iterable[str]) -> dict[str, str]:
    """Find the columns among ``names`` that are the same in every row, with their value."""
    values = {name: {format_cell(cell) for cell in read_cells(table, name)} for name in names}
    return {name: one.pop() for name, one in values.items() if len(one) == 1}


def _draw_panels(
    table: HeadTable,
    panels: list[Panel],
    shown: list[Column],
    console: Console,
    precision: int | None,
) -> set[str]:
    """Print a grid for each measure and panel; returns the columns that are shown."""
    console.print(Text("rows: layers, columns: heads, counted from 0", "dim"))
    if table.kind == "roles":
        grid.draw_roles(table, panels, console)
        return {"role"}
    scales = fit_scales(table, shown)
    for column in shown:
        for panel in panels:
            console.print()
            _draw_measure(table, column, panel, console, precision, scales[column.name])
    return {column.name for column in shown}


def _draw_positions(
    table: HeadTable, measures: list[Column], console: Console, precision: int | None
) -> set[str]:
    """Print layers by positions, each cell of its strongest head; returns the columns that are shown."""
    column = next((one for one in measures if one.headline), measures[0])
    console.print(Text("rows: layers, columns: positions; of each layer the strongest head", "dim"))
    values, scale = read_floats(table, column.name), fit_scales(table, [column])[column.name]
    assert values is not None  # or there would be no panels
    marks = mark_column(table, column) if scale.is_of_effects else Marks([""] * len(table), "")
    pale = np.array(marks.pale)
    for panel in lay_out_positions(table, column.name):
        cells = panel.grid(values)
        layout = grid.arrange(panel, cells, console.width, precision, averaged=False)
        console.print()
        console.print(grid.write_heading(column, panel, layout.figures))
        grid.draw_grid(panel, cells, layout, console, scale, panel.grid(pale) == 1)
        console.print(grid.write_extremes(column, cells, layout, precision))
    return {column.name, "token"}


def _draw_measure(
    table: HeadTable, column: Column, panel: Panel, console: Console, precision: int | None, scale: Scale
) -> None:
    values = read_floats(table, column.name)
    if values is None or not np.isfinite(values[panel.rows()]).any():
        console.print(grid.write_undefined(column, panel))
        return
    cells = panel.grid(values)
    layout = grid.arrange(panel, cells, console.width, precision, averaged=column.unit != "probability")
    console.print(grid.write_heading(column, panel, layout.figures))
    marks = mark_column(table, column) if scale.is_of_effects else Marks([""] * len(table), "")
    grid.draw_grid(panel, cells, layout, console, scale, panel.grid(np.array(marks.pale)) == 1)
    console.print(grid.write_extremes(column, cells, layout, precision))
    if has_palette(console):
        console.print(grid.write_colours(scale, marks.rule, console))
    if trust := grid.write_trust(table, column.name, panel, console):
        console.print(trust)


def _choose_measures(table: HeadTable, measures: list[Column]) -> list[Column]:
    """Choose what is shown of many measures: the headlines that have a number."""
    if len(measures) <= _MOST_MEASURES:
        return measures
    known = [one for one in measures if any(cell is not None for cell in read_numbers(table, one.name))]
    return [column for column in known if column.headline] or measures[:_MOST_MEASURES]


def _keep_headlines(table: HeadTable, measures: list[Column]) -> HeadTable:
    """Leave out all measures but the headlines, where there are too many for a list."""
    headlines = [column.name for column in measures if column.headline]
    if len(measures) <= _MOST_LISTED or not headlines:
        return table
    kept = {*headlines, *(f"{name}_se" for name in headlines)}
    columns = [one for one in table.columns if one.role in {"key", "count"} or one.name in kept]
    return replace(table, columns=columns, data={one.name: table.data[one.name] for one in columns})


def _print_left_out(table: HeadTable, shown: Set[str], console: Console, *, whole: bool = True) -> None:
    """Name the columns that are not shown: further measures, and indices other than n; or as many as fit."""
    seen = {*shown, "n"}
    left = [c.name for c in table.columns if c.role in {"measure", "count", "text"} and c.name not in seen]
    if left:
        console.print()
        columns = "column" if len(left) == 1 else "columns"
        said = ""
        for most in range(_MOST_NAMED, -1, -1):
            names = ", ".join(clean(name) for name in left[:most])
            names += f"{', ' if most else ''}..." if len(left) > most else ""
            said = f"{len(left)} more {columns} ({names}); -o heads.csv writes them all"
            if whole or len(said) <= console.width:
                break
        console.print(Text(said, "dim"))
