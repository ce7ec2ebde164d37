"""Pairs of heads, a line each: what both do beyond what each does."""

import numpy as np
from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from attnprobe.reports.columns import read_floats
from attnprobe.reports.shapes import name_pairs
from attnprobe.reports.terminal.console import choose_decimals, choose_signs, print_cells
from attnprobe.sums.resampling import SIGNIFICANT
from attnprobe.table.head_table import HeadTable

#: The columns that are on the screen.
PAIR_COLUMNS = frozenset({"proposed", "interaction", "p_adjusted"})
#: More pairs than this are not printed.
MOST_PAIRS = 45


def has_interactions(table: HeadTable) -> bool:
    """Tell whether rows are pairs of heads of one table, whose interactions were tested."""
    known = all(read_floats(table, name) is not None for name in PAIR_COLUMNS)
    return table.kind == "interactions" and len(table) > 0 and known


def draw_interactions(table: HeadTable, console: Console, full: bool = False) -> None:
    """Print a line a pair, in the order of the table, with a star where it is confirmed."""
    signs, unit = choose_signs(console), table.column("interaction").unit
    values, errors, proposed, p = (
        np.asarray(read_floats(table, name), float)
        for name in ("interaction", "interaction_se", "proposed", "p_adjusted")
    )
    decimals = choose_decimals(errors)
    digits = 3 if decimals is None else decimals

    def write(value: float) -> str:
        return signs.undefined if np.isnan(value) else f"{value:+.{digits}f}"

    spread = [f"{write(v)} {signs.plus_minus} {e:.{digits}f}" for v, e in zip(values, errors, strict=True)]
    adjusted = [signs.undefined if np.isnan(one) else f"{one:.2g}" for one in p]
    headers = ["heads", f"interaction, {unit}" if unit else "interaction", "proposed", "adjusted p"]
    columns = [name_pairs(table), spread, [write(one) for one in proposed], adjusted]
    widths = [max(map(cell_len, [name, *cells])) for name, cells in zip(headers, columns, strict=True)]
    console.print()
    print_cells(headers, widths, console, "bold")
    for row, cells in enumerate(zip(*columns, strict=True)):
        if row == MOST_PAIRS and not full:
            console.print(Text(f"{len(table) - row} more; -o pairs.csv writes them all", "dim"))
            break
        sure = p[row] < SIGNIFICANT
        print_cells([*cells, "*"] if sure else cells, [*widths, 1], console, "green" if sure else "")
    console.print()
    console.print(
        Text(
            "interaction: loss without both, less those without each; proposed: by gradients, on the other "
            f"half; * significant (adjusted p < {SIGNIFICANT})",
            "dim",
        )
    )
