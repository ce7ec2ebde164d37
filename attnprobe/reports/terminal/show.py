"""The terminal: heads as a heat map, over training as sparklines; any other table as rows; then notes."""

from collections.abc import Iterable, Sequence, Set
from dataclasses import replace

import numpy as np
from rich.console import Console
from rich.text import Text

from attnprobe.reports.charts.places import place_heads
from attnprobe.reports.columns import list_keys, read_cells, read_floats
from attnprobe.reports.findings import state_effects
from attnprobe.reports.scales import fit_scales
from attnprobe.reports.terminal.console import choose_signs, has_palette
from attnprobe.reports.terminal.heatmap import (
    Panel,
    lay_out_panels,
    lay_out_positions,
    name_labels,
    print_measure,
)
from attnprobe.reports.terminal.rows import MOST_ROWS, has_groups, print_groups, print_ranges, print_rows
from attnprobe.reports.terminal.sparklines import find_runs, print_runs
from attnprobe.reports.theme import ROLE_COLOURS
from attnprobe.table.cells import clean, format_cell
from attnprobe.table.kinds import POSITION, RANDOM
from attnprobe.table.naming import LETTERS, find_role_kind
from attnprobe.table.table import Column, HeadTable

#: So many of the columns that are left out are named.
_MOST_NAMED = 3


def show(
    table: HeadTable,
    console: Console,
    precision: int | None = None,
    full: bool = False,
    rows: int | None = None,
) -> None:
    """Print a table in the colours, width and encoding of a console.

    Args:
        table: The table.
        console: Where it is printed.
        precision: Significant digits.
        full: Whether all measures are shown as maps, and all rows.
        rows: How many rows of a list are shown where not all are.
    """
    if table.title:
        console.print(Text(clean(table.title), "bold"))
    constant = _find_constants(table)
    if constant:
        console.print(Text(choose_signs(console).between.join(constant)))
    shown: Set[str] = table.data.keys()
    columns = list(table.columns) if full else table.essential()
    measures = [column for column in columns if column.role == "measure" and _is_defined(table, column)]
    measures = [column for column in measures if not column.is_probability] or measures
    measures.sort(key=lambda column: not column.headline)
    is_at_positions = bool(measures) and table.kind == "heads at positions"
    at_positions = lay_out_positions(table, measures[0].name) if is_at_positions else []
    # A list of heads that disagree has an order of its own.
    places = place_heads(table) if table.kind != "two sides" else None
    panels = lay_out_panels(places)
    if not len(table):
        console.print(Text("no rows", "dim"))
    elif table.kind == "roles" and panels:
        _print_roles(table, panels, console)
        shown = {"role"}
    elif runs := find_runs(table):
        print_runs(table, runs, measures, console, precision, full=full)
        shown = {column.name for column in measures}
    elif has_groups(table):
        shown = print_groups(table, console, precision, full=full)
    elif at_positions:
        console.print(Text("rows: layers, columns: positions; of each layer the strongest head", "dim"))
        _print_maps(table, measures[:1], at_positions, console, precision, full=full, averaged=False)
        shown = {measures[0].name, "token"}
    elif measures and places is not None and panels:
        _print_maps(table, measures if full else measures[:1], panels, console, precision, full=full)
        print_ranges(table, measures, places, console)
        shown = {column.name for column in measures}
    else:
        listed = _drop_random_orders(table)
        varying = [
            column for column in columns if column.role != "key" or not _is_constant(listed, column.name)
        ]
        varying.sort(key=lambda column: column.name == "n")
        print_rows(listed, varying, console, precision, most=None if full else rows or MOST_ROWS)
        shown = {column.name for column in columns}
    _print_left_out(table, shown, console)
    notes = [*state_effects(table), *table.notes]
    if notes:
        console.print()
    for note in notes:
        console.print(Text(f"{choose_signs(console).bullet} {clean(note)}"))


