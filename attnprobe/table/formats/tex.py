r"""LaTeX: a table for a paper, with booktabs and siunitx; each measure and its error in one column.

Numbers are rounded to two digits of their error, and p values below 0.001 are said to be so. Columns of words
that are the same in all rows go into the caption. A table that no page holds is a ``longtable``.
"""

import re
from collections.abc import Sequence

from attnprobe.table.cells import Cell, clean, format_cell, to_plain_column
from attnprobe.table.formats import Format
from attnprobe.table.rounding import find_errors, format_rounded
from attnprobe.table.table import Column, Table

#: Rows that fit on a page.
_PAGE = 45
#: p values below this are not told apart.
_SMALLEST_P = 0.001
_NEEDS = "% In the preamble: \\usepackage{booktabs, siunitx"
_MARKUP = {
    "\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}",
    ">": r"\textgreater{}", "|": r"\textbar{}", '"': r"\textquotedbl{}", "[": "{[}", "]": "{]}", "*": "{*}",
    **{character: f"\\{character}" for character in "&%$#_{}"},
}  # fmt: skip
_SPECIAL = re.compile("|".join(map(re.escape, _MARKUP)))


def render(table: Table, precision: int | None = None) -> str:
    """Write the table, its notes as comments; measures without an error have ``precision`` digits, or 3."""
    said, columns = _split_constant(table)
    shown = [_Shown(table, column, precision) for column in columns]
    caption = "; ".join([escape(clean(table.title)), *said])
    long = len(table) > _PAGE
    name, place = ("longtable", "") if long else ("tabular", "[t]\n  \\centering")
    preamble = f"{{@{{}}{' '.join(one.align for one in shown)}@{{}}}}"
    rows = [_write_row([one.cells[row] for one in shown]) for row in range(len(table))]
    head = [r"  \toprule", _write_row([one.header for one in shown]), r"  \midrule"]
    lines = [f"{_NEEDS}{', longtable' * long}}}", *(f"% {clean(note)}" for note in table.notes)]
    if long:
        lines += [f"\\begin{{{name}}}{preamble}", f"  \\caption{{{caption}}}\\\\", *head, r"  \endhead"]
        lines += [*rows, r"  \bottomrule", f"\\end{{{name}}}"]
    else:
        lines += [f"\\begin{{table}}{place}", f"  \\caption{{{caption}}}", f"  \\begin{{{name}}}{preamble}"]
        lines += [*head, *rows, r"  \bottomrule", f"  \\end{{{name}}}", r"\end{table}"]
    return "\n".join(lines) + "\n"


def _write_row(cells: Sequence[str]) -> str:
    return f"  {' & '.join(cells)} \\\\"


def escape(text: str) -> str:
    r"""Make text stand for itself in LaTeX.

    >>> print(escape("50% of [SEP] & js_distance"))
    50\% of {[}SEP{]} \& js\_distance
    """
    return _SPECIAL.sub(lambda found: _MARKUP[found[0]], text)


def _split_constant(table: Table) -> tuple[list[str], list[Column]]:
    """Take out columns of words that are the same in all rows, a sentence part each; and errors."""
    said, columns = list[str](), list[Column]()
    for column in table.columns:
        values = set(to_plain_column(table.data[column.name], column))
        alone = next(iter(values)) if len(values) == 1 else None
        if isinstance(alone, str) and len(table) > 1:
            said.append(escape(f"{column.name.replace('_', ' ')}: {alone}"))
        elif column.role != "error" or column.name.removesuffix("_se") not in table.data:
            columns.append(column)
    return said, columns


class _Shown:
    """A column as it is printed: its header, its cells, and how siunitx aligns them."""

    def __init__(self, table: Table, column: Column, precision: int | None) -> None:
        values = to_plain_column(table.data[column.name], column)
        errors = find_errors(table, column) if column.role == "measure" else [None] * len(values)
        name = escape(clean(column.name).replace("_", " "))
        self.is_text = any(isinstance(value, str | bool) for value in values)
        if self.is_text:
            self.align, self.header = "l", name
            self.cells = [escape(format_cell(value)) for value in values]
            return
        self.header = f"{{{name}}}"
        is_p = re.match(r"p(_|$)|.*_p(_|$)", column.name) is not None
        pairs = zip(values, errors, strict=True)
        self.cells = [_write_number(value, error, precision, is_p) for value, error in pairs]
        digits = _measure_digits_of(self.cells)
        self.align = f"S[table-format={digits}{', separate-uncertainty' * (' ' in digits)}]"


def _write_number(value: Cell, error: Cell, precision: int | None, is_p: bool) -> str:
    if value is None:
        return "{--}"
    if is_p and isinstance(value, float) and value < _SMALLEST_P:
        return f"{{$<$ {_SMALLEST_P}}}"
    written = format_rounded(value, error, precision)
    if written in {"inf", "-inf"}:
        return "{$\\infty$}" if written == "inf" else "{$-\\infty$}"
    shown = format_rounded(error, error, precision) if isinstance(error, float) else ""
    return f"{written} \\pm {shown}" if shown else written


def _measure_digits_of(cells: list[str]) -> str:
    r"""Give table-format of siunitx: digits before and after the point, of the error, of the exponent.

    >>> _measure_digits_of(["0.31 \\pm 0.02", "-12.3 \\pm 1.1", "{--}"]), _measure_digits_of(["12", "7"])
    ('-2.2 \\pm 1.2', '2')
    """
    numbers = [cell for cell in cells if not cell.startswith("{")]
    values, errors = (
        [cell.split(" ")[0] for cell in numbers],
        [cell.split(" ")[2] for cell in numbers if " " in cell],
    )
    return _measure_digits(values or ["0"]) + (f" \\pm {_measure_digits(errors)}" if errors else "")


def _measure_digits(numbers: list[str]) -> str:
    parts = [re.fullmatch(r"(-?)(\d*)\.?(\d*)(?:e([+-]?)(\d+))?", number) for number in numbers]
    found = [part.groups("") for part in parts if part]
    whole, rest, power = (max(len(part[place]) for part in found) for place in (1, 2, 4))
    sign = "-" if any(part[0] for part in found) else ""
    exponent = f"e{'-' * any(part[3] == '-' for part in found)}{power}" if power else ""
    return f"{sign}{whole}{f'.{rest}' if rest else ''}{exponent}"


FORMAT = Format(render, holds_notes=False)
