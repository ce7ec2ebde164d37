"""Markdown: a pipe table for an issue, a README or a paper's notes, its numbers rounded by their errors."""

import re
from collections.abc import Sequence

from attnprobe.table.cells import Cell
from attnprobe.table.formats import Format
from attnprobe.table.sheet import Sheet

# Everything that could end a cell, start a tag, a link, an image, code, emphasis or mathematics.
# An underscore inside a word is harmless, and names such as js_distance should stay readable.
_SPECIAL = re.compile(r"[\\`*|~$\[\]]|(?<![^\W_])_|_(?![^\W_])")
_HTML = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}


def render(sheet: Sheet, precision: int | None = None) -> str:
    """Write a title, the table and its notes; undefined numbers are empty cells."""
    columns = [list(map(escape, sheet.write(place, precision))) for place in range(len(sheet.columns))]
    lines = [
        *([f"### {escape(sheet.title)}", ""] if sheet.title else []),
        _write_row([escape(column.name) for column in sheet.columns]),
        _write_row(list(map(_write_rule, sheet.cells))),
        *map(_write_row, zip(*columns, strict=True)),
    ]
    if sheet.notes:
        lines += ["", *(f"- {escape(note)}" for note in sheet.notes)]
    return "\n".join(lines) + "\n"


def escape(text: str) -> str:
    r"""Make text stand for itself in a Markdown cell.

    >>> print(escape("[CLS] | <b> js_distance"))
    \[CLS\] \| &lt;b&gt; js_distance
    """
    for character, entity in _HTML.items():
        text = text.replace(character, entity)
    return _SPECIAL.sub(r"\\\g<0>", text)


def _write_rule(cells: Sequence[Cell]) -> str:
    # Text to the left, numbers to the right, so that digits of one size stand below each other.
    return "---" if any(isinstance(cell, str) for cell in cells) else "---:"


def _write_row(fields: Sequence[str]) -> str:
    return f"| {' | '.join(fields)} |"


FORMAT = Format(render, holds_notes=True)
