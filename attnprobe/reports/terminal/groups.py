"""Groups of documents, side by side: a line a head, or what else a row is about."""

from collections.abc import Sequence

import numpy as np
from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from attnprobe.reports.columns import name_measure, read_floats
from attnprobe.reports.groups import (
    Compared,
    lay_out_groups,
    list_compared,
    list_groups,
    sort_by_difference,
)
from attnprobe.reports.terminal.console import (
    choose_decimals,
    choose_signs,
    print_cells,
    shorten,
    write_with_error,
)
from attnprobe.sums.resampling import SIGNIFICANT
from attnprobe.table.cells import clean
from attnprobe.table.head_table import HeadTable
from attnprobe.table.kinds import ALL_GROUPS
from attnprobe.table.table import Column

#: So many rows are printed of each measure, and of so many measures.
MOST_ROWS, _MOST_MEASURES = 12, 3
#: The longest name of a row, and of a group.
_LONGEST, _LONGEST_GROUP = 30, 14
_DIGITS = 3


def has_groups(table: HeadTable) -> bool:
    """Tell whether rows are those of groups, of which it was tested whether they are alike."""
    return table.kind in {"heads of groups", "groups"} and bool(list_compared(table))


def draw_groups(table: HeadTable, console: Console, full: bool = False) -> set[str]:
    """Print the rows in which groups differ most; returns the columns that are shown."""
    shown = list_compared(table)[: None if full else _MOST_MEASURES]
    for column in shown:
        _draw_measure(table, column, console, full)
    console.print()
    console.print(
        Text(f"Q, p: whether groups are alike (p adjusted, Holm); * they differ, p < {SIGNIFICANT}", "dim")
    )
    tests = {f"{column.name}{end}" for column in shown for end in ("_q", "_q_p", "_q_p_adjusted")}
    return {*tests, *(column.name for column in shown), "layer", "head"}


def _draw_measure(table: HeadTable, column: Column, console: Console, full: bool) -> None:
    rows = lay_out_groups(table, column.name)
    some = sort_by_difference(rows)[: None if full else MOST_ROWS]
    names = [ALL_GROUPS, *list_groups(table)]
    signs = choose_signs(console)
    headers = ["", *(shorten(clean(name), _LONGEST_GROUP) for name in names), "Q", "p"]
    tested = [[_write(one.q, signs.undefined), _write(one.p, signs.undefined, 2)] for one in some]
    labels = [shorten(one.label, _LONGEST) for one in some]
    for with_errors in (True, False):
        written = _write_cells(table, column, some, console, with_errors=with_errors)
        columns = [labels, *written, *([cells[side] for cells in tested] for side in (0, 1))]
        widths = [max(map(cell_len, [name, *cells])) for name, cells in zip(headers, columns, strict=True)]
        kept = _choose_columns(widths, console.width - 2)
        if len(kept) == len(widths):
            break
    console.print()
    unit = f" ({clean(column.unit)})" if column.unit else ""
    said = f"{name_measure(column)}{unit}"
    if len(rows) > len(some):
        said += f"; the {len(some)} of {len(rows)} rows in which groups differ most"
    console.print(Text(said, "bold"))
    print_cells([headers[at] for at in kept], [widths[at] for at in kept], console, "bold")
    for row, one in enumerate(some):
        cells, sure = [columns[at][row] for at in kept], one.p < SIGNIFICANT
        print_cells(
            [*cells, "*"] if sure else cells,
            [*(widths[at] for at in kept), 1],
            console,
            "green" if sure else "",
        )
    if gone := len(widths) - len(kept):
        console.print(Text(f"{gone} more groups; -o groups.csv writes them all", "dim"))


def _write_cells(
    table: HeadTable, column: Column, some: Sequence[Compared], console: Console, *, with_errors: bool
) -> list[list[str]]:
    """Write the number of all groups and of each, with its error where there is room, a list for each."""
    values, errors = (read_floats(table, name) for name in (column.name, f"{column.name}_se"))
    assert values is not None  # or nothing was tested
    assert errors is not None
    signs, places = choose_signs(console), [[one.whole, *one.rows] for one in some]
    every = [row for rows in places for row in rows if row is not None]
    decimals = choose_decimals(errors[every])
    return [
        [
            signs.undefined
            if row is None or np.isnan(values[row])
            else write_with_error(
                float(values[row]), float(errors[row]) if with_errors else np.nan, signs, decimals, _DIGITS
            )
            for row in rows
        ]
        for rows in zip(*places, strict=True)
    ]


def _choose_columns(widths: Sequence[int], room: int) -> list[int]:
    """Choose the columns that fit: the name, all groups and the test always, then as many groups as do."""
    last = len(widths)
    kept = [0, 1, last - 2, last - 1]
    for at in range(2, last - 2):
        if sum(widths[one] + 2 for one in (*kept, at)) > room:
            break
        kept.append(at)
    return sorted(kept)


def _write(value: float, undefined: str, digits: int = _DIGITS) -> str:
    return undefined if np.isnan(value) else f"{value:.{digits}g}"
