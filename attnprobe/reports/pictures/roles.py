"""Roles of heads: a letter and a colour for each."""

from typing import Any

import altair as alt

from attnprobe.reports.columns import DrawingRequest, read_cells, read_numbers
from attnprobe.reports.pictures.channels import make_tooltip
from attnprobe.reports.pictures.maps import NO_LEGEND, choose_sizes, draw_several, make_axes, place_heads
from attnprobe.reports.shapes import lay_out_grid, lay_out_roles
from attnprobe.reports.theme import ROLE_COLOURS, SMALLEST
from attnprobe.table.cells import format_cell
from attnprobe.table.head_table import HeadTable
from attnprobe.table.naming import LETTERS, MIXED

#: The column that makes a table of heads one of roles.
_ROLE = "role"
#: Narrower pictures have the legend below.
_BESIDE = 480


def draw_roles(table: HeadTable, request: DrawingRequest) -> Any:
    """Draw a cell a head, with the letter of its role; the legend says how many heads have it."""
    grid = lay_out_grid(table)
    assert grid is not None  # or the table would not fit
    data = place_heads(table, grid)
    roles = [format_cell(cell) for cell in read_cells(table, _ROLE)]
    found = lay_out_roles(roles)
    names = {kind: f"{LETTERS[kind]}  {kind} ({number})" for kind, number in found.counts.items()}
    below = request.width < _BESIDE
    sizes = choose_sizes(grid, 1, request, NO_LEGEND) if below else choose_sizes(grid, 1, request)
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
    look: dict[str, Any] = {"orient": "bottom", "columns": 2} if below else {}
    legend = alt.Legend(title="role (heads)", symbolType="square", labelLimit=request.width, **look)
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
