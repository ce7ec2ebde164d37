"""What a console prints of a table."""

import io
import re

from rich.cells import cell_len
from rich.console import Console

from attnprobe.reports.terminal.show import show


def shown(table, width=100, precision=None, encoding="utf-8", full=False, **options):
    """Give what a console of this kind prints, line by line."""
    raw = io.BytesIO()
    file = io.TextIOWrapper(raw, encoding=encoding, newline="\n")
    options = {"color_system": None, "force_terminal": False, "no_color": True} | options
    console = Console(file=file, width=width, highlight=False, legacy_windows=False, **options)
    show(table, console, precision, full)
    file.flush()
    lines = raw.getvalue().decode(encoding).splitlines()
    assert all(cell_len(re.sub(r"\x1b\[[\d;]*m", "", line)) <= width for line in lines)
    return lines
