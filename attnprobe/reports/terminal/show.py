"""A table on a terminal: heads as a map, over training as sparklines, anything else as rows; then notes."""

from collections.abc import Collection, Sequence
from dataclasses import replace

import numpy as np
from rich.console import Console
from rich.text import Text

from attnprobe.reports.charts.places import place_heads
from attnprobe.reports.columns import list_keys, read_cells, read_floats
from attnprobe.reports.findings import list_tested_measures, state_effects
from attnprobe.reports.scales import fit_scales
from attnprobe.reports.terminal.console import Screen
from attnprobe.reports.terminal.heatmap import (
    HeadMap,
    lay_out_panels,
    lay_out_positions,
    name_labels,
    print_measure,
)
from attnprobe.reports.terminal.rows import find_runs, print_groups, print_ranges, print_rows, print_runs
from attnprobe.table.cells import clean, format_cell
from attnprobe.table.kinds import POSITION, RANDOM
from attnprobe.table.naming import ROLE_MARKS, find_role_kind
from attnprobe.table.table import Column, HeadTable


def show(
    table: HeadTable,
    console: Console,
    precision: int | None = None,
    full: bool = False,
    rows: int | None = None,
) -> None:
    """Print a table in the colours, width and encoding of a console; see ``Screen``."""
    screen = Screen(console, precision, full, rows or Screen.rows)
    if table.title:
        screen.print(clean(table.title), "bold")
    if constant := _find_constants(table):
        screen.print(screen.signs.between.join(constant))
    if len(table):
        _print_left_out(table, _print_content(table, screen), screen)
    else:
        screen.print("no rows", "dim")
    notes = [*state_effects(table), *table.notes]
    if notes:
        screen.print()
    for note in notes:
        screen.print(f"{screen.signs.bullet} {clean(note)}")


def _print_content(table: HeadTable, screen: Screen) -> Collection[str]:
    """Print a table in the form that suits its kind; returns the names of the columns that are shown."""
    columns = list(table.columns) if screen.full else table.essential()
    measures = [
        column
        for column in columns
        if column.role == "measure" and not np.isnan(read_floats(table, column.name)).all()
    ]
    measures = [column for column in measures if not column.is_probability] or measures
    measures.sort(key=lambda column: not column.headline)
    names = {column.name for column in measures}
    # Heads that disagree are listed in order, not mapped.
    places = place_heads(table) if table.kind != "two sides" else None
    panels = lay_out_panels(places)
    if table.kind == "roles" and panels:
        _print_roles(table, panels, screen)
        return {"role"}
    if runs := find_runs(table):
        print_runs(table, runs, measures, screen)
        return names
    if table.kind in {"heads of groups", "groups"} and list_tested_measures(table):
        return print_groups(table, screen)
    if measures and table.kind == "heads at positions":
        if at_positions := lay_out_positions(table, measures[0].name):
            screen.print("rows: layers, columns: positions; of each layer the strongest head", "dim")
            _print_maps(table, measures[:1], at_positions, screen)
            return {measures[0].name, "token"}
    elif measures and places is not None and panels:
        _print_maps(table, measures if screen.full else measures[:1], panels, screen)
        print_ranges(table, measures, places, screen)
        return names
    listed = _drop_random_orders(table)
    varying = [one for one in columns if one.role != "key" or len(set(read_cells(listed, one.name))) > 1]
    print_rows(listed, sorted(varying, key=lambda column: column.name == "n"), screen)
    return {column.name for column in columns}


def _find_constants(table: HeadTable) -> list[str]:
    """List the keys that are the same in all rows, as "model demo"; of one row, only model and dataset."""
    names = [name for name in list_keys(table) if len(table) > 1 or name in {"model", "dataset"}]
    cells = {name: dict.fromkeys(map(format_cell, read_cells(table, name))) for name in names}
    return [clean(f"{name} {min(words)}") for name, words in cells.items() if len(words) == 1 and min(words)]


def _print_maps(
    table: HeadTable, measures: Sequence[Column], panels: Sequence[HeadMap], screen: Screen
) -> None:
    scales = fit_scales(table, measures)
    for column in measures:
        for panel in panels:
            print_measure(table, column, panel, scales[column.name], screen)


def _print_roles(table: HeadTable, panels: Sequence[HeadMap], screen: Screen) -> None:
    """Print a map of the letters of roles, and a legend."""
    kinds = [find_role_kind(format_cell(cell)) for cell in table.data["role"]]
    counts = {kind: kinds.count(kind) for kind in ROLE_MARKS if kind in kinds}
    styles = {
        kind: f"black on {ROLE_MARKS[kind].colour}" if ROLE_MARKS[kind].colour and screen.has_palette else ""
        for kind in counts
    }
    for panel in panels:
        screen.print()
        if panel.label:
            screen.print(clean(panel.label), "bold")
        layers, heads = name_labels("L", panel.down), name_labels("H", panel.across)
        wide = max(map(len, heads)) + 1
        across = max(1, (screen.console.width - max(map(len, layers)) - 1) // (wide + 1))
        for start in range(0, len(heads), across):
            piece = slice(start, start + across)
            lines = [Text() for _ in layers]
            for line, rows in zip(lines, panel.rows[:, piece].tolist(), strict=True):
                for kind in (None if row < 0 else kinds[row] for row in rows):
                    letter = ROLE_MARKS[kind].letter if kind else ""
                    line.append(" ").append(letter.center(wide), styles.get(kind or ""))
            screen.print_map(layers, "".join(head.rjust(wide + 1) for head in heads[piece]), lines)
    screen.print()
    line, blank = Text(), " " if screen.console.options.ascii_only else "\N{NO-BREAK SPACE}"
    for kind, number in counts.items():
        name = f" {kind} {number}".replace(" ", blank)
        line.append(f" {ROLE_MARKS[kind].letter} ", styles[kind]).append(f"{name}  ")
    screen.print(line)


def _drop_random_orders(table: HeadTable) -> HeadTable:
    """Leave out the rows of random orders from a table of pruning that has other orders."""
    if not table.kind.startswith("pruning"):
        return table
    kept = [row for row, name in enumerate(read_cells(table, "criterion")) if name != RANDOM]
    data = {name: [cells[row] for row in kept] for name, cells in table.data.items()}
    return replace(table, data=data) if kept else table


def _print_left_out(table: HeadTable, shown: Collection[str], screen: Screen) -> None:
    """Print how many measures, counts and texts are not shown, with three of their names."""
    left = [
        clean(column.name)
        for column in table.columns
        if column.role in {"measure", "count", "text"} and column.name not in {*shown, "n", POSITION}
    ]
    if left:
        names = ", ".join(left[:3]) + (", ..." if len(left) > 3 else "")
        columns = "column" if len(left) == 1 else "columns"
        screen.print(f"{len(left)} more {columns} ({names}); -o heads.csv writes all", "dim")
