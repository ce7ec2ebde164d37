r"""LaTeX: a table for a paper, with booktabs; each measure and its error in one column.

Columns of words that are the same in all rows go into the caption. What no page holds is a ``longtable``.
"""

import re
from typing import Any

from attnprobe.table.formats import Format, Sheet

_PAGE = 45  # rows that fit on one
_MARKUP = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': r"\textquotedbl{}",
    **{character: f"{{{character}}}" for character in "[]*"},
    **{character: f"\\{character}" for character in "&%$#_{}"},
}
_SPECIAL = re.compile("|".join(map(re.escape, _MARKUP)))
_POWER = re.compile(r"e\+?(-?)0*(\d+)")
_UNDEFINED = "--"


def render(sheet: Sheet) -> str:
    """Write a LaTeX table, its notes as comments; words that are the same in all rows are in the caption."""
    import pandas

    same = sheet.constants()
    facts = [sheet.title, *(f"{name.replace('_', ' ')}: {word}" for name, word in same.items())]
    sides, shown = "", dict[str, list[str]]()
    for column, cells, written in sheet.write(undefined=_UNDEFINED, plus_minus=r" \pm "):
        if column.name not in same:
            is_text = any(isinstance(cell, str | bool) for cell in cells)
            sides += "l" if is_text else "r"  # numbers of a column have the same decimals
            shown[escape(column.name.replace("_", " "))] = list(
                map(escape if is_text else _set_number, written)
            )
    long = len(sheet) > _PAGE
    label = re.sub(r"[^a-z0-9]+", "-", sheet.title.lower()).strip("-")
    place: Any = {"environment": "longtable"} if long else {"position": "t", "position_float": "centering"}
    style = pandas.DataFrame(shown, dtype=str).style.hide(axis="index")
    table = style.to_latex(
        column_format=f"@{{}}{sides}@{{}}",
        caption=escape("; ".join(filter(None, facts))),
        label=f"tab:{label}" if label else None,
        hrules=True,
        **place,
    )
    needs = f"% In the preamble: \\usepackage{{booktabs{', longtable' * long}}}"
    return "\n".join([needs, *(f"% {note}" for note in sheet.notes), table])


def escape(text: str) -> str:
    return _SPECIAL.sub(lambda match: _MARKUP[match[0]], text)


def _set_number(text: str) -> str:
    r"""Set a number as mathematics.

    >>> print(_set_number("-3.20e-9"), _set_number("< 0.001"))
    $-3.20 \times 10^{-9}$ $< 0.001$
    """
    if text == _UNDEFINED or text.replace(".", "").isdigit():
        return text
    return "$" + _POWER.sub(r" \\times 10^{\1\2}", text.replace("inf", r"\infty")) + "$"


FORMAT = Format(render, is_for_papers=True)
