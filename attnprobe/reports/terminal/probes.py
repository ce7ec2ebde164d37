"""Labels with what all heads find of them together, a line each."""

from collections.abc import Iterable, Sequence

import numpy as np
from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from attnprobe.reports.columns import list_keys, read_cells, read_floats
from attnprobe.reports.terminal.console import Signs, choose_signs, print_cells, shorten
from attnprobe.sums.resampling import SIGNIFICANT
from attnprobe.table.cells import format_cell
from attnprobe.table.head_table import HeadTable
from attnprobe.table.kinds import PROBED

#: The columns that are on the screen.
PROBE_COLUMNS = frozenset({*PROBED, "layer", "head", "baseline_rule"})
#: More labels than this are not printed.
MOST_LABELS = 45
_LONGEST = 24
#: Columns of text, which are flush left.
_TEXTS = {0}


def has_probes(table: HeadTable) -> bool:
    """Tell whether rows are labels of which probes of all heads were scored."""
    known = all(read_floats(table, name) is not None for name in PROBED)
    return table.kind == "probes" and len(table) > 0 and known


def draw_probes(table: HeadTable, console: Console, full: bool = False) -> None:
    """Print a line a label, with a star where all heads find more than the best of them."""
    signs = choose_signs(console)
    label = next((key for key in list_keys(table) if key not in ("model", "dataset")), "model")
    numbers = {name: np.asarray(read_floats(table, name), float) for name in PROBED}

    def write(values: Iterable[float]) -> list[str]:
        return [signs.undefined if np.isnan(one) else f"{one:.2f}" for one in values]

    accuracy, errors = (numbers[name] for name in ("accuracy", "accuracy_se"))
    columns = {
        label: [shorten(format_cell(cell), _LONGEST) for cell in read_cells(table, label)],
        "links": [format_cell(cell) for cell in read_cells(table, "n")],
        "all heads": [_write_spread(*pair, signs) for pair in zip(accuracy, errors, strict=True)],
        "best head": _join(write(numbers["best_head_accuracy"]), _name_heads(table)),
        "rule": _join(write(numbers["baseline"]), _name_rules(table)),
    }
    widths = [max(map(cell_len, [name, *cells])) for name, cells in columns.items()]
    console.print()
    print_cells(list(columns), widths, console, "bold", _TEXTS)
    for row, cells in enumerate(zip(*columns.values(), strict=True)):
        if row == MOST_LABELS and not full:
            console.print(Text(f"{len(table) - row} more; -o found.csv writes them all", "dim"))
            break
        sure = numbers["p_adjusted"][row] < SIGNIFICANT
        print_cells([*cells, "*"] if sure else cells, [*widths, 1], console, "green" if sure else "", _TEXTS)
    console.print()
    console.print(
        Text(
            "links found: by a probe of all heads, by the best head (layer-head, counted from 0), by the "
            "best simple rule; * all heads find significantly more than the best (adjusted p < "
            f"{SIGNIFICANT})",
            "dim",
        )
    )


def _name_heads(table: HeadTable) -> list[str]:
    places = zip(read_cells(table, "layer"), read_cells(table, "head"), strict=True)
    return ["" if layer is None else f"{format_cell(layer)}-{format_cell(head)}" for layer, head in places]


def _name_rules(table: HeadTable) -> list[str]:
    """Name the rule of each row in short: an offset by its number of words."""
    named = [format_cell(cell) for cell in read_cells(table, "baseline_rule")]
    return [shorten(name.removeprefix("offset "), _LONGEST) for name in named]


def _join(values: Sequence[str], names: Sequence[str]) -> list[str]:
    return [f"{value} {name}".rstrip() for value, name in zip(values, names, strict=True)]


def _write_spread(value: float, error: float, signs: Signs) -> str:
    if np.isnan(value):
        return signs.undefined
    return f"{value:.2f}" + (f" {signs.plus_minus} {error:.2f}" if np.isfinite(error) else "")
