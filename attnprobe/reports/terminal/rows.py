"""A line a row: what heads find, groups of documents, measures of heads, and any other table."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from attnprobe.reports.charts.places import Places
from attnprobe.reports.columns import name_measure, read_cells, read_floats
from attnprobe.reports.groups import lay_out_groups, list_compared, list_groups, sort_by_difference
from attnprobe.reports.scales import is_effect, mark_column
from attnprobe.reports.terminal.console import choose_signs, shorten
from attnprobe.sums.inference import SIGNIFICANT
from attnprobe.table.cells import clean, format_cell
from attnprobe.table.kinds import ALL_GROUPS
from attnprobe.table.numbers import choose_format, format_number, format_p, name_head, write_column
from attnprobe.table.table import Column, HeadTable

#: More rows than this are not printed.
MOST_ROWS = 40
#: So many rows are printed of a measure of groups, and of so many measures.
_MOST_COMPARED, _MOST_MEASURES = 12, 3
_LEAST_TEXT = 12  # a column of text folds down to this width
_LONGEST_GROUP = 14
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

    def header(self) -> Text:
        """Give its name, and below it the unit if there is room for one."""
        unit = self.unit if cell_len(self.unit) <= self.width() else ""
        return Text.assemble(self.name, (f"\n{unit}" if unit else "", "not bold dim"))

    def least(self) -> int:
        """Give the width that it takes at least, with a space either side and a divider."""
        return (min(self.width(), _LEAST_TEXT) if self.is_text else self.width()) + 3


def print_fields(
    fields: Sequence[Field],
    console: Console,
    *,
    significant: Sequence[bool] | None = None,
    most: int | None = None,
) -> None:
    """Print the columns that fit as a table, with a star behind rows that are ``significant``."""
    kept = list(fields)
    while len(kept) > 1 and sum(field.least() for field in kept) - 1 > console.width - 2:
        kept.pop()
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, header_style="bold")
    for field in kept:
        header = field.header()
        if field.is_text:
            table.add_column(header, overflow="fold", min_width=min(field.width(), _LEAST_TEXT))
        else:  # a number is never folded: half a number is a wrong one
            table.add_column(header, justify="right", no_wrap=True, min_width=field.width())
    stars = ["*" if passes else "" for passes in significant or ()]
    if stars:
        table.add_column("", no_wrap=True, width=1)
    rows = len(fields[0].cells)
    for row in range(rows)[:most]:
        # Always Text, never markup: tokens such as [CLS] look like tags.
        cells = [Text(field.cells[row], _style_cell(field, row)) for field in kept]
        table.add_row(*cells, *stars[row : row + 1], style="green" if any(stars[row : row + 1]) else "")
    console.print()
    console.print(table)
    more, left = choose_signs(console).more, rows - len(range(rows)[:most])
    if left:
        console.print(Text(f"{more} {left} more rows; --full or --rows shows them", "dim"))
    if len(kept) < len(fields):
        names = ", ".join(field.name for field in fields[len(kept) :])
        console.print(Text(f"{more} no room for {names}; -o heads.csv writes all", "dim"))


def _style_cell(field: Field, row: int) -> str:
    return _STATUS.get(field.cells[row], "") if field.name == "status" else ""


def print_rows(
    table: HeadTable,
    columns: Sequence[Column],
    console: Console,
    precision: int | None = None,
    *,
    most: int | None = MOST_ROWS,
) -> None:
    """Print some columns of any table. Rows that are significant have a star."""
    significant = None
    if "p_adjusted" in table.data:
        significant = [cell is not None and cell < SIGNIFICANT for cell in _read_floats(table, "p_adjusted")]
    print_fields(
        write_fields(table, columns, console, precision), console, significant=significant, most=most
    )
    if significant is not None:
        console.print(Text(f"* significant (adjusted p < {SIGNIFICANT})", "dim"))


def write_fields(
    table: HeadTable, columns: Sequence[Column], console: Console, precision: int | None
) -> list[Field]:
    """Write columns, a measure with its error; layer and head are one."""
    fields, signs = list[Field](), choose_signs(console)
    for column in columns:
        name, title = column.name, clean(column.name).replace("_", " ")
        cells = read_cells(table, name)
        head = name.replace("layer", "head", 1)
        if name.startswith("layer") and head in table.data:
            pairs = zip(cells, read_cells(table, head), strict=True)
            names = [signs.undefined if None in pair else name_head(*pair) for pair in pairs]
            fields.append(Field(clean(head), "", names, is_text=True))
        elif name.startswith("head") and name.replace("head", "layer", 1) in table.data:
            continue
        elif any(isinstance(cell, str) for cell in cells) or column.role == "text":
            words = [format_cell(cell).replace("_to_", " to ") for cell in cells]
            fields.append(Field(title, clean(column.unit), words, is_text=True))
        elif column.role != "error" or name.removesuffix("_se") not in table.data:
            errors = read_cells(table, f"{name}_se") if f"{name}_se" in table.data else ()
            written = write_column(
                cells, errors, precision=precision, probability=column.is_probability,
                undefined=signs.undefined, plus_minus=signs.plus_minus,
            )  # fmt: skip
            fields.append(Field(title, clean(column.unit), written))
    return fields


def print_ranges(table: HeadTable, columns: Sequence[Column], places: Places, console: Console) -> None:
    """Print a line for each measure of heads: its lowest, highest and mean, and how many differ from 0."""
    heads = zip(places.panel, places.y, places.x, strict=True)
    names = [name_head(*filter(None, [label]), layer, head) for label, layer, head in heads]
    lines = list[list[str]]()
    for column in columns:
        values, errors = (_read_floats(table, name) for name in (column.name, f"{column.name}_se"))
        known = np.flatnonzero(np.isfinite(values))
        numbers = choose_format(values, errors)
        if not known.size:
            lines.append(["undefined", "", "", ""])
            continue
        ends = [int(known[pick(values[known])]) for pick in (np.argmin, np.argmax)]
        marks, effect = mark_column(table, column), is_effect(column.name, values.tolist())
        lines.append([
            *(f"{numbers.write_whole(values[row])} at {names[row]}" for row in ends),
            numbers.write_whole(values[known].mean()),
            f"{sum(map(bool, marks.signs))} of {known.size}" if marks.rule and effect else "",
        ])  # fmt: skip
    fields = [Field("", "", [clean(column.name) for column in columns], is_text=True)]
    for place, name in enumerate(("lowest", "highest", "mean", "not 0")):
        cells = [line[place] for line in lines]
        if any(cells):
            fields.append(Field(name, "", cells))
    print_fields(fields, console)


def _read_floats(table: HeadTable, name: str) -> np.ndarray:
    values = read_floats(table, name)
    return np.full(len(table), np.nan) if values is None else values


def has_groups(table: HeadTable) -> bool:
    """Tell whether rows are those of groups, of which it was tested whether they are alike."""
    return table.kind in {"heads of groups", "groups"} and bool(list_compared(table))


def print_groups(
    table: HeadTable, console: Console, precision: int | None = None, *, full: bool = False
) -> set[str]:
    """Print the rows in which groups differ most, measure by measure; returns the columns shown."""
    shown, names = list_compared(table)[: None if full else _MOST_MEASURES], [ALL_GROUPS, *list_groups(table)]
    signs = choose_signs(console)
    for column in shown:
        compared = sort_by_difference(lay_out_groups(table, column.name))
        most = compared[: None if full else _MOST_COMPARED]
        fields = [
            Field("", "", [row.label for row in most], is_text=True),
            Field("p", "", [signs.undefined if np.isnan(row.p) else format_p(row.p) for row in most]),
        ]
        rows = [
            row
            for compared in zip(*([one.whole, *one.rows] for one in most), strict=True)
            for row in compared
        ]
        values, errors = (
            [None if row is None else cells[row] for row in rows]
            for cells in (read_cells(table, column.name), read_cells(table, f"{column.name}_se"))
        )
        written = write_column(
            values, errors, precision=precision, undefined=signs.undefined, plus_minus=signs.plus_minus
        )
        for place, name in enumerate(names):
            cells = written[place * len(most) : (place + 1) * len(most)]
            fields.append(Field(shorten(clean(name), _LONGEST_GROUP), "", cells))
        unit = f", {clean(column.unit)}" if column.unit else ""
        more = f"; {len(most)} of {len(compared)} rows" if len(compared) > len(most) else ""
        console.print()
        console.print(Text(f"{name_measure(column)}{unit}{more}", "bold"))
        print_fields(fields, console, significant=[row.p < SIGNIFICANT for row in most])
    rule = f"p: whether groups are alike (adjusted); * they differ, p < {format_number(SIGNIFICANT)}"
    console.print(Text(rule, "dim"))
    tests = {f"{column.name}{end}" for column in shown for end in ("_q", "_q_p", "_q_p_adjusted")}
    return {*tests, *(column.name for column in shown), "layer", "head"}
