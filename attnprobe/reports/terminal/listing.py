"""Any other table: a row a line, or, where the lines would be too long, a record a row."""

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from attnprobe.reports.terminal.console import signs
from attnprobe.reports.terminal.fields import Field, fields
from attnprobe.table.head_table import HeadTable

MOST_ROWS = 40
MOST_RECORDS = 8
_LEAST_TEXT = 16  # a column of text may fold down to this width before records take over
_STATUS = {"ok": "green", "warning": "yellow", "failed": "bold red"}


def draw(table: HeadTable, hidden: set[str], console: Console, precision: int | None = None) -> None:
    """Print the rows as a table if every number fits whole, otherwise as records."""
    found = fields(table, hidden, signs(console), precision)
    needed = sum(min(field.width(), _LEAST_TEXT) if field.is_text else field.width() for field in found)
    fits = needed + 3 * len(found) - 1 <= console.width  # a space either side, a divider between
    shown = min(len(table), MOST_ROWS if fits else MOST_RECORDS)
    console.print()
    if fits:
        console.print(_lines(found, shown))
    else:
        for row in range(shown):
            if row:
                console.print()
            console.print(_record(found, row))
    if shown < len(table):
        more = f"{signs(console).more} {len(table) - shown} more rows; -o heads.csv writes them all"
        console.print(Text(more, "dim"))


def _lines(found: list[Field], shown: int) -> Table:
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
        table.add_row(*(_cell(field, row) for field in found))
    return table


def _record(found: list[Field], row: int) -> Table:
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(no_wrap=True, style="bold")
    table.add_column(overflow="fold")
    for field in found:
        unit = f" {field.unit}" if field.unit else ""
        table.add_row(Text(field.name), _cell(field, row).append(unit, "dim"))
    return table


def _cell(field: Field, row: int) -> Text:
    # Always Text, never markup: tokens such as [CLS] look like tags.
    text = field.cells[row]
    return Text(text, _STATUS.get(text, "") if field.name == "status" else "")