def _is_defined(table: HeadTable, column: Column) -> bool:
    values = read_floats(table, column.name)
    return values is not None and not np.isnan(values).all()


def _is_constant(table: HeadTable, name: str) -> bool:
    return len(set(read_cells(table, name))) <= 1


def _find_constants(table: HeadTable) -> list[str]:
    """Say what is the same in all rows: the model, and whatever else names rows elsewhere."""
    names = [name for name in list_keys(table) if len(table) > 1 or name in {"model", "dataset"}]
    cells = {name: format_cell(read_cells(table, name)[0]) for name in names if len(table)}
    return [clean(f"{name} {cell}") for name, cell in cells.items() if cell and _is_constant(table, name)]


def _print_maps(
    table: HeadTable,
    measures: Sequence[Column],
    panels: Iterable[Panel],
    console: Console,
    precision: int | None,
    *,
    full: bool,
    averaged: bool = True,
) -> None:
    scales = fit_scales(table, measures)
    for column in measures:
        for panel in panels:
            scale = scales[column.name]
            print_measure(table, column, panel, scale, console, precision, full=full, averaged=averaged)


def _print_roles(table: HeadTable, panels: Sequence[Panel], console: Console) -> None:
    """Print the letter of each head's role, and a legend of those that are there."""
    kinds = [find_role_kind(format_cell(cell)) for cell in table.data["role"]]
    counts = {kind: kinds.count(kind) for kind in LETTERS if kind in kinds}
    styles = {
        kind: f"black on {ROLE_COLOURS[kind]}" if ROLE_COLOURS[kind] and has_palette(console) else ""
        for kind in counts
    }
    for panel in panels:
        console.print()
        if panel.label:
            console.print(Text(clean(panel.label), "bold"))
        layers, heads = name_labels("L", panel.down), name_labels("H", panel.across)
        label, wide = max(map(len, layers)) + 1, max(map(len, heads)) + 1
        across = max(1, (console.width - label) // (wide + 1))
        for start in range(0, len(heads), across):
            piece = slice(start, start + across)
            names = "".join(head.rjust(wide + 1) for head in heads[piece])
            console.print(Text(f"{' ' * label}{names}", "dim"))
            for layer, rows in zip(layers, panel.rows[:, piece].tolist(), strict=True):
                line = Text.assemble((layer.ljust(label), "dim"))
                for kind in (None if row < 0 else kinds[row] for row in rows):
                    letter = LETTERS[kind] if kind else ""
                    line.append(" ").append(letter.center(wide), styles.get(kind or ""))
                console.print(line)
    console.print()
    line = Text()
    for kind, number in counts.items():
        name = f" {kind} {number}".replace(" ", "\N{NO-BREAK SPACE}")
        line.append(f" {LETTERS[kind]} ", styles[kind]).append(f"{name}  ")
    console.print(line)


def _drop_random_orders(table: HeadTable) -> HeadTable:
    """Leave out the steps of random orders beside those of a criterion, which say how they compare."""
    if not table.kind.startswith("pruning"):
        return table
    kept = [row for row, name in enumerate(read_cells(table, "criterion")) if name != RANDOM]
    data = {name: [cells[row] for row in kept] for name, cells in table.data.items()}
    return replace(table, data=data) if kept else table


def _print_left_out(table: HeadTable, shown: Set[str], console: Console) -> None:
    """Name the columns that are not shown: further measures, and indices other than n."""
    left = [
        clean(column.name)
        for column in table.columns
        if column.role in {"measure", "count", "text"} and column.name not in {*shown, "n", POSITION}
    ]
    if left:
        names = ", ".join(left[:_MOST_NAMED]) + (", ..." if len(left) > _MOST_NAMED else "")
        columns = "column" if len(left) == 1 else "columns"
        console.print(Text(f"{len(left)} more {columns} ({names}); -o heads.csv writes all", "dim"))
