"""What heads find: a line a label, the best head for each direction beside the best simple rule."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.text import Text

from attnprobe.reports.terminal.console import Signs, signs
from attnprobe.reports.terminal.figures import numbers
from attnprobe.sums.resampling import SIGNIFICANT
from attnprobe.table.cells import plain_column, written
from attnprobe.table.cleaning import clean
from attnprobe.table.head_table import HeadTable
from attnprobe.table.table import Cell

#: The columns that such a table has.
_NEEDED = ("n", "layer", "head", "accuracy", "accuracy_se", "baseline", "gain", "p_adjusted")
#: The columns that name the rule that a head is compared with; of two, the first says more.
_RULES = ("baseline_rule", "baseline_offset")
_POSITION = "position"
#: More labels than this are not printed.
MOST_LABELS = 45
_DECIMALS = 2
_LONGEST = 24


@dataclass(frozen=True)
class Found:
    """A table of best heads.

    Attributes:
        label: The column that names what is looked for.
        rule: The column that names the rule that a head is compared with.
        cells: Every column by its name.
    """

    label: str
    rule: str
    cells: dict[str, Sequence[Cell]]

    @property
    def shown(self) -> set[str]:
        """The columns that are on the screen."""
        return {*_NEEDED, *_RULES, _POSITION}

    def column(self, name: str) -> Sequence[Cell]:
        """Give a column, empty cells where there is none."""
        return self.cells.get(name, [""] * len(self.cells["n"]))


def found_in(table: HeadTable) -> Found | None:
    """Recognise a table of the best head for each label; None for any other."""
    names = [column.name for column in table.columns]
    rules = [name for name in _RULES if name in names]
    keys = [
        column.name
        for column in table.columns
        if column.role == "key" and column.name not in ("model", "dataset")
    ]
    if not set(_NEEDED) <= set(names) or not rules or not keys or not len(table):
        return None
    if any(numbers(table, name) is None for name in _NEEDED):
        return None
    cells: dict[str, Sequence[Cell]] = {
        column.name: plain_column(table.data[column.name], column) for column in table.columns
    }
    return Found(keys[0], rules[0], cells)


def draw(found: Found, console: Console) -> None:
    """Print a line a label; directions side by side where there is room."""
    sides = list(dict.fromkeys(map(written, found.column("direction"))))
    for attention in dict.fromkeys(map(written, found.column("attention"))):
        rows = [row for row, kind in enumerate(found.column("attention")) if written(kind) == attention]
        parts = [[row for row in rows if written(found.column("direction")[row]) == side] for side in sides]
        labels = list(dict.fromkeys(written(found.cells[found.label][row]) for row in rows))
        shown = labels[:MOST_LABELS]
        counts: dict[str, set[str]] = {label: set() for label in labels}
        for row in rows:
            counts[written(found.cells[found.label][row])].add(written(found.cells["n"][row]))
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
            for line in _lines(group, [label for label in shown if label in there]):
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
        label = written(found.cells[found.label][row])
        number = [written(found.cells["n"][row])] if counted else []
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
    rule, position = found.cells[found.rule][row], written(found.column(_POSITION)[row])
    named = "" if rule is None else f" {rule:+d}" if isinstance(rule, int) else f" {_short(written(rule))}"
    spread = f" {sign.plus_minus} {_figure(error)}" if isinstance(error, float) and np.isfinite(error) else ""
    return [
        f"{written(layer)}-{written(head)}" + (position and f" {position}"),
        f"{_figure(accuracy)}{spread}",
        f"({_figure(baseline)}{named})",
    ]


def _figure(value: Cell) -> str:
    return f"{value:.{_DECIMALS}f}" if isinstance(value, int | float) else written(value)


def _short(text: str) -> str:
    return text if cell_len(text) <= _LONGEST else f"{set_cell_size(text, _LONGEST - 1).rstrip()}."


def _width(blocks: Sequence[_Block]) -> int:
    return sum(map(_room, blocks)) - 2  # nothing stands behind the last


def _lines(blocks: Sequence[_Block], labels: Sequence[str]) -> list[Text]:
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
