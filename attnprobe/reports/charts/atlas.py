"""The head atlas: layers down, heads across, each a small profile of its attention by offset."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import altair as alt
import numpy as np

from attnprobe.reports.charts.channels import amend, make_chart, make_tooltip, stack_charts
from attnprobe.reports.charts.figure import Drawing, Figure
from attnprobe.reports.charts.places import Places, place_heads
from attnprobe.reports.columns import DrawingRequest, Record, read_cells, read_fields, read_numbers
from attnprobe.reports.profile import IMAGE, Profile, read_profile, round_up, take_root
from attnprobe.reports.theme import FRAME, choose_ink
from attnprobe.table.cells import format_cell
from attnprobe.table.naming import MIXED, ROLE_MARKS, find_role_kind, title_roles
from attnprobe.table.table import HeadTable

#: How much of its place a cell fills, across; and down, where the band of its role, bars and entropy lie.
_FILLED, _BAND, _FOOT, _ENTROPY = 0.94, 0.27, 0.86, (0.9, 0.96)


@dataclass(frozen=True, kw_only=True)
class Atlas(Figure):
    """One cell per head: bars as high as the square root of mean attention, so that 0.01 is seen.

    Its band has the colour and the letter of its role, where the table has one; a bar below is its entropy
    over the largest possible.
    """

    details: Mapping[str, str]  # lines of the tooltip, by columns with their types

    def draw(self, table: HeadTable, request: DrawingRequest) -> Drawing:
        profile, places = read_profile(table), place_heads(table)
        assert profile is not None
        assert places is not None  # or the table would not fit
        wide = min(max((request.room - 46) / len(places.across), 9), 58)
        labels = 40 * len(places.maps) + (90 if "role" in table.data else 0)
        tall = (request.high - labels) / len(places.down) / len(places.maps)
        tall = min(max(tall, 14), 44, 0.9 * wide + 12)
        details = {field: title for field, title in self.details.items() if field[:-2] in table.data}
        charts = []
        for name in places.maps:
            rows = [row for row, panel in enumerate(places.panel) if panel == name]
            map = _Map(table, profile, places, rows)
            chart = alt.layer(*map.draw(details, wide, request))
            amend(chart, width=wide * len(places.across), height=tall * len(places.down))
            charts.append(amend(chart, title=name) if name else chart)
        below = "below: entropy" if "entropy_normalized" in table.data else ""
        return Drawing(stack_charts(charts), [*profile.explain(), below])


@dataclass(frozen=True)
class _Map:
    """The heads of one map. A head is 1 wide and 1 high, at its place among heads and layers."""

    table: HeadTable
    profile: Profile
    places: Places
    rows: Sequence[int]

    @cached_property
    def kinds(self) -> dict[int, str]:
        """The kind of role of each head; empty without roles."""
        roles = read_cells(self.table, "role") if "role" in self.table.data else ()
        return {row: find_role_kind(format_cell(roles[row])) for row in self.rows if roles}

    @cached_property
    def names(self) -> dict[str, str]:
        """The title of each kind in the legend."""
        return title_roles(self.kinds.values())

    @cached_property
    def entropies(self) -> Sequence[float | None]:
        return read_numbers(self.table, "entropy_normalized")

    @property
    def band(self) -> float:
        return _BAND if self.kinds else 0.04

    @property
    def width(self) -> float:
        return self.profile.parts[-1].end

    def box(self, row: int, left: float, right: float, top: float, bottom: float, **more: Any) -> Record:
        """Make the record of a box in a head's cell: across in bars of single offsets, down from 0 to 1."""
        places = self.places
        column, line = places.across.index(places.x[row]), places.down.index(places.y[row])
        x, x2 = (round(column + _FILLED * at / self.width, 4) for at in (left, right))
        return {"x": x, "x2": x2, "y": round(line + top, 4), "y2": round(line + bottom, 4), **more}

    def rise(self, share: float) -> float:
        """Give the place of a height in the field of bars, from 0 to 1."""
        return _FOOT - share * (_FOOT - self.band)

    def draw(self, details: Mapping[str, str], wide: float, request: DrawingRequest) -> Iterator[Any]:
        """Draw the charts of a map, back to front: bands and bars, frames of patches, letters, tooltips."""
        theme, opacity = request.theme, alt.FillOpacity("shade:Q", scale=None)
        boxes = self._draw_boxes([box for row in self.rows for box in self._list_boxes(row)])
        yield boxes.encode(color=self._colour(request), fillOpacity=opacity)
        for pale, shade in ((False, 1.0), (True, 0.45)):
            look: dict[str, Any] = {"interpolate": "step-after", "filled": True, "strokeWidth": 0}
            outline = self._chart(list(self._list_corners(pale=pale)))
            outline = outline.mark_line(color=theme.ink, opacity=shade, aria=False, **look)
            yield outline.encode(detail="row:N", order="corner:Q")
        if self.profile.side:
            frames = [self._make_patch_box(row, self.profile.side**2 // 2) for row in self.rows]  # of itself
            yield self._draw_boxes(frames, fill=None, stroke=FRAME, strokeWidth=0.7)
        if self.kinds and wide >= theme.small(3):
            inks = {kind: choose_ink(mark.colour) for kind, mark in ROLE_MARKS.items() if mark.colour}
            letters = [
                self.box(row, self.width / 2, 0, _BAND / 2, 0, letter=ROLE_MARKS[kind].letter, ink=inks[kind])
                for row, kind in self.kinds.items()
                if kind != MIXED
            ]
            look = {"fontSize": theme.small(3), "fontWeight": "bold", "baseline": "middle"}
            text = self._chart(letters).mark_text(**look)
            yield text.encode(text="letter:N", color=alt.Color("ink:N", scale=None))
        tooltip = make_tooltip({"layer:O": "layer", "head:O": "head", **details})
        whole = self._draw_boxes(list(self._describe_heads(details)), fill="transparent", aria=True)
        yield whole.encode(tooltip=tooltip, description="label:N")

    def _draw_boxes(self, records: list[Record], **look: Any) -> Any:
        return self._chart(records).mark_rect(**{"aria": False, **look}).encode(x2="x2:Q", y2="y2:Q")

    def _chart(self, records: list[Record]) -> Any:
        """Make a chart whose axes number heads and layers."""
        look: dict[str, Any] = {"labelOverlap": "greedy", "grid": False, "domain": False, "ticks": False}
        channels = {}
        for name, channel, title, labels, middle in (
            ("x", alt.X, "head", self.places.across, _FILLED / 2),
            ("y", alt.Y, "layer", self.places.down, (self.band + _FOOT) / 2),
        ):
            numbers = labels if all(isinstance(label, int) for label in labels) else range(len(labels))
            axis = alt.Axis(
                title=title,
                orient="top" if name == "x" else "left",
                values=[place + middle for place in range(len(labels))],
                labelExpr=f"[{', '.join(map(str, numbers))}][floor(datum.value)]",  # whole numbers alone
                **look,
            )
            scale = alt.Scale(domain=[0, len(labels)], nice=False, zero=False, reverse=name == "y")
            channels[name] = channel(f"{name}:Q", axis=axis, scale=scale)
        return make_chart(records).encode(**channels)

    def _colour(self, request: DrawingRequest) -> Any:
        """Make the channel of colours: roles, with their counts in the legend, and parts without a role."""
        hues = {name: ROLE_MARKS[kind].colour or request.theme.grid for kind, name in self.names.items()}
        every = {**hues, "": request.theme.grid, "entropy": request.theme.muted, "patch": request.theme.ink}
        look: dict[str, Any] = {"orient": "bottom", "columns": max(1, int(request.width // 130))}
        legend = alt.Legend(title=None, values=[*hues], symbolType="square", symbolOpacity=1, **look)
        scale = alt.Scale(domain=[*every], range=[*every.values()])
        return alt.Color("kind:N", scale=scale, legend=legend if hues else None)

    def _list_boxes(self, row: int) -> Iterator[Record]:
        """List the boxes of a head, back to front: tint behind bars, band of its role, entropy, patches."""
        end, kind = self.width, self.names[self.kinds[row]] if self.kinds else ""
        yield self.box(row, 0, end, self.band, _FOOT, kind=kind, shade=0.22 if kind else 0.5)
        if kind:
            yield self.box(row, 0, end, 0, self.band, kind=kind, shade=1.0)
        if "entropy_normalized" in self.table.data:
            yield self.box(row, 0, end, *_ENTROPY, kind="", shade=1.0)
            if (value := self.entropies[row]) is not None:
                yield self.box(row, 0, end * min(max(value, 0.0), 1.0), *_ENTROPY, kind="entropy", shade=1.0)
        if self.profile.side:
            shades = np.rint(8 * take_root(self.profile.single[row], round_up(self.profile.single))) / 8
            for place in np.flatnonzero(shades).tolist():
                yield self._make_patch_box(row, place, kind="patch", shade=float(shades[place]))

    def _list_corners(self, *, pale: bool) -> Iterator[Record]:
        """List the corners of the outlines of each head's bars: those further away (pale) or the others."""
        for corner, (at, heights) in enumerate(self.profile.list_corners(pale=pale)):
            for row in self.rows:
                ends = self.box(row, at, at, self.rise(float(heights[row])), 1)
                yield {"row": row, "corner": corner, "x": ends["x"], "y": ends["y"]}

    def _make_patch_box(self, row: int, place: int, **more: Any) -> Record:
        down, right = divmod(place, self.profile.side)
        edge = IMAGE / self.profile.side
        left = self.profile.parts[1].start + right * edge
        top, bottom = (self.rise(1 - (down + end) / self.profile.side) for end in (0, 1))
        return self.box(row, left, left + edge, top, bottom, **more)

    def _describe_heads(self, details: Mapping[str, str]) -> Iterator[Record]:
        """List a box over each whole head, with the cells that its tooltip shows."""
        columns = read_fields(self.table, details)
        for row in self.rows:
            head = {"layer": self.places.y[row], "head": self.places.x[row]}
            label = ", ".join(f"{name} {format_cell(cell)}" for name, cell in head.items())
            numbers = {name: cells[row] for name, cells in columns.items()}
            yield self.box(row, 0, self.width, 0, _ENTROPY[1], label=label, **head, **numbers)
