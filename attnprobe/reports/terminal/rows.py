"""One line per row: what heads find, groups of documents, heads over training, and any other table."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from rich import box
from rich.cells import cell_len
from rich.table import Table
from rich.text import Text

from attnprobe.reports.charts.places import Places
from attnprobe.reports.columns import label_by_others, name_measure, read_cells, read_floats
from attnprobe.reports.findings import list_group_tests, list_groups, list_tested_measures
from attnprobe.reports.scales import Scale, find_significant, is_effect
from attnprobe.reports.terminal.console import Screen, find_colour, shorten
from attnprobe.sums.inference import SIGNIFICANT
from attnprobe.table.cells import Cell, clean, format_cell
from attnprobe.table.kinds import ALL_GROUPS, HEAD, STEP
from attnprobe.table.numbers import DIGITS, choose_format, format_number, format_p, name_head, write_column
from attnprobe.table.table import Column, HeadTable

_STATUS = {"ok": "green", "warning": "yellow", "failed": "bold red"}


@dataclass(frozen=True)
class Field:
    """One column ready to print."""

    name: str
    unit: str
    cells: Sequence[str]
    is_text: bool = False

    def width(self) -> int:
        return max(cell_len(part) for part in (self.name, *self.cells))

    def least(self) -> int:
        """Give the least width that it needs; text may be folded down to 12."""
        return min(self.width(), 12) if self.is_text else self.width()

    def header(self) -> Text:
        """Give its name, and below it the unit if there is room for one."""
        unit = self.unit if cell_len(self.unit) <= self.width() else ""
        return Text.assemble(self.name, (f"\n{unit}" if unit else "", "not bold dim"))


def print_fields(
    fields: Sequence[Field], screen: Screen, significant: Sequence[bool] = (), most: int | None = None
) -> None:
    """Print the columns that fit and the first ``most`` rows, with a star behind ``significant`` ones."""
    kept = list(fields)
    # A space stands either side of each, and a divider.
    while len(kept) > 1 and sum(field.least() + 3 for field in kept) > screen.console.width - 1:
        kept.pop()
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, header_style="bold")
    for field in kept:
        # A number is never folded: half a number is a wrong one.
        look = {"overflow": "fold"} if field.is_text else {"justify": "right", "no_wrap": True}
        table.add_column(field.header(), min_width=field.least(), **look)  # type: ignore[arg-type]
    stars = ["*" if passes else "" for passes in significant]
    if stars:
        table.add_column("", no_wrap=True, width=1)
    rows = range(len(fields[0].cells))
    for row in rows[:most]:
        # Always Text, never markup: tokens such as [CLS] look like tags.
        styles = [_STATUS.get(field.cells[row], "") if field.name == "status" else "" for field in kept]
        cells = [Text(field.cells[row], style) for field, style in zip(kept, styles, strict=True)]
        table.add_row(*cells, *stars[row : row + 1], style="green" if any(stars[row : row + 1]) else "")
    screen.print()
    screen.console.print(table)
    if left := len(rows) - len(rows[:most]):
        screen.print(f"{screen.signs.more} {left} more rows; --full or --rows shows them", "dim")
    if len(kept) < len(fields):
        names = ", ".join(field.name for field in fields[len(kept) :])
        screen.print(f"{screen.signs.more} no room for {names}; -o heads.csv writes all", "dim")


def print_rows(table: HeadTable, columns: Sequence[Column], screen: Screen) -> None:
    """Print columns of any table as rows; significant ones have a star."""
    tested = "p_adjusted" in table.data
    significant = (read_floats(table, "p_adjusted") < SIGNIFICANT).tolist() if tested else ()
    fields = write_fields(table, columns, screen)
    print_fields(fields, screen, significant, None if screen.full else screen.rows)
    if tested:
        screen.print(f"* significant (adjusted p < {SIGNIFICANT})", "dim")


def write_fields(table: HeadTable, columns: Sequence[Column], screen: Screen) -> list[Field]:
    """Write columns as text: a measure together with its error, a layer together with its head."""
    fields, signs = list[Field](), screen.signs
    for column in columns:
        name, title, unit = column.name, clean(column.name).replace("_", " "), clean(column.unit)
        cells, head = read_cells(table, name), name.replace("layer", "head", 1)
        if name.startswith("layer") and head in table.data:
            pairs = zip(cells, read_cells(table, head), strict=True)
            names = [signs.undefined if None in pair else name_head(*pair) for pair in pairs]
            fields.append(Field(clean(head), "", names, is_text=True))
        elif name.startswith("head") and name.replace("head", "layer", 1) in table.data:
            continue
        elif any(isinstance(cell, str) for cell in cells) or column.role == "text":
            words = [format_cell(cell).replace("_to_", " to ") for cell in cells]
            fields.append(Field(title, unit, words, is_text=True))
        elif column.role != "error" or name.removesuffix("_se") not in table.data:
            errors = read_cells(table, f"{name}_se")
            written = _write_numbers(cells, errors, screen, probability=column.is_probability)
            fields.append(Field(title, unit, written))
    return fields


def _write_numbers(
    values: Sequence[Cell], errors: Sequence[Cell], screen: Screen, probability: bool = False
) -> list[str]:
    look = {"undefined": screen.signs.undefined, "plus_minus": screen.signs.plus_minus}
    return write_column(values, errors, precision=screen.precision, probability=probability, **look)


def print_ranges(table: HeadTable, columns: Sequence[Column], places: Places, screen: Screen) -> None:
    """Print a line for each measure: its lowest, highest and mean, and how many effects are significant."""
    names = list(map(name_head, places.panel, places.y, places.x))
    lines: dict[str, list[str]] = {name: [] for name in ("", "lowest", "highest", "mean", "not 0")}
    for column in columns:
        values = read_floats(table, column.name)
        known = np.flatnonzero(np.isfinite(values))
        numbers = choose_format(values, read_floats(table, f"{column.name}_se"))
        cells = ["undefined", "", "", ""]
        if known.size:
            ends = [int(known[pick(values[known])]) for pick in (np.argmin, np.argmax)]
            marks, effect = find_significant(table, column), is_effect(column.name, values.tolist())
            cells = [
                *(f"{numbers.write_whole(values[row])} at {names[row]}" for row in ends),
                numbers.write_whole(float(values[known].mean())),
                f"{sum(map(bool, marks.signs))} of {known.size}" if marks.rule and effect else "",
            ]
        for line, cell in zip(lines.values(), [clean(column.name), *cells], strict=True):
            line.append(cell)
    fields = [Field(name, "", cells, is_text=not name) for name, cells in lines.items() if any(cells)]
    print_fields(fields, screen)


def print_groups(table: HeadTable, screen: Screen) -> set[str]:
    """Print rows in which groups differ most, of 3 measures or all if full; returns the columns shown."""
    columns = list_tested_measures(table)[: None if screen.full else 3]
    for column in columns:
        every = list_group_tests(table, column.name)
        tests = every if screen.full else every[:12]
        p = [screen.signs.undefined if np.isnan(test.p) else format_p(test.p) for test in tests]
        fields = [Field("", "", [test.label for test in tests], is_text=True), Field("p", "", p)]
        # All numbers have the same decimals: they are written as one column.
        rows = [row for test in tests for row in test.rows]
        values, errors = (
            [None if row is None else cells[row] for row in rows]
            for cells in (read_cells(table, column.name), read_cells(table, f"{column.name}_se"))
        )
        written = _write_numbers(values, errors, screen)
        groups = [ALL_GROUPS, *list_groups(table)]
        for place, name in enumerate(groups):
            fields.append(Field(shorten(clean(name), 14), "", written[place :: len(groups)]))
        unit = f", {clean(column.unit)}" if column.unit else ""
        more = f"; {len(tests)} of {len(every)} rows" if len(every) > len(tests) else ""
        screen.print_heading(f"{name_measure(column)}{unit}{more}")
        print_fields(fields, screen, [test.p < SIGNIFICANT for test in tests])
    rule = f"p: whether groups are alike (adjusted); * they differ, p < {format_number(SIGNIFICANT)}"
    screen.print(rule, "dim")
    shown = {f"{column.name}{end}" for column in columns for end in ("", "_q", "_q_p", "_q_p_adjusted")}
    return {*shown, "layer", "head"}


def _draw_sparkline(values: np.ndarray, scale: Scale, screen: Screen) -> Text:
    """Draw a bar for each number, as high as its place on the scale; undefined ones have their own sign."""
    line = Text()
    for value in values.tolist():
        if np.isnan(value):
            line.append(screen.signs.undefined)
            continue
        share, levels = scale.place(value), screen.signs.levels
        line.append(
            levels[round(share * (len(levels) - 1))], find_colour(share) if screen.has_palette else ""
        )
    return line


def find_runs(table: HeadTable) -> dict[str, dict[int, int]]:
    """Map each head to its row at each step of training; empty for other tables, or two rows at a step."""
    if table.kind != "heads of checkpoints":
        return {}
    kinds, steps = label_by_others(table, {STEP, *HEAD}), read_cells(table, STEP)
    runs: dict[str, dict[int, int]] = {}
    axes = (read_cells(table, axis) for axis in HEAD)
    for row, (kind, step, *head) in enumerate(zip(kinds, steps, *axes, strict=True)):
        run = runs.setdefault(name_head(kind, *head), {})
        if not isinstance(step, int) or run.setdefault(step, row) != row:
            return {}
    return runs


def print_runs(
    table: HeadTable, runs: Mapping[str, Mapping[int, int]], measures: Sequence[Column], screen: Screen
) -> None:
    """Print sparklines of heads over training, for each measure, at 24 steps at most."""
    steps = sorted({step for run in runs.values() for step in run})
    places = np.linspace(0, len(steps) - 1, min(len(steps), 24)).round().astype(int)
    drawn = [steps[place] for place in places]
    counted = "steps" if len(drawn) == len(steps) else f"{len(drawn)} of {len(steps)} steps"
    screen.print(f"{counted} {', '.join(map(str, drawn))}; heads that change most come first", "dim")
    for column in measures:
        values = np.append(read_floats(table, column.name), np.nan)  # the last is of no row
        lines = np.array([[values[run.get(step, -1)] for step in drawn] for run in runs.values()])
        _print_changes(column, list(runs), lines, screen)


def _print_changes(column: Column, names: Sequence[str], lines: np.ndarray, screen: Screen) -> None:
    """Print sparklines of the 12 heads that change most, or of all if full, with the numbers at both ends."""
    change = [np.ptp(line[np.isfinite(line)]) if np.isfinite(line).any() else -1 for line in lines]
    order: list[int] = np.argsort(-np.array(change), kind="stable").tolist()[: None if screen.full else 12]
    finite = lines[np.isfinite(lines)]
    scale = Scale(float(finite.min()), float(finite.max())) if finite.size else Scale(0.0, 0.0)
    numbers, signs = choose_format(lines.flat, digits=screen.precision or DIGITS), screen.signs

    def write(value: float) -> str:
        return signs.undefined if np.isnan(value) else numbers.write_whole(float(value))

    unit = f", {clean(column.unit)}" if column.unit else ""
    ends = f"{signs.levels[0]} {write(scale.low)} to {signs.levels[-1]} {write(scale.high)}"
    screen.print_heading(clean(column.name), unit, f": {ends}")
    wide = max(len(names[place]) for place in order)
    for place in order:
        line = Text.assemble((names[place].ljust(wide), "bold"), "  ")
        line.append_text(_draw_sparkline(lines[place], scale, screen))
        line.append(f"  {write(lines[place][0])} to {write(lines[place][-1])}")
        screen.console.print(line, no_wrap=True, overflow="crop")
    if left := len(names) - len(order):
        screen.print(f"{signs.more} {left} more heads change less; --full shows them", "dim")
