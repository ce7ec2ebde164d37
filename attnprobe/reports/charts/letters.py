"""Cells that are of a kind: a letter and a colour each."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import altair as alt

from attnprobe.reports.charts.figure import Drawing
from attnprobe.reports.charts.grid import SIGNED, Grid
from attnprobe.reports.charts.marks import BESIDE, make_tooltip
from attnprobe.reports.columns import DrawingRequest, read_cells, read_numbers
from attnprobe.reports.theme import SMALLEST
from attnprobe.table.table import Column, HeadTable


@dataclass(frozen=True, kw_only=True)
class Letters(Grid):
    """A map of kinds: a letter and a colour each; the legend says how many cells have it."""

    kind: Callable[[HeadTable], Sequence[str]]
    letters: Sequence[tuple[str, str, str | None]]  # kinds in their order, with their letters and colours
    legend: str
    details: Sequence[tuple[str, str]]  # columns for the tooltip, by their types

    def columns(self, table: HeadTable, request: DrawingRequest) -> list[Column]:
        return []

    def draw(self, table: HeadTable, request: DrawingRequest) -> Drawing:
        places = self.places(table)
        assert places is not None  # or the table would not fit
        theme, below = request.theme, request.width < BESIDE
        sizes = self.arrange(places, 1, request)
        data, kinds = places.records(), self.kind(table)
        there = [one for one in self.letters if one[0] in kinds]
        names = {kind: f"{letter}  {kind} ({kinds.count(kind)})" for kind, letter, _ in there}
        letters = {kind: letter for kind, letter, _ in there}
        blank = {kind for kind, _, colour in there if colour is None}
        details = [(name, type) for name, type in self.details if name in table.data]
        columns: dict[str, Sequence[Any]] = {
            name: read_numbers(table, name) if type == "Q" else read_cells(table, name)
            for name, type in details
        }
        for row, (record, kind) in enumerate(zip(data, kinds, strict=True)):
            ink = theme.muted if kind in blank else "#000000"
            record |= {"kind": names[kind], "letter": letters[kind], "ink": ink}
            record |= {name: cells[row] for name, cells in columns.items()}
        scale = alt.Scale(domain=list(names.values()), range=[colour or theme.grid for *_, colour in there])
        look: dict[str, Any] = {"orient": "bottom", "columns": 2} if below else {}
        legend = alt.Legend(title=self.legend, symbolType="square", **look)
        several = {"panel:N": "of"} if len(places.maps) > 1 else {}
        tooltip = make_tooltip(
            {
                **several,
                "y:O": self.y_title,
                "x:O": self.x_title,
                **{f"{name}:{type}": name.replace("_se", " error") for name, type in details},
            }
        )
        base = alt.Chart().encode(**self.encode_places(places))
        colour = alt.Color("kind:N", scale=scale, legend=legend)
        layers = [base.mark_rect().encode(color=colour, tooltip=tooltip)]
        if sizes.wide >= SIGNED:
            size = max(SMALLEST, min(sizes.wide - 6, theme.size + 1))
            letter = base.mark_text(baseline="middle", fontSize=size)
            layers.append(letter.encode(text="letter:N", fill=alt.Fill("ink:N", scale=None)))
        used = self.measure(places, 1, sizes, request)
        return Drawing(self.lay_out(layers, data, places, sizes), self.caption, *used)
