"""A line a row: what heads find, where columns vary, and any other table."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from rich import box
from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.table import Table
from rich.text import Text

from attnprobe.findings.comparison.spread import PARTS
from attnprobe.reports.columns import floats
from attnprobe.reports.scales import Scale
from attnprobe.reports.shapes import Found
from attnprobe.reports.terminal.console import Signs, has_palette, signs
from attnprobe.reports.terminal.figures import Field, write_fields
from attnprobe.reports.terminal.grid import shade
from attnprobe.sums.resampling import SIGNIFICANT
from attnprobe.table.cells import format_cell
from attnprobe.table.cleaning import clean
from attnprobe.table.head_table import HeadTable
from attnprobe.table.table import Cell

_POSITION = "position"
#: More labels than this are not printed.
MOST_LABELS = 45
_DECIMALS = 2
_LONGEST = 24


def draw_found(found: Found, console: Console) -> None:
    """Print a line a label; directions side by side where there is room."""
    sides = list(dict.fromkeys(map(format_cell, found.column("direction"))))
    for attention in dict.fromkeys(map(format_cell, found.column("attention"))):
        rows = [row for row, kind in enumerate(found.column("attention")) if format_cell(kind) == attention]
        parts = [
            [row for row in rows if format_cell(found.column("direction")[row]) == side] for side in sides
        ]
        labels = list(dict.fromkeys(format_cell(found.cells[found.label][row]) for row in rows))
        shown = labels[:MOST_LABELS]
        counts: dict[str, set[str]] = {label: set() for label in labels}
        for row in rows:
            counts[format_cell(found.cells[found.label][row])].add(format_cell(found.cells["n"][row]))
        # A decoder is asked as often as the answer comes before, which differs by direction.
        alike = all(len(some) == 1 for some in counts.values())
        blocks = [
            _block(found, side, part, signs(console), counted=not alike)
            for side, part in zip(sides, parts, strict=True)
            if part
        ]
        first = [_Block("", ["", found.label], {label: [_short(label)] for label in labels}, aligned="<")]
        if alike:
            first.append(_Block("", ["", "links"], {label: [*counts[label]] for label in labels}))
        together = [[*first, *blocks]]
        if _width(together[0]) > console.width:
            together = [[*first, block] for block in blocks]
        for group in together:
            console.print()
            if attention:
                console.print(Text(clean(attention), "bold"))
            there = set[str]().union(*(block.cells for block in group if block.sure is not None))
            for line in _found_lines(group, [label for label in shown if label in there]):
                console.print(line, no_wrap=True, overflow="ignore", crop=False)
        if len(labels) > len(shown):
            console.print(Text(f"{len(labels) - len(shown)} more; -o found.csv writes them all", "dim"))
    rule = "fixed offset in words" if found.rule == "baseline_offset" else "simple rule"
    where = ", and where a decoder is asked" if any(found.column(_POSITION)) else ""
    said = (
        f"head: layer-head, counted from 0{where}; ({_rule_of(found)}): what the best {rule} finds; "
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
        columns = zip(*self.cells.values(), strict=True)
        names = self.headers[-len(next(iter(self.cells.values()))) :]
        return [max(map(cell_len, (name, *cells))) for name, cells in zip(names, columns, strict=True)]


def _block(found: Found, side: str, rows: Sequence[int], sign: Signs, *, counted: bool) -> _Block:
    cells, sure = {}, set()
    for row in rows:
        label = format_cell(found.cells[found.label][row])
        number = [format_cell(found.cells["n"][row])] if counted else []
        cells[label] = [*number, *_row(found, row, sign)]
        p = found.cells["p_adjusted"][row]
        if isinstance(p, float) and p < SIGNIFICANT:
            sure.add(label)
    headers = [*(["links"] if counted else []), "head", "accuracy", f"({_rule_of(found)})"]
    return _Block(side.replace("_", " "), headers, cells, frozenset(sure))


def _rule_of(found: Found) -> str:
    return found.rule.removeprefix("baseline_")


def _row(found: Found, row: int, sign: Signs) -> list[str]:
    layer, head = found.cells["layer"][row], found.cells["head"][row]
    if layer is None or head is None:
        return [sign.undefined, "", ""]
    accuracy, error, baseline = (found.cells[name][row] for name in ("accuracy", "accuracy_se", "baseline"))
    rule, position = found.cells[found.rule][row], format_cell(found.column(_POSITION)[row])
    named = (
        "" if rule is None else f" {rule:+d}" if isinstance(rule, int) else f" {_short(format_cell(rule))}"
    )
    spread = f" {sign.plus_minus} {_figure(error)}" if isinstance(error, float) and np.isfinite(error) else ""
    return [
        f"{format_cell(layer)}-{format_cell(head)}" + (position and f" {position}"),
        f"{_figure(accuracy)}{spread}",
        f"({_figure(baseline)}{named})",
    ]


def _figure(value: Cell) -> str:
    return f"{value:.{_DECIMALS}f}" if isinstance(value, int | float) else format_cell(value)


def _short(text: str) -> str:
    return text if cell_len(text) <= _LONGEST else f"{set_cell_size(text, _LONGEST - 1).rstrip()}."


def _width(blocks: Sequence[_Block]) -> int:
    return sum(map(_room, blocks)) - 2  # nothing stands behind the last


def _found_lines(blocks: Sequence[_Block], labels: Sequence[str]) -> list[Text]:
    """Set the blocks side by side, under a line of their titles and one of their headers."""
    titles, headers = Text(), Text()
    for block in blocks:
        wide = _room(block)
        titles.append(f" {block.title}".ljust(wide) if block.title else " " * wide, "bold")
        names = block.headers[-len(block.widths) :]
        for name, width in zip(names, block.widths, strict=True):
            headers.append(_padded(name, width, block.aligned) + "  ", "bold")
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
                line.append(_padded(cell, width, block.aligned) + "  ", style)
            if block.sure is not None:
                line.right_crop(2)
                line.append(" *  " if sure else "    ", style)
        line.rstrip()
        lines.append(line)
    return lines


def _room(block: _Block) -> int:
    return sum(block.widths) + 2 * len(block.widths) + (2 if block.sure is not None else 0)


def _padded(text: str, width: int, aligned: str) -> str:
    missing = " " * (width - cell_len(text))
    return text + missing if aligned == "<" else missing + text


#: The columns that are on the screen.
SHARES_COLUMNS = frozenset({*PARTS, "checkpoints", "unit"})
#: Parts that stand together, each with the short name that it has there.
_GROUPS: Mapping[str, Mapping[str, str]] = {
    "place": {"layers": "lay", "heads": "head"},
    "checkpoint": {"seeds": "all", "layers_by_seed": "lay", "heads_by_seed": "head"},
    "text": {"texts": "all", "layers_by_text": "lay", "heads_by_text": "head", "seeds_by_text": "chk"},
    "rest": {"rest": ""},
}
_SHARES = Scale(0.0, 1.0)
_CELL, _GAP = 5, 1
_LEAST_NAME = 8
_SAID = (
    "in % of the variance; place: the same in all checkpoints and texts; checkpoint, text: what they change "
    "for all heads (all), for some layers (lay) or heads"
)


def has_shares(table: HeadTable) -> bool:
    """Tell whether rows are measures with shares of their variance."""
    return (
        table.kind == "shares"
        and len(table) > 0
        and all(part in table.data and floats(table, part) is not None for part in PARTS)
    )


def draw_shares(table: HeadTable, console: Console) -> None:
    """Print a line a column, and a column a component."""
    names = _names(table)
    shares = {part: floats(table, part) for part in PARTS}
    figures = len(PARTS) * _CELL + _GAP * len(_GROUPS)
    room = max(_LEAST_NAME, console.width - figures)
    width = min(room, max(map(len, names), default=0))
    console.print(Text(_SAID, "dim"))
    top, below = Text(" " * width, "bold"), Text("".ljust(width), "bold")
    for group, parts in _GROUPS.items():
        top.append(
            " " * _GAP + (group.rjust(_CELL) if len(parts) == 1 else f"  {group}".ljust(_CELL * len(parts)))
        )
        below.append(" " * _GAP + "".join(short.rjust(_CELL) for short in parts.values()))
    for line in (top, below):
        line.rstrip()
        _print_line(line, console)
    for row, name in enumerate(names):
        more = signs(console).more
        shown = name if len(name) <= width else name[: width - len(more)] + more
        line = Text(shown.ljust(width))
        for parts in _GROUPS.values():
            line.append(" " * _GAP)
            for part in parts:
                found = shares[part]
                assert found is not None  # or it were no picture
                _share(line, float(found[row]), console)
        _print_line(line, console)


def _share(line: Text, share: float, console: Console) -> None:
    if np.isnan(share):
        line.append(signs(console).undefined.rjust(_CELL))
        return
    style = shade(share, _SHARES) if has_palette(console) else None
    line.append(f"{100 * share:.0f}".rjust(_CELL), style)


def _print_line(line: Text, console: Console) -> None:
    console.print(line, no_wrap=True, overflow="ignore", crop=False)


def _names(table: HeadTable) -> Sequence[str]:
    measures = [clean(format_cell(cell)) for cell in table.data["measure"]]
    if "attention" not in table.data:
        return measures
    kinds = [clean(format_cell(cell)) for cell in table.data["attention"]]
    return [f"{measure}, {kind}" for measure, kind in zip(measures, kinds, strict=True)]


MOST_ROWS = 40
MOST_RECORDS = 8
_LEAST_TEXT = 16  # a column of text may fold down to this width before records take over
_STATUS = {"ok": "green", "warning": "yellow", "failed": "bold red"}


def draw_rows(table: HeadTable, hidden: set[str], console: Console, precision: int | None = None) -> None:
    """Print the rows as a table if every number fits whole, otherwise as records."""
    found = write_fields(table, hidden, signs(console), precision)
    needed = sum(min(field.width(), _LEAST_TEXT) if field.is_text else field.width() for field in found)
    fits = needed + 3 * len(found) - 1 <= console.width  # a space either side, a divider between
    shown = min(len(table), MOST_ROWS if fits else MOST_RECORDS)
    console.print()
    if fits:
        console.print(_table_of_rows(found, shown))
    else:
        for row in range(shown):
            if row:
                console.print()
            console.print(_record(found, row))
    if shown < len(table):
        more = f"{signs(console).more} {len(table) - shown} more rows; -o heads.csv writes them all"
        console.print(Text(more, "dim"))


def _table_of_rows(found: list[Field], shown: int) -> Table:
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
        table.add_row(*(_style(field, row) for field in found))
    return table


def _record(found: list[Field], row: int) -> Table:
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(no_wrap=True, style="bold")
    table.add_column(overflow="fold")
    for field in found:
        unit = f" {field.unit}" if field.unit else ""
        table.add_row(Text(field.name), _style(field, row).append(unit, "dim"))
    return table


def _style(field: Field, row: int) -> Text:
    # Always Text, never markup: tokens such as [CLS] look like tags.
    text = field.cells[row]
    return Text(text, _STATUS.get(text, "") if field.name == "status" else "")
