"""Markdown: a pipe table for an issue, a README or a paper's notes, its numbers rounded by their errors."""

import re
from collections.abc import Sequence

from attnprobe.table.cells import clean, to_plain_column
from attnprobe.table.formats import Format
from attnprobe.table.rounding import find_errors, format_rounded
from attnprobe.table.table import Cell, Column, Table

# Everything that could end a cell, start a tag, a link, an image, code, emphasis or mathematics.
# An underscore inside a word is harmless, and names such as js_distance should stay readable.
_SPECIAL = re.compile(r"[\\`*|~$\[\]]|(?<![^\W_])_|_(?![^\W_])")
_HTML = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}


def render(table: Table, precision: int | None = None) -> str:
    """Write a title, the table and its notes; undefined numbers are empty cells."""

    def field(value: Cell, error: Cell) -> str:
        return escape(value) if isinstance(value, str) else format_rounded(value, error, precision)

    cells = [to_plain_column(table.data[column.name], column) for column in table.columns]
    errors = [find_errors(table, column) for column in table.columns]
    written = [list(map(field, values, beside)) for values, beside in zip(cells, errors, strict=True)]
    lines = [
        f"### {escape(clean(table.title))}",
        "",
        _write_row([escape(clean(column.name)) for column in table.columns]),
        _write_row(
            [_write_rule(column, values) for column, values in zip(table.columns, cells, strict=True)]
        ),
        *map(_write_row, zip(*written, strict=True)),
    ]
    if table.notes:
        lines += ["", *(f"- {escape(clean(note))}" for note in table.notes)]
    return "\n".join(lines) + "\n"


def escape(text: str) -> str:
    r"""Make text stand for itself in a Markdown cell.

    >>> print(escape("[CLS] | <b> js_distance"))
    \[CLS\] \| &lt;b&gt; js_distance
    """
    for character, entity in _HTML.items():
        text = text.replace(character, entity)
    return _SPECIAL.sub(r"\\\g<0>", text)


def _write_rule(column: Column, values: list[Cell]) -> str:
    # Text to the left, numbers to the right, so that digits of one size stand below each other.
    is_text = any(isinstance(value, str) for value in values) or (column.role == "key" and not values)
    return "---" if is_text else "---:"


def _write_row(fields: Sequence[str]) -> str:
    return f"| {' | '.join(fields)} |"


FORMAT = Format(render, holds_notes=True)
