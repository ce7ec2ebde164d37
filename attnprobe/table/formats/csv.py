"""CSV: one header, one row per head, numbers that read back exactly."""

import csv
import io
import re
import warnings
from collections.abc import Collection
from pathlib import Path
from typing import Any

from attnprobe.table.cells import GUARDED, format_cell, guard
from attnprobe.table.formats import Format, Sheet

_DECIMAL_COMMA = re.compile(r"(?:^|;)-?\d+,\d+(?:;|$)", re.MULTILINE)


def render(sheet: Sheet) -> str:
    """Write a table as RFC 4180 comma-separated values, but for bare newlines, as pipes expect them."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([guard(column.name) for column in sheet.columns])
    for row in sheet.rows():
        writer.writerow([guard(cell) if isinstance(cell, str) else format_cell(cell) for cell in row])
    return out.getvalue()


def read(path: Path, words: Collection[str]) -> Any:
    """Read a csv of ours or of a spreadsheet (semicolons, decimal commas); columns ``words`` stay text."""
    import pandas

    text = path.read_text(encoding="utf-8-sig")
    header = text.partition("\n")[0]
    foreign = header.count(";") > header.count(",")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", pandas.errors.ParserWarning)
            frame = pandas.read_csv(
                io.StringIO(text),
                sep=";" if foreign else ",",
                decimal="," if foreign and _DECIMAL_COMMA.search(text) else ".",
                index_col=False,
                keep_default_na=False,  # a model may well be called "null"
                na_values=[""],  # an empty cell is an undefined number
                skip_blank_lines=False,
                dtype=dict.fromkeys(words, "str"),  # or a model called 007 would be a number
            )
    except pandas.errors.ParserWarning as error:
        raise ValueError("a row has more cells than columns") from error
    return frame.replace(to_replace=GUARDED, value="", regex=True)


FORMAT = Format(render, read)
