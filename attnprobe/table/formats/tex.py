r"""LaTeX: a table for a paper, with booktabs and siunitx; each measure and its error in one column.

Without a choice of columns there are those that a reader needs. Columns of words that are the same in all
rows go into the caption. A table that no page holds is a ``longtable``.
"""

import re
from collections.abc import Sequence

from attnprobe.table.cells import format_cell
from attnprobe.table.formats import Format
from attnprobe.table.sheet import Sheet

#: Rows that fit on a page.
_PAGE = 45
_MARKUP = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': r"\textquotedbl{}",
    "[": "{[}",
    "]": "{]}",
    "*": "{*}",
    **{character: f"\\{character}" for character in "&%$#_{}"},
}
_SPECIAL = re.compile("|".join(map(re.escape, _MARKUP)))
_NUMBER = re.compile(r"(-?)(\d*)\.?(\d*)(?:e([+-]?)(\d+))?")
_PLUS_MINUS = r" \pm "


def render(sheet: Sheet, precision: int | None = None) -> str:
    """Write the table, its notes as comments."""
    import pandas

    caption = [escape(sheet.title)] if sheet.title else []
    formats, shown = list[str](), dict[str, Sequence[str]]()
    for place, column in enumerate(sheet.columns):
        cells, name = sheet.cells[place], column.name.replace("_", " ")
        is_text = any(isinstance(cell, str | bool) for cell in cells)
        if is_text and len(sheet) > 1 and len(set(cells)) == 1:
            caption.append(escape(f"{name}: {format_cell(cells[0])}"))
        elif is_text:
            formats.append("l")
            shown[escape(name)] = [escape(format_cell(cell)) for cell in cells]
        elif not sheet.is_beside(column):
            written = sheet.write(place, precision, undefined="{--}", plus_minus=_PLUS_MINUS)
            shown[f"{{{escape(name)}}}"] = list(map(_mark_words, written))
            digits = measure_digits(written)
            with_errors = ", separate-uncertainty" if _PLUS_MINUS in digits else ""
            formats.append(f"S[table-format={digits}{with_errors}]")
    long = len(sheet) > _PAGE
    label = re.sub(r"[^a-z0-9]+", "-", sheet.title.lower()).strip("-")
    table = (
        pandas.DataFrame(shown, dtype=str)
        .style.hide(axis="index")
        .to_latex(
            column_format=f"@{{}}{' '.join(formats)}@{{}}",
            caption="; ".join(caption),
            label=f"tab:{label}" if label else None,
            hrules=True,
            position=None if long else "t",
            position_float=None if long else "centering",
            environment="longtable" if long else None,
        )
    )
    needs = f"% In the preamble: \\usepackage{{booktabs, siunitx{', longtable' * long}}}"
    return "\n".join([needs, *(f"% {note}" for note in sheet.notes), table])


def escape(text: str) -> str:
    r"""Make text stand for itself in LaTeX.

    >>> print(escape("50% of [SEP] & js_distance"))
    50\% of {[}SEP{]} \& js\_distance
    """
    return _SPECIAL.sub(lambda found: _MARKUP[found[0]], text)


def _mark_words(text: str) -> str:
    """Put what is no number into braces, where siunitx leaves it alone."""
    if text in {"inf", "-inf"}:
        return f"{{${text.replace('inf', chr(92) + 'infty')}$}}"
    return f"{{$<$ {text.removeprefix('< ')}}}" if text.startswith("<") else text


def measure_digits(cells: Sequence[str]) -> str:
    r"""Give table-format of siunitx: digits before and after the point, of the error, of the exponent.

    >>> measure_digits(["0.31 \\pm 0.02", "-12.30 \\pm 1.10", "{--}"]), measure_digits(["12", "7"])
    ('-2.2 \\pm 1.2', '2')
    """
    numbers = [cell.split(_PLUS_MINUS) for cell in cells if _NUMBER.match(cell) and cell[0] not in "<{"]
    sides = [[number[side] for number in numbers if len(number) > side] for side in (0, 1)]
    return _PLUS_MINUS.join(_measure_side(side) for side in sides if side) or "1"


def _measure_side(numbers: Sequence[str]) -> str:
    found = [part.groups("") for number in numbers if (part := _NUMBER.fullmatch(number))]
    whole, rest, power = (max((len(part[place]) for part in found), default=0) for place in (1, 2, 4))
    sign = "-" if any(part[0] for part in found) else ""
    exponent = f"e{'-' * any(part[3] == '-' for part in found)}{power}" if power else ""
    return f"{sign}{whole or 1}{f'.{rest}' if rest else ''}{exponent}"


FORMAT = Format(render, is_for_papers=True)
