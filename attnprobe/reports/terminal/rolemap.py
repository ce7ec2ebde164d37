"""Roles as a map: layers down, heads across, a letter and a colour a role, and what they stand for."""

from collections import Counter

from rich.console import Console
from rich.text import Text

from attnprobe.reports.terminal.panels import Panel
from attnprobe.table.cells import written
from attnprobe.table.cleaning import clean
from attnprobe.table.head_table import HeadTable
from attnprobe.table.roles import LETTERS, MIXED, kind_of

#: The column that makes a table of heads one of roles.
ROLE = "role"
_COLOURS = {
    "previous": "bold blue",
    "next": "bold cyan",
    "self": "bold magenta",
    "offset": "blue",
    "delimiter": "yellow",
    "rare words": "bold red",
    "syntactic": "bold green",
    "coreference": "green",
    "induction": "bold yellow",
    "duplicate": "magenta",
    "broad": "dim",
    "block": "cyan",
    MIXED: "dim",
}


def is_map(table: HeadTable) -> bool:
    """Tell whether each head of a table has a role."""
    return any(column.name == ROLE and column.role == "text" for column in table.columns)


def draw(table: HeadTable, grids: list[Panel], console: Console) -> None:
    """Print the letters, panel by panel, and a legend of those that are there."""
    roles = [written(cell) for cell in table.data[ROLE]]
    for panel in grids:
        console.print()
        if panel.labels:
            console.print(Text(clean(", ".join(panel.labels)), "bold"))
        label = max(len(f"L{written(layer)}") for layer in panel.layers)
        wide = max(len(f"H{written(head)}") for head in panel.heads) + 1
        across = max(1, (console.width - label) // wide)
        for start in range(0, len(panel.heads), across):
            heads = panel.heads[start : start + across]
            console.print(
                Text(" " * label + "".join(f"H{written(head)}".rjust(wide) for head in heads), "dim")
            )
            for layer in panel.layers:
                line = Text(f"L{written(layer)}".ljust(label), "dim")
                for head in heads:
                    row = panel.places.get((layer, head))
                    kind = MIXED if row is None else kind_of(roles[row])
                    letter = " " if row is None else LETTERS[kind]
                    line.append(letter.rjust(wide), _COLOURS[kind])
                console.print(line)
    console.print()
    counts = Counter(kind_of(role) for role in roles)
    there = [(kind, letter) for kind, letter in LETTERS.items() if counts[kind]]
    line = Text()
    for kind, letter in there:
        entry = Text.assemble((letter, _COLOURS[kind]), f" {kind} {counts[kind]}")
        if line.cell_len and line.cell_len + 3 + entry.cell_len > console.width:
            console.print(line)
            line = Text()
        line.append_text(Text("   ") if line.cell_len else Text()).append_text(entry)
    console.print(line)
