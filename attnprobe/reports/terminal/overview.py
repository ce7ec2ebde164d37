"""What does not fit a screen, at a glance: maps of half height, and the heads that change most."""

from collections.abc import Sequence, Set
from typing import NamedTuple

import numpy as np
from rich.cells import cell_len
from rich.console import Console
from rich.style import Style
from rich.table import Table
from rich.text import Text

from attnprobe.reports.columns import read_floats
from attnprobe.reports.scales import Marks, Scale, mark_column
from attnprobe.reports.shapes import Panel, Runs
from attnprobe.reports.terminal.console import (
    choose_signs,
    crop_line,
    find_colour,
    format_significant,
)
from attnprobe.reports.terminal.curves import SparkScale, split_heads, thin_out
from attnprobe.reports.terminal.grid import (
    arrange,
    draw_scale,
    format_rgb,
    name_labels,
    write_number,
    write_undefined,
)
from attnprobe.table.cells import clean, format_cell
from attnprobe.table.head_table import HeadTable
from attnprobe.table.table import Column

#: A grid of more lines than this, which a small screen has, is drawn at a glance.
SCREEN = 24
#: So many layers and heads keep their numbers: those of most base models.
_SMALL = 12
_GAP = 3  # spaces between two maps
_BAR = 8  # the width of a scale of colours
_NAMED = 3  # how many of the highest heads a line names
_CHANGING = 20  # how many heads that change most are drawn, of all measures together
_STEPS = 12  # how many steps a line has


def can_draw_maps(
    panels: Sequence[Panel], columns: Sequence[Column], table: HeadTable, console: Console
) -> bool:
    """Tell whether maps of half height have room, and numbers would take more than a screen for a measure."""
    if any(_measure_label(panel) + len(panel.heads) > console.width for panel in panels):
        return False
    for column in columns:
        values = read_floats(table, column.name)
        for panel in panels:
            if values is None or max(len(panel.layers), len(panel.heads)) <= _SMALL:
                continue
            pieces = arrange(panel, panel.grid(values), console.width).pieces  # type: ignore[arg-type]
            if len(pieces) * (len(panel.layers) + 1) > SCREEN:
                return True
    return False


def draw_maps(
    table: HeadTable,
    panels: Sequence[Panel],
    columns: Sequence[Column],
    scales: dict[str, Scale],
    console: Console,
    precision: int | None = None,
) -> None:
    """Print a map for each measure, two layers a line, side by side; then a line a measure."""
    said = "rows: layers, two a line, columns: heads, from 0; --full shows every number"
    console.print(Text(crop_line(said, console), "dim"))
    rules = set[str]()
    for panel in panels:
        console.print()
        if panel.labels:
            console.print(Text(clean(", ".join(panel.labels)), "bold"))
        values = {one.name: read_floats(table, one.name) for one in columns}
        grids = {name: panel.grid(found) for name, found in values.items() if found is not None}
        drawn = [one for one in columns if one.name in grids and np.isfinite(grids[one.name]).any()]
        _print_side_by_side(table, panel, drawn, grids, scales, console, rules)
        for column in columns:
            if column not in drawn:
                console.print(write_undefined(column, panel))
        _print_lines(table, panel, drawn, grids, console, precision)
    if rules:
        console.print(Text(f"no colour: not {', not '.join(sorted(rules))}", "dim"))
    console.print(Text(_write_legend(table, panels, console), "dim"))


class _Map(NamedTuple):
    lines: list[Text]
    width: int


