"""Roles of heads as a map: a letter and a colour a role, so that the letter says it in grey print too."""

from collections import Counter
from typing import Any

import altair as alt

from attnprobe.reports.pictures.asked import Asked
from attnprobe.reports.pictures.grid import axes, fit, grid_of, records, several
from attnprobe.reports.pictures.rows import cells, numbers
from attnprobe.table.cells import written
from attnprobe.table.head_table import HeadTable
from attnprobe.table.roles import LETTERS, MIXED, kind_of

#: The column that makes a table of heads one of roles.
_ROLE = "role"
#: Kinds that are alike have hues that are alike; no two have the same colour and the same letter.
COLOURS = {
    "previous": "#0072b2",
    "next": "#56b4e9",
    "self": "#7b6fd0",
    "offset": "#a8c8f0",
    "delimiter": "#f0c33c",
    "rare words": "#d55e00",
    "syntactic": "#009e73",
    "coreference": "#7fd0a8",
    "induction": "#cc79a7",
    "duplicate": "#ecb8d3",
    "broad": "#b3b3b3",
    "block": "#8c6d46",
    MIXED: None,
}


def fits(table: HeadTable) -> bool:
    """Tell whether each head of a table has a role."""
    return grid_of(table) is not None and any(
        column.name == _ROLE and not all(isinstance(cell, int | float) for cell in table.data[_ROLE])
        for column in table.columns
    )


def draw(table: HeadTable, asked: Asked) -> Any:
    """Draw a cell a head, with the letter of its role; the legend says how many heads have each."""
    grid = grid_of(table)
    assert grid is not None  # or the table would not fit
    sizes = fit(grid, 1, asked)
    data = records(table, grid)
    roles = [written(cell) for cell in cells(table, _ROLE)]
    counts = Counter(kind_of(role) for role in roles)
    there = [kind for kind in LETTERS if counts[kind]]
    names = {kind: f"{LETTERS[kind]}  {kind} ({counts[kind]})" for kind in there}
    details = {name: cells(table, name) for name in ("measure", "also")}
    figures = {name: numbers(table, name) for name in ("value", "value_se", "threshold", "stability")}
    for row, record in enumerate(data):
        kind = kind_of(roles[row])
        record |= {"role": roles[row], "kind": names[kind], "letter": LETTERS[kind]}
        record |= {name: column[row] for name, column in (details | figures).items()}
    blank = asked.theme.grid
    scale = alt.Scale(domain=list(names.values()), range=[COLOURS[kind] or blank for kind in there])
    base = alt.Chart().encode(**axes(grid, sizes.cell))
    tooltip = [
        *([alt.Tooltip("place:N", title="of")] if len(grid.maps) > 1 else []),
        *(alt.Tooltip(f"{name}:O", title=name) for name in ("layer", "head")),
        *(alt.Tooltip(f"{name}:N", title=name) for name in ("role", "measure")),
        alt.Tooltip("value:Q", title="value", format=".4~g"),
        alt.Tooltip("value_se:Q", title="standard error", format=".2~g"),
        alt.Tooltip("threshold:Q", title="threshold", format=".4~g"),
        alt.Tooltip("also:N", title="also"),
        alt.Tooltip("stability:Q", title="stability", format=".2~f"),
    ]
    shown = base.mark_rect().encode(
        color=alt.Color("kind:N", scale=scale, legend=alt.Legend(title=None, symbolType="square")),
        tooltip=tooltip,
    )
    layers = [shown]
    if sizes.cell >= 8:
        letters = base.mark_text(baseline="middle", fontSize=max(7, min(sizes.cell - 6, 13)), color="#000000")
        faint = names.get(MIXED, "")
        layers.append(
            letters.encode(
                text="letter:N",
                color=alt.condition(
                    alt.datum.kind == faint, alt.value(asked.theme.muted), alt.value("#000000")
                ),
            )
        )
    return several(alt.layer(*layers), grid, sizes, data, None)
