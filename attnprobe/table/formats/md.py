"""Markdown: a pipe table for an issue, a README or a paper's notes, its numbers rounded by their errors."""

import re

from attnprobe.table.formats import Format, Sheet

# Everything that could end a cell, start a tag, a link, an image, code, emphasis or mathematics.
# An underscore inside a word is harmless, and names such as js_distance should stay readable.
_SPECIAL = re.compile(r"[\\`*|~$\[\]]|(?<![^\W_])_|_(?![^\W_])")
_HTML = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}


def render(sheet: Sheet) -> str:
    """Write a title, the table and its notes; undefined numbers are empty cells."""
    columns = []
    for column, cells, written in sheet.write():
        rule = "---" if any(isinstance(cell, str) for cell in cells) else "---:"  # numbers to the right
        columns.append([escape(column.name), rule, *map(escape, written)])
    title = [f"### {escape(sheet.title)}", ""] if sheet.title else []
    notes = ["", *(f"- {escape(note)}" for note in sheet.notes)] if sheet.notes else []
    rows = [f"| {' | '.join(fields)} |" for fields in zip(*columns, strict=True)]
    return "\n".join([*title, *rows, *notes]) + "\n"


def escape(text: str) -> str:
    for character, entity in _HTML.items():
        text = text.replace(character, entity)
    return _SPECIAL.sub(r"\\\g<0>", text)


FORMAT = Format(render, holds_notes=True)
