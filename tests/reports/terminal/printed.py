"""What a console prints of a table."""

import io

from rich.cells import cell_len
from rich.console import Console

from attnprobe.reports.terminal.show import show


def print_table(table, width, encoding="utf-8", precision=None, full=False, **options):
    """Give what a console of this kind prints; without options, it has no colours."""
    raw = io.BytesIO()
    file = io.TextIOWrapper(raw, encoding=encoding, errors="replace", newline="\n")
    options = options or {"color_system": None, "force_terminal": False, "no_color": True}
    console = Console(file=file, width=width, highlight=False, legacy_windows=False, **options)
    show(table, console, precision, full)
    file.flush()
    return raw.getvalue().decode(encoding)


def shown(table, width=100, precision=None, encoding="utf-8"):
    """Give the lines that a console prints, none of which is wider than it."""
    lines = print_table(table, width, encoding, precision).splitlines()
    assert all(cell_len(line) <= width for line in lines)
    return lines
