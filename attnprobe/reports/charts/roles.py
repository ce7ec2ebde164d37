"""The roles of heads: a letter and a colour each."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import altair as alt

from attnprobe.reports.charts.figure import Drawing
from attnprobe.reports.charts.grid import SIGNED, Grid
from attnprobe.reports.charts.marks import BESIDE, make_records, make_tooltip
from attnprobe.reports.columns import DrawingRequest, read_cells, read_numbers
from attnprobe.reports.theme import SMALLEST
from attnprobe.table.cells import format_cell
from attnprobe.table.naming import ROLE_MARKS, find_role_kind
from attnprobe.table.table import HeadTable

#: Columns of the tooltip, with their types.
_DETAILS = ("role:N", "measure:N", "value:Q", "value_se:Q", "threshold:Q", "also:N", "pattern:N")


@dataclass(frozen=True, kw_only=True)
class Roles(Grid):
    """A map of roles: a letter and a colour each; the legend says how many heads have it."""

    def draw(self, table: HeadTable, request: DrawingRequest) -> Drawing:
        places = self.places(table)
        assert places is not None  # or the table would not fit
        theme, cells = request.theme, self.arrange(places, 1, request)
        kinds = [find_role_kind(format_cell(cell)) for cell in read_cells(table, "role")]
        details = [field for field in _DETAILS if field[:-2] in table.data]
        names = {
            kind: f"{letter}  {kind} ({kinds.count(kind)})"
            for kind, (letter, _) in ROLE_MARKS.items()
            if kind in kinds
        }
        columns: dict[str, Sequence[Any]] = {
            **{"panel": places.panel, "x": places.x, "y": places.y, "kind": [names[kind] for kind in kinds]},
            "letter": [ROLE_MARKS[kind].letter for kind in kinds],
            "ink": ["#000000" if ROLE_MARKS[kind].colour else theme.muted for kind in kinds],
        }
        for field in details:
            columns[field[:-2]] = (read_numbers if field.endswith("Q") else read_cells)(table, field[:-2])
        data = make_records(columns)
        hues = [ROLE_MARKS[kind].colour or theme.grid for kind in names]
        look: dict[str, Any] = {"orient": "bottom", "columns": 2} if request.width < BESIDE else {}
        legend = alt.Legend(title="role (heads)", symbolType="square", **look)
        colour = alt.Color("kind:N", scale=alt.Scale(domain=[*names.values()], range=hues), legend=legend)
        told = {field: field[:-2].replace("_se", " error") for field in details}
        tooltip = make_tooltip({**self.name_places(places), **told})
        base = alt.Chart().encode(**self.encode_places(places))
        layers = [base.mark_rect().encode(color=colour, tooltip=tooltip)]
        if cells.wide >= SIGNED:
            size = max(SMALLEST, min(cells.wide - 6, theme.size + 1))
            letter = base.mark_text(baseline="middle", fontSize=size)
            layers.append(letter.encode(text="letter:N", fill=alt.Fill("ink:N", scale=None)))
        return Drawing(self.lay_out(layers, data, cells), self.caption)