def _print_side_by_side(
    table: HeadTable,
    panel: Panel,
    columns: Sequence[Column],
    grids: dict[str, np.ndarray],
    scales: dict[str, Scale],
    console: Console,
    rules: set[str],
) -> None:
    """Print maps in as few rows as cells of one character allow, with cells of two where they have room."""
    choices = []
    for wide in (2, 1):
        maps = []
        for column in columns:
            scale = scales[column.name]
            marks = mark_column(table, column) if scale.is_of_effects else Marks([""] * len(table), "")
            rules.update({marks.rule} - {""})
            pale = panel.grid(np.array(marks.pale)) == 1
            maps.append(_make_map(panel, column, grids[column.name], pale, scale, wide, console))
        room = max((one.width for one in maps), default=1)
        across = max(1, (console.width + _GAP) // (room + _GAP))
        if room <= console.width or wide == 1:
            choices.append((-(-len(maps) // across), across, room, maps))
    _, across, room, maps = min(choices, key=lambda one: one[0])
    for start in range(0, len(maps), across):
        for parts in zip(*(one.lines for one in maps[start : start + across]), strict=True):
            line = Text()
            for part in parts:
                line.append_text(part).append(" " * (room + _GAP - part.cell_len))
            line.rstrip()
            console.print(line, no_wrap=True, overflow="ignore", crop=False)
        console.print()


def _make_map(
    panel: Panel,
    column: Column,
    grid: np.ndarray,
    pale: np.ndarray,
    scale: Scale,
    wide: int,
    console: Console,
) -> _Map:
    """Draw a map: its name, every few heads, two layers a line, and its colours."""
    label, layers = _measure_label(panel), name_labels("L", panel.layers)
    lines = [Text(clean(column.name), "bold"), Text(" " * label + _write_ruler(panel, wide), "dim")]
    for above in range(0, len(layers), 2):
        line = Text.assemble((layers[above].ljust(label), "bold"))  # bold blocks may be brighter
        for place in range(len(panel.heads)):
            halves = [
                None if row >= len(layers) or pale[row, place] else _find_colour(grid[row, place], scale)
                for row in (above, above + 1)
            ]
            sign, style = _choose_block(*halves)
            line.append(sign * wide, style)
        lines.append(line)
    bar = Text(" " * label + f"{scale.low:g} ", "dim")
    bar.append_text(draw_scale(scale, _BAR, choose_signs(console).bar)).append(f" {scale.high:g}")
    return _Map([*lines, bar], max(line.cell_len for line in (*lines, bar)))


def _find_colour(value: float, scale: Scale) -> str | None:
    if np.isnan(value):
        return None
    return format_rgb(find_colour(scale.place(float(value)), both_ways=scale.is_of_effects))


def _choose_block(upper: str | None, lower: str | None) -> tuple[str, Style]:
    """Choose the block of half height that shows two colours, of which one or both may be missing."""
    if upper is None:
        return (" ", Style()) if lower is None else ("▄", Style(color=lower))
    return "▀", Style(color=upper, bgcolor=lower)


def _measure_label(panel: Panel) -> int:
    return max(map(cell_len, name_labels("L", panel.layers))) + 1


def _write_ruler(panel: Panel, wide: int) -> str:
    """Name every few heads above a map."""
    names = name_labels("H", panel.heads)
    room = max(map(len, names)) + 1
    step = next((step for step in (1, 2, 4, 5, 8, 10, 16, 20) if step * wide >= room), room)
    ruler = "".join(names[place].ljust(step * wide) for place in range(0, len(names), step))
    return ruler[: len(names) * wide].rstrip() if len(names) * wide >= len(names[0]) else ruler.rstrip()


def _name(column: Column) -> str:
    """Name a measure with its unit, without what a share is of."""
    unit = clean(column.unit).split(" of ")[0]
    return f"{clean(column.name)}, {unit}" if unit else clean(column.name)


def _print_lines(
    table: HeadTable,
    panel: Panel,
    columns: Sequence[Column],
    grids: dict[str, np.ndarray],
    console: Console,
    precision: int | None,
) -> None:
    """Print a line a measure, which names as many of its highest heads as have room in all lines."""
    names = [_name(column) for column in columns]
    width = max(map(cell_len, names), default=0) + 2
    lines: list[str] = []
    for most in range(_NAMED, 0, -1):
        lines = [
            _describe_map(table, panel, column, grids[column.name], most, console, precision)
            for column in columns
        ]
        if all(width + cell_len(line) <= console.width for line in lines):
            break
    for name, line in zip(names, lines, strict=True):
        whole = crop_line(name + " " * (width - cell_len(name)) + line, console)
        console.print(Text.assemble((whole[: len(name)], "bold"), whole[len(name) :]))


def _describe_map(
    table: HeadTable,
    panel: Panel,
    column: Column,
    grid: np.ndarray,
    most: int,
    console: Console,
    precision: int | None,
) -> str:
    """Name the highest heads, the lowest, and the typical error."""
    low, high = float(np.nanmin(grid)), float(np.nanmax(grid))
    errors = read_floats(table, f"{column.name}_se")
    spread = None if errors is None else panel.grid(errors)
    layers, heads = name_labels("L", panel.layers), name_labels("H", panel.heads)

    def write(place: int) -> str:
        layer, head = divmod(place, grid.shape[1])
        number = write_number(float(grid.ravel()[place]), column, precision)
        return f"{number} {layers[layer]} {heads[head]}"

    order = [int(place) for place in np.argsort(-grid, axis=None, kind="stable")]
    known = [place for place in order if not np.isnan(grid.ravel()[place])]
    parts = [", ".join(map(write, known[:most])), f"lowest {write(known[-1])}"]
    if low == high:
        parts = [f"the same in all heads: {write_number(low, column, precision)}"]
    if spread is not None and not np.isnan(spread).all():
        typical = format_significant(float(np.nanmedian(spread)), 2)
        parts.append(f"{choose_signs(console).plus_minus} {typical}")
    if missing := sum(bool(np.isnan(grid[place])) for place in _list_places(panel)):
        parts.append(f"{missing} undefined")
    return "; ".join(parts)


def _list_places(panel: Panel) -> list[tuple[int, int]]:
    """List where in the grid of a panel there are heads."""
    return [
        (row, place)
        for row, layer in enumerate(panel.layers)
        for place, head in enumerate(panel.heads)
        if (layer, head) in panel.places
    ]


def _write_legend(table: HeadTable, panels: Sequence[Panel], console: Console) -> str:
    signs, rows = choose_signs(console), [row for panel in panels for row in panel.rows()]
    parts = [f"{signs.plus_minus} typical standard error"]
    counts = read_floats(table, "n")
    if counts is not None and np.isfinite(counts[rows]).any():
        least, most = int(np.nanmin(counts[rows])), int(np.nanmax(counts[rows]))
        unit = table.column("n").unit or "sequences"
        parts.append(f"{least} {unit}" if least == most else f"{least} to {most} {unit}")
    return signs.between.join(parts)


def can_draw_changes(runs: Sequence[Runs], console: Console) -> bool:
    """Tell whether a line for every head would take more than a screen for a measure."""
    grids = [split_heads(one, len(thin_out(len(one.steps), _STEPS)), console.width) for one in runs]
    return any(len(grid.pieces) * (len(grid.layers) + 1) > SCREEN for grid in grids)


def draw_changes(
    table: HeadTable,
    runs: Sequence[Runs],
    measures: Sequence[Column],
    console: Console,
    precision: int | None,
) -> Set[str]:
    """Print the heads that change most over the steps, a line each; returns the columns that are shown."""
    steps = runs[0].steps
    drawn = [steps[place] for place in thin_out(len(steps), 2 * _STEPS)]
    said = "steps" if len(drawn) == len(steps) else f"{len(drawn)} of {len(steps)} steps"
    console.print(Text("heads whose measure changes most; --full shows all heads", "dim"))
    console.print(Text(crop_line(f"{said} {', '.join(map(str, drawn))}", console), "dim"))
    most = max(3, _CHANGING // (len(measures) * len(runs)))
    for column in measures:
        values = read_floats(table, column.name)
        assert values is not None  # or it were no measure
        for one in runs:
            _print_changes(column, values, one, drawn, most, console, precision)
    return {column.name for column in measures}


def _print_changes(
    column: Column,
    values: np.ndarray,
    runs: Runs,
    steps: Sequence[int],
    most: int,
    console: Console,
    precision: int | None,
) -> None:
    heads = sorted({place for place, _ in runs.places}, key=lambda one: tuple(map(str, one)))
    rows = [[runs.places.get((head, step)) for step in steps] for head in heads]
    every = np.array([[np.nan if row is None else values[row] for row in line] for line in rows])
    finite = np.where(np.isfinite(every), every, np.nan)
    known = np.isfinite(finite).any(axis=1)
    change = np.zeros(len(heads))
    change[known] = np.nanmax(finite[known], axis=1) - np.nanmin(finite[known], axis=1)
    there = set(np.flatnonzero(known).tolist())
    order = [place for place in np.argsort(-change, kind="stable").tolist() if place in there][:most]
    scale = SparkScale.of(every)
    parts = [clean(part) for part in (column.unit, runs.label) if part]
    console.print()
    heading = Text.assemble((clean(column.name), "bold"), *(f", {part}" for part in parts))
    console.print(heading.append(f": {scale.legend(console, precision)}"))
    lines = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for name in ("head", "first", "last", "steps"):
        lines.add_column(name, justify="right" if name in {"first", "last"} else "left", no_wrap=True)

    def add(name: str, line: np.ndarray, style: str = "") -> None:
        ends = [_write(float(line[at]), console, precision) for at in (0, -1)]
        lines.add_row(Text(name, style), *ends, scale.draw(line, console))

    for place in order:
        add(f"L{format_cell(heads[place][0])} H{format_cell(heads[place][1])}", every[place])
    if known.any():
        defined = np.isfinite(finite).any(axis=0)
        middle = np.full(len(steps), np.nan)
        middle[defined] = np.nanmedian(finite[:, defined], axis=0)
        add("median", middle, "dim")
    console.print(lines)
    if (left := len(heads) - len(order)) > 0:
        console.print(Text(f"{choose_signs(console).more} {left} more heads change less", "dim"))


def _write(value: float, console: Console, precision: int | None) -> str:
    return choose_signs(console).undefined if np.isnan(value) else format_significant(value, precision)
