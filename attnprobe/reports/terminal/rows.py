"""A line a row: what heads find, groups of documents, and any other table."""

from collections.abc import Iterable, Sequence

import numpy as np
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from attnprobe.reports.columns import list_keys, name_measure, read_cells, read_floats
from attnprobe.reports.groups import (
    lay_out_groups,
    list_compared,
    list_groups,
    sort_by_difference,
)
from attnprobe.reports.shapes import BestHeads
from attnprobe.reports.terminal.console import (
    Field,
    Signs,
    choose_decimals,
    choose_signs,
    shorten,
    write_fields,
    write_with_error,
)
from attnprobe.sums.inference import SIGNIFICANT
from attnprobe.table.cells import clean, format_cell
from attnprobe.table.head_table import HeadTable
from attnprobe.table.kinds import ALL_GROUPS, FOUND, RULES
from attnprobe.table.table import Cell

#: More rows than this are not printed.
MOST_ROWS = 40
#: So many rows are printed of a measure of groups, and of so many measures.
_MOST_COMPARED, _MOST_MEASURES = 12, 3
_LEAST_TEXT = 16  # a column of text folds down to this width
_LONGEST, _LONGEST_GROUP = 24, 14
_STATUS = {"ok": "green", "warning": "yellow", "failed": "bold red"}
#: The columns of best heads that are on the screen.
FOUND_COLUMNS = frozenset({*FOUND, *RULES, "position", "direction"})
_STARRED = f"* significant (adjusted p < {SIGNIFICANT})"


def draw_rows(
    table: HeadTable, hidden: set[str], console: Console, precision: int | None = None, full: bool = False
) -> None:
    """Print the rows of any table; all, or the first. Rows that are significant have a star."""
    sure = _find_sure(table) if "p_adjusted" in table.data else None
    empty = {name for name in list_keys(table) if set(read_cells(table, name)) == {None}}
    fields = write_fields(table, hidden | empty, choose_signs(console), precision)
    print_fields(fields, console, sure=sure, full=full)
    if sure is not None:
        _print_legend(_STARRED, console)


def print_fields(
    fields: Sequence[Field],
    console: Console,
    *,
    sure: Sequence[bool] | None = None,
    full: bool = False,
    most: int = MOST_ROWS,
) -> None:
    """Print columns that fit as a table, with a star behind rows that are ``sure``."""
    room, kept = console.width - (2 if sure else 0), list(fields)
    while len(kept) > 1 and _measure(kept) > room:
        kept.pop()
    rows = len(fields[0].cells)
    shown = rows if full else min(rows, most)
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, header_style="bold")
    for field in kept:
        header = Text(field.name)
        if any(other.unit for other in kept):
            header.append(f"\n{field.unit}", "not bold dim")
        if field.is_text:
            table.add_column(header, overflow="fold")
        else:  # a number is never folded: half a number is a wrong one
            table.add_column(header, justify="right", no_wrap=True, min_width=field.width())
    if sure is not None:
        table.add_column("", no_wrap=True, width=1, justify="left")
    for row in range(shown):
        stars = [] if sure is None else [Text("*" if sure[row] else "")]
        style = "green" if sure is not None and sure[row] else ""
        table.add_row(*(_style_cell(field, row) for field in kept), *stars, style=style)
    console.print()
    console.print(table)
    more = choose_signs(console).more
    if shown < rows:
        console.print(Text(f"{more} {rows - shown} more rows; -o heads.csv writes them all", "dim"))
    if len(kept) < len(fields):
        names = ", ".join(field.name for field in fields[len(kept) :])
        console.print(Text(f"{more} no room for {names}; -o heads.csv writes all", "dim"))


def _measure(fields: Sequence[Field]) -> int:
    """Give the width that columns take at least: a space either side, a divider between."""
    widths = (min(field.width(), _LEAST_TEXT) if field.is_text else field.width() for field in fields)
    return sum(widths) + 3 * len(fields) - 1


def _style_cell(field: Field, row: int) -> Text:
    # Always Text, never markup: tokens such as [CLS] look like tags.
    text = field.cells[row]
    return Text(text, _STATUS.get(text, "") if field.name == "status" else "")


def _print_legend(text: str, console: Console) -> None:
    console.print(Text(text, "dim"))


def _write_spreads(values: Iterable[float], errors: Iterable[float], signs: Signs) -> list[str]:
    pairs = zip(values, errors, strict=True)
    return [write_with_error(_known(value), float(error), signs, 2, 2) for value, error in pairs]


def _write_accuracy(table: HeadTable, signs: Signs) -> list[str]:
    return _write_spreads(_read(table, "accuracy"), _read(table, "accuracy_se"), signs)


