"""A line a row: what heads find, and any other table."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from attnprobe.reports.shapes import BestHeads
from attnprobe.reports.terminal.console import Field, Signs, choose_signs, shorten, write_fields
from attnprobe.sums.resampling import SIGNIFICANT
from attnprobe.table.cells import clean, format_cell
from attnprobe.table.head_table import HeadTable
from attnprobe.table.kinds import FOUND, RULES
from attnprobe.table.table import Cell

_POSITION = "position"
#: The columns that are on the screen.
FOUND_COLUMNS = frozenset({*FOUND, *RULES, _POSITION})
#: More labels than this are not printed.
MOST_LABELS = 45
_DECIMALS = 2
_LONGEST = 24


def draw_best_heads(found: BestHeads, console: Console, full: bool = False) -> None:
    """Print a line a label; directions side by side where there is room."""
    attentions, directions, named, numbers = (
        list(map(format_cell, found.cells[name])) for name in ("attention", "direction", found.label, "n")
    )
    for attention in dict.fromkeys(attentions):
        rows = [row for row, kind in enumerate(attentions) if kind == attention]
        counts: dict[str, set[str]] = {}
        for row in rows:
            counts.setdefault(named[row], set()).add(numbers[row])
        labels = list(counts)
        shown = labels if full else labels[:MOST_LABELS]
        # A decoder is asked as often as the answer comes before, which differs by direction.
        alike = all(len(some) == 1 for some in counts.values())
        parts = {side: [row for row in rows if directions[row] == side] for side in dict.fromkeys(directions)}
        blocks = [
            _make_block(found, side, part, choose_signs(console), counted=not alike)
            for side, part in parts.items()
            if part
        ]
        first = [
            _Block("", [found.label], {label: [shorten(label, _LONGEST)] for label in labels}, aligned="<")
        ]
        if alike:
            first.append(_Block("", ["links"], {label: [*counts[label]] for label in labels}))
        together = [[*first, *blocks]]
        if sum(block.room for block in together[0]) - 2 > console.width:  # nothing stands behind the last
            together = [[*first, block] for block in blocks]
        for group in together:
            console.print()
            if attention:
                console.print(Text(clean(attention), "bold"))
            there = set[str]().union(*(block.cells for block in group if block.sure is not None))
            for line in _write_lines(group, [label for label in shown if label in there]):
                _print_line(line, console)
        if len(labels) > len(shown):
            console.print(Text(f"{len(labels) - len(shown)} more; -o found.csv writes them all", "dim"))
    rule = "fixed offset in words" if found.rule == "baseline_offset" else "simple rule"
    where = ", and where a decoder is asked" if any(found.cells[_POSITION]) else ""
    said = (
        f"head: layer-head, counted from 0{where}; ({_name_rule(found)}): what the best {rule} finds; "
        f"* significantly more (adjusted p < {SIGNIFICANT})"
    )
    console.print()
    console.print(Text(said, "dim"))


@dataclass(frozen=True)
class _Block:
    """Columns that belong together: what is above them, their headers, and the cells of each label.

    Where ``sure`` is given, a star stands behind the labels in it.
    """

    title: str
    headers: list[str]
    cells: dict[str, list[str]]
    sure: frozenset[str] | None = None
    aligned: str = ">"

    @property
    def widths(self) -> list[int]:
        return [max(map(cell_len, column)) for column in zip(self.headers, *self.cells.values(), strict=True)]

    @property
    def room(self) -> int:
        """The width with what stands between and behind the columns."""
        return sum(self.widths) + 2 * len(self.widths) + (2 if self.sure is not None else 0)

    def pad(self, text: str, width: int) -> str:
        missing = " " * (width - cell_len(text))
        return f"{text}{missing}  " if self.aligned == "<" else f"{missing}{text}  "


def _make_block(found: BestHeads, side: str, rows: Sequence[int], sign: Signs, *, counted: bool) -> _Block:
    cells, sure = {}, set()
    for row in rows:
        label = format_cell(found.cells[found.label][row])
        number = [format_cell(found.cells["n"][row])] if counted else []
        cells[label] = [*number, *_write_row(found, row, sign)]
        p = found.cells["p_adjusted"][row]
        if isinstance(p, float) and p < SIGNIFICANT:
            sure.add(label)
    headers = [*(["links"] if counted else []), "head", "accuracy", f"({_name_rule(found)})"]
    return _Block(side.replace("_", " "), headers, cells, frozenset(sure))


def _name_rule(found: BestHeads) -> str:
    return found.rule.removeprefix("baseline_")


def _write_row(found: BestHeads, row: int, sign: Signs) -> list[str]:
    layer, head = found.cells["layer"][row], found.cells["head"][row]
    if layer is None or head is None:
        return [sign.undefined, "", ""]
    accuracy, error, baseline = (found.cells[name][row] for name in ("accuracy", "accuracy_se", "baseline"))
    rule, position = found.cells[found.rule][row], format_cell(found.cells[_POSITION][row])
    said = f"{rule:+d}" if isinstance(rule, int) else shorten(format_cell(rule), _LONGEST)
    named = "" if rule is None else f" {said}"
    spread = (
        f" {sign.plus_minus} {_write_figure(error)}"
        if isinstance(error, float) and np.isfinite(error)
        else ""
    )
    return [
        f"{format_cell(layer)}-{format_cell(head)}" + (position and f" {position}"),
        f"{_write_figure(accuracy)}{spread}",
        f"({_write_figure(baseline)}{named})",
    ]


def _write_figure(value: Cell) -> str:
    return f"{value:.{_DECIMALS}f}" if isinstance(value, int | float) else format_cell(value)


def _write_lines(blocks: Sequence[_Block], labels: Sequence[str]) -> list[Text]:
    """Set the blocks side by side, under a line of their titles and one of their headers."""
    titles, headers = Text(), Text()
    for block in blocks:
        titles.append(f" {block.title}".ljust(block.room) if block.title else " " * block.room, "bold")
        for name, width in zip(block.headers, block.widths, strict=True):
            headers.append(block.pad(name, width), "bold")
        headers.append("  " if block.sure is not None else "")
    lines = [titles, headers] if titles.plain.strip() else [headers]
    for line in lines:
        line.rstrip()
    for label in labels:
        line = Text()
        for block in blocks:
            cells = block.cells.get(label, [""] * len(block.widths))
            sure = block.sure is not None and label in block.sure
            style = "green" if sure else ""
            for cell, width in zip(cells, block.widths, strict=True):
                line.append(block.pad(cell, width), style)
            if block.sure is not None:
                line.right_crop(2)
                line.append(" *  " if sure else "    ", style)
        line.rstrip()
        lines.append(line)
    return lines


def _print_line(line: Text, console: Console) -> None:
    console.print(line, no_wrap=True, overflow="ignore", crop=False)


MOST_ROWS = 40
MOST_RECORDS = 8
_LEAST_TEXT = 16  # a column of text may fold down to this width before records take over
_STATUS = {"ok": "green", "warning": "yellow", "failed": "bold red"}


def draw_rows(
    table: HeadTable, hidden: set[str], console: Console, precision: int | None = None, full: bool = False
) -> None:
    """Print the rows as a table if every number fits whole, otherwise as records; all, or the first."""
    found = write_fields(table, hidden, choose_signs(console), precision)
    needed = sum(min(field.width(), _LEAST_TEXT) if field.is_text else field.width() for field in found)
    fits = needed + 3 * len(found) - 1 <= console.width  # a space either side, a divider between
    shown = len(table) if full else min(len(table), MOST_ROWS if fits else MOST_RECORDS)
    if fits:
        console.print()
        console.print(_make_table(found, shown))
    for row in range(0 if fits else shown):
        console.print()
        console.print(_make_record(found, row))
    if shown < len(table):
        more = f"{choose_signs(console).more} {len(table) - shown} more rows; -o heads.csv writes them all"
        console.print(Text(more, "dim"))


def _make_table(found: list[Field], shown: int) -> Table:
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, header_style="bold")
    for field in found:
        header = Text(field.name)
        if any(other.unit for other in found):
            header.append(f"\n{field.unit}", "not bold dim")
        if field.is_text:
            table.add_column(header, overflow="fold")
        else:  # a number is never folded: half a number is a wrong one
            table.add_column(header, justify="right", no_wrap=True, min_width=field.width())
    for row in range(shown):
        table.add_row(*(_style_cell(field, row) for field in found))
    return table


def _make_record(found: list[Field], row: int) -> Table:
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(no_wrap=True, style="bold")
    table.add_column(overflow="fold")
    for field in found:
        unit = f" {field.unit}" if field.unit else ""
        table.add_row(Text(field.name), _style_cell(field, row).append(unit, "dim"))
    return table


def _style_cell(field: Field, row: int) -> Text:
    # Always Text, never markup: tokens such as [CLS] look like tags.
    text = field.cells[row]
    return Text(text, _STATUS.get(text, "") if field.name == "status" else "")
