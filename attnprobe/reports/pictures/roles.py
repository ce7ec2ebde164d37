"""Roles of heads: a letter and a colour for each."""

from collections.abc import Sequence
from typing import Any

import altair as alt

from attnprobe.reports.columns import PLAIN, DrawingRequest, read_cells, read_numbers
from attnprobe.reports.pictures.channels import make_tooltip
from attnprobe.reports.pictures.maps import NO_LEGEND, choose_sizes, draw_several, make_axes, place_heads
from attnprobe.reports.shapes import lay_out_grid, lay_out_roles
from attnprobe.reports.theme import ROLE_COLOURS, SMALLEST
from attnprobe.table.cells import clean, format_cell
from attnprobe.table.head_table import HeadTable
from attnprobe.table.naming import LETTERS, MIXED

#: The column that makes a table of heads one of roles.
_ROLE = "role"
#: Narrower pictures have the legend below.
_BESIDE = 480
#: Room of a symbol of the legend, and beside a map for its axis.
_SYMBOL, _MARGIN = 20, 60


def draw_roles(table: HeadTable, request: DrawingRequest) -> Any:
    """Draw a cell a head, with the letter of its role; the legend says how many heads have it, and why."""
    grid = lay_out_grid(table)
    assert grid is not None  # or the table would not fit
    data = place_heads(table, grid)
    roles = [format_cell(cell) for cell in read_cells(table, _ROLE)]
    found = lay_out_roles(roles)
    names = {kind: f"{LETTERS[kind]}  {kind} ({number})" for kind, number in found.counts.items()}
    criteria = _find_criteria(table, found.kinds)
    full = {kind: f"{name}: {criteria[kind]}" if kind in criteria else name for kind, name in names.items()}
    wide = _SYMBOL + PLAIN * request.theme.size * max(map(len, full.values()))
    below = request.width < _BESIDE
    sizes = choose_sizes(grid, 1, request, NO_LEGEND) if below else choose_sizes(grid, 1, request)
    if not below and criteria:
        below = sizes.cell * len(grid.heads) + _MARGIN + wide > request.width
    explained = bool(criteria) and wide + _MARGIN < request.width
    names = full if explained else names
    words = [name for name in ("measure", "also", "pattern") if name in table.data]
    details = {name: read_cells(table, name) for name in words}
    figures = {name: read_numbers(table, name) for name in ("value", "value_se", "threshold")}
    for row, (record, kind) in enumerate(zip(data, found.kinds, strict=True)):
        assert kind is not None  # every row has a role
        record |= {"role": roles[row], "kind": names[kind], "letter": LETTERS[kind]}
        record |= {name: column[row] for name, column in (details | figures).items()}
    blank = request.theme.grid
    scale = alt.Scale(domain=list(names.values()), range=[ROLE_COLOURS[kind] or blank for kind in names])
    base = alt.Chart().encode(**make_axes(grid, sizes.cell))
    tooltip = make_tooltip({
        **({"place:N": "of"} if len(grid.maps) > 1 else {}),
        **{f"{name}:O": name for name in ("layer", "head")},
        **{f"{name}:N": name for name in ("role", "measure")}, "value:Q": "value",
        "value_se:Q": "standard error", "threshold:Q": "threshold", "also:N": "also",
        **({"pattern:N": "pattern"} if "pattern" in words else {}),
    })  # fmt: skip
    look: dict[str, Any] = {"orient": "bottom", "columns": 1 if explained else 2} if below else {}
    heading = "role (heads): threshold of its measure" if explained else None
    legend = alt.Legend(title=heading, symbolType="square", labelLimit=request.width, **look)
    colour = alt.Color("kind:N", scale=scale, legend=legend)
    layers = [base.mark_rect().encode(color=colour, tooltip=tooltip)]
    if sizes.cell >= SMALLEST:
        letters = base.mark_text(
            baseline="middle", fontSize=max(SMALLEST, min(sizes.cell - 6, 13)), color="#000000"
        )
        is_mixed = alt.datum.kind == names.get(MIXED, "")
        ink = alt.condition(is_mixed, alt.value(request.theme.muted), alt.value("#000000"))
        layers.append(letters.encode(text="letter:N", color=ink))
    return draw_several(alt.layer(*layers), grid, sizes, data, None)


def _find_criteria(table: HeadTable, kinds: Sequence[str | None]) -> dict[str, str]:
    """Find beyond which threshold of which measure heads have each role, as the table has them."""
    rows = zip(kinds, read_cells(table, "measure"), read_numbers(table, "threshold"), strict=True)
    limits: dict[str, dict[str, set[float]]] = {}
    for kind, measure, threshold in rows:
        if kind is not None and kind != MIXED and measure is not None and threshold is not None:
            name = clean(format_cell(measure)).replace("_", " ")
            limits.setdefault(kind, {}).setdefault(name, set()).add(threshold)
    return {
        kind: " or ".join(_write_limit(name, ends) for name, ends in some.items())
        for kind, some in limits.items()
    }


def _write_limit(name: str, limits: set[float]) -> str:
    ends = list(dict.fromkeys(f"{limit:.3g}" for limit in sorted(limits)))
    return f"{name} > {ends[0]}" if len(ends) == 1 else f"{name} > {ends[0]} to {ends[-1]}, by head"