def _write_shares(values: Iterable[float], signs: Signs) -> list[str]:
    return [signs.undefined if np.isnan(value) else f"{value:.2f}" for value in values]


def _known(value: float) -> Cell:
    return None if np.isnan(value) else float(value)


def _read(table: HeadTable, name: str) -> np.ndarray:
    found = read_floats(table, name)
    return np.full(len(table), np.nan) if found is None else found


def _find_sure(table: HeadTable) -> list[bool]:
    return [bool(p < SIGNIFICANT) for p in _read(table, "p_adjusted")]


def _write_labels(cells: Iterable[Cell], longest: int = _LONGEST) -> list[str]:
    return [shorten(format_cell(cell), longest) for cell in cells]


def _name_heads(table: HeadTable, signs: Signs) -> list[str]:
    found = []
    cells = (read_cells(table, name) for name in ("layer", "head", "position"))
    for layer, head, position in zip(*cells, strict=True):
        place = "-".join(format_cell(one) for one in (layer, head) if one is not None) or signs.undefined
        found.append(" ".join(part for part in (place, format_cell(position)) if part))
    return found


def draw_best_heads(table: HeadTable, found: BestHeads, console: Console, full: bool = False) -> None:
    """Print a line a label and direction, with a star where a head finds more than the best rule."""
    signs = choose_signs(console)
    rules = [format_cell(one).removeprefix("offset ") for one in found.cells[found.rule]]
    baseline = _write_shares(_read(table, "baseline"), signs)
    fields = [Field(found.label, "", _write_labels(found.cells[found.label]), True)]
    for name in ("attention", "direction"):
        if len(set(found.cells[name])) > 1:
            cells = [format_cell(one).replace("_", " ") for one in found.cells[name]]
            fields.append(Field(name, "", cells, True))
    fields += [
        Field("head", "", _name_heads(table, signs), True),
        Field(
            "accuracy",
            "",
            _write_accuracy(table, signs),
            False,
        ),
        Field("rule", "", [f"{one} {rule}".strip() for one, rule in zip(baseline, rules, strict=True)], True),
        Field("links", "", [format_cell(one) for one in read_cells(table, "n")], False),
    ]
    print_fields(fields, console, sure=_find_sure(table), full=full)
    _print_legend(f"rule: what the best simple rule finds; {_STARRED}", console)


def has_groups(table: HeadTable) -> bool:
    """Tell whether rows are those of groups, of which it was tested whether they are alike."""
    return table.kind in {"heads of groups", "groups"} and bool(list_compared(table))


def draw_groups(table: HeadTable, console: Console, full: bool = False) -> set[str]:
    """Print the rows in which groups differ most, measure by measure; returns the columns shown."""
    signs, shown = choose_signs(console), list_compared(table)[: None if full else _MOST_MEASURES]
    names = [ALL_GROUPS, *list_groups(table)]
    for column in shown:
        rows = lay_out_groups(table, column.name)
        some = sort_by_difference(rows)[: None if full else _MOST_COMPARED]
        values, errors = (_read(table, name) for name in (column.name, f"{column.name}_se"))
        places = list(zip(*([one.whole, *one.rows] for one in some), strict=True))
        decimals = choose_decimals(errors[[row for rows in places for row in rows if row is not None]])
        written = [
            [
                signs.undefined
                if row is None
                else write_with_error(_known(float(values[row])), float(errors[row]), signs, decimals, 3)
                for row in rows
            ]
            for rows in places
        ]
        p = [signs.undefined if np.isnan(one.p) else f"{one.p:.2g}" for one in some]
        fields = [
            Field("", "", [shorten(one.label, _LONGEST) for one in some], True),
            Field("p", "", p, False),
            *(
                Field(shorten(clean(name), _LONGEST_GROUP), "", cells, False)
                for name, cells in zip(names, written, strict=True)
            ),
        ]
        unit = f" ({clean(column.unit)})" if column.unit else ""
        more = f"; {len(some)} of {len(rows)} rows" if len(rows) > len(some) else ""
        console.print()
        console.print(Text(f"{name_measure(column)}{unit}{more}", "bold"))
        print_fields(fields, console, sure=[one.p < SIGNIFICANT for one in some], full=True)
    _print_legend(f"p: whether groups are alike (adjusted); * they differ, p < {SIGNIFICANT}", console)
    tests = {f"{column.name}{end}" for column in shown for end in ("_q", "_q_p", "_q_p_adjusted")}
    return {*tests, *(column.name for column in shown), "layer", "head"}
