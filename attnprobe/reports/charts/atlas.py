"""The head atlas: layers down, heads across, each a small profile of its attention by offset."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import altair as alt

from attnprobe.reports.charts.figure import Drawing, Figure
from attnprobe.reports.charts.marks import amend, make_chart, make_tooltip, stack_charts
from attnprobe.reports.charts.places import Places, place_heads
from attnprobe.reports.columns import DrawingRequest, Record, read_cells, read_floats, read_numbers
from attnprobe.reports.profile import Profile, read_profile
from attnprobe.reports.theme import FRAME, ROLE_COLOURS, choose_ink
from attnprobe.table.cells import format_cell
from attnprobe.table.naming import LETTERS, MIXED, find_role_kind
from attnprobe.table.table import HeadTable

#: How wide parts of a cell are, in bars of single offsets: a mark at the side, what lies beyond, air between.
_MARK, _BEYOND, _AIR = 2.0, 1.6, 0.8
#: How wide a square image of patches is, in the same.
_IMAGE = 21.0
#: How much of its place a cell fills, across; and down, where its parts begin and end: the band of its role,
#: bars, entropy.
_FILLED, _BAND, _FOOT, _ENTROPY = 0.94, 0.27, 0.86, (0.9, 0.96)
#: What a tooltip says of a head, where the table has it.
_TOLD = {
    "role": "role",
    "measure": "measure",
    "value": "value",
    "value_se": "standard error",
    "entropy": "entropy (nats)",
    "profile_first": "attention to the first token",
    "profile_special": "to other special tokens",
    "profile_-1": "to the previous token",
    "profile_0": "to itself",
    "profile_1": "to the next token",
    "profile_before": "further before",
    "profile_after": "further behind",
    "profile_beyond": "further away",
}
#: Of these, what is no number.
_WORDS = {"role", "measure"}


class _Part(NamedTuple):
    """A part of a profile: where it begins, how wide it is, and what it shows of each head."""

    start: float
    width: float
    values: Sequence[float]
    pale: bool = False


@dataclass(frozen=True)
class _Cell:
    """The parts of a cell from left to right, and how wide it is."""

    parts: Sequence[_Part]
    image: float  # where the squares of an image begin
    width: float


def _lay_out_cell(profile: Profile) -> _Cell:
    parts: list[_Part] = []
    at, image = 0.0, 0.0

    def add(width: float, values: Any, *, pale: bool = False, air: float = 0.0) -> None:
        nonlocal at
        parts.append(_Part(at, width, [float(value) for value in values], pale))
        at += width + air

    add(_MARK, profile.first, air=_AIR)
    if profile.side:
        image, at = at, at + _IMAGE + _AIR
        add(_BEYOND, profile.beyond[:, 0], pale=True, air=_AIR)
    else:
        add(_BEYOND, profile.beyond[:, 0], pale=True, air=_AIR)
        for column in profile.single.T:
            add(1.0, column)
        at += _AIR
        if profile.beyond.shape[1] > 1:
            add(_BEYOND, profile.beyond[:, 1], pale=True, air=_AIR)
    add(_MARK, profile.special)
    return _Cell(parts, image, at)


def take_root(value: float, end: float) -> float:
    """Give the square root of a value as a share of that of the end of its scale; 0 where it is undefined.

    >>> take_root(0.25, 1.0), take_root(float("nan"), 1.0)
    (0.5, 0.0)
    """
    return math.sqrt(min(max(value, 0.0) / end, 1.0)) if math.isfinite(value) else 0.0


@dataclass(frozen=True, kw_only=True)
class Atlas(Figure):
    """A cell a head: bars as high as the square root of mean attention, so that 0.01 is seen.

    Its band has the colour and the letter of its role, where the table has one; a bar below is its entropy
    over the largest possible.
    """

    def draw(self, table: HeadTable, request: DrawingRequest) -> Drawing:
        profile, places = read_profile(table), place_heads(table)
        assert profile is not None
        assert places is not None  # or the table would not fit
        cell, layers = _lay_out_cell(profile), len(places.down) * len(places.maps)
        wide = min(max((request.room - 40) / len(places.across), 9), 58)
        tall = min(max((request.high - 40 * len(places.maps)) / layers, 14), 44, 0.9 * wide + 12)
        charts = []
        for name in places.maps:
            rows = [row for row, panel in enumerate(places.panel) if panel == name]
            map = _Map(table, profile, cell, places, rows, request, tall)
            named = {"title": name} if name else {}
            down = sorted({map.line(row) for row in rows})
            size = {"width": wide * len(places.across), "height": tall * (down[-1] + 1)}
            charts.append(amend(alt.layer(*map.draw(wide)), **size, **named))
        used = wide * len(places.across) + 40
        return Drawing(stack_charts(charts), _explain_cell(profile, table), used)


def _explain_cell(profile: Profile, table: HeadTable) -> list[str]:
    ends = "the ends: first and other special tokens; pale: further away"
    if profile.side:
        steps = f"squares: attention to patches up to {profile.side // 2} rows and columns away"
        phrases = [steps, ends]
    else:
        count = profile.single.shape[1]
        both = profile.beyond.shape[1] > 1
        first, last = (-(count // 2), f"+{count // 2}") if both else (1 - count, "0")
        phrases = [f"bars: roots of attention to offsets {first} to {last}, at most {profile.top:g}", ends]
    return [*phrases, "below: entropy"] if "entropy_normalized" in table.data else phrases


@dataclass(frozen=True)
class _Map:
    """The heads of one map. A head is 1 wide and 1 high, at its place among heads and layers."""

    table: HeadTable
    profile: Profile
    cell: _Cell
    places: Places
    rows: Sequence[int]
    request: DrawingRequest
    tall: float

    def column(self, row: int) -> int:
        return self.places.across.index(self.places.x[row])

    def line(self, row: int) -> int:
        return self.places.down.index(self.places.y[row])

    def x(self, row: int, at: float) -> float:
        return round(self.column(row) + _FILLED * at / self.cell.width, 4)

    def y(self, row: int, height: float) -> float:
        """Give the place of a height in the field of bars, from 0 to 1."""
        return round(self.line(row) + _FOOT - height * (_FOOT - self.band), 4)

    @property
    def band(self) -> float:
        return _BAND if "role" in self.table.data else 0.04

    def draw(self, wide: float) -> Iterator[Any]:
        theme = self.request.theme
        yield self._draw_fields()
        for pale in (False, True):
            outline = self._chart(list(self._list_corners(pale=pale))).mark_line(
                interpolate="step-after",
                filled=True,
                color=theme.ink,
                strokeWidth=0,
                opacity=0.45 if pale else 1,
                aria=False,
            )
            yield outline.encode(detail="row:N", order="corner:Q")
        if self.profile.side:
            squares = self._chart(list(self._list_squares())).mark_rect(color=theme.ink, aria=False)
            yield squares.encode(x2="x2:Q", y2="y2:Q", fillOpacity=alt.FillOpacity("shade:Q", scale=None))
            frames = self._chart([self._frame_patch(row) for row in self.rows]).mark_rect(
                fill=None, stroke=FRAME, strokeWidth=0.7, aria=False
            )
            yield frames.encode(x2="x2:Q", y2="y2:Q")
        if "entropy_normalized" in self.table.data:
            bars = self._chart(list(self._list_entropies())).mark_rect(color=theme.muted, aria=False)
            yield bars.encode(x2="x2:Q", y2="y2:Q")
        if "role" in self.table.data and wide >= theme.small(3):
            letters = self._chart(list(self._list_letters())).mark_text(
                fontSize=theme.small(3), fontWeight="bold", baseline="middle"
            )
            yield letters.encode(text="letter:N", color=alt.Color("ink:N", scale=None))
        heads = self._chart(list(self._describe_heads()))
        told = {
            f"{name}:{'N' if name in _WORDS else 'Q'}": title
            for name, title in _TOLD.items()
            if name in self.table.data
        }
        tooltip = make_tooltip({"layer:O": "layer", "head:O": "head", **told})
        whole = heads.mark_rect(fill="transparent").encode(x2="x2:Q", y2="y2:Q", tooltip=tooltip)
        yield whole.encode(description="label:N")

    def _chart(self, records: list[Record]) -> Any:
        """Make a chart whose axes number heads and layers."""
        sides: tuple[tuple[str, Any, str, Sequence[Any], Any], ...] = (
            ("x", alt.X, "head", self.places.across, "top"),
            ("y", alt.Y, "layer", self.places.down, "left"),
        )
        channels = {}
        for name, channel, title, labels, side in sides:
            middle = (_FILLED if name == "x" else self.band + _FOOT) / 2
            axis = alt.Axis(
                title=title,
                orient=side,
                values=[place + middle for place in range(len(labels))],
                labelExpr=_name_ticks(labels),
                labelOverlap="greedy",
                grid=False,
                domain=False,
                ticks=False,
            )
            scale = alt.Scale(domain=[0, len(labels)], nice=False, zero=False, reverse=name == "y")
            channels[name] = channel(f"{name}:Q", axis=axis, scale=scale)
        return make_chart(records).encode(**channels)

    def _draw_fields(self) -> Any:
        """Draw what lies behind: the band of the role, its tint behind the bars, the ground of entropy."""
        theme = self.request.theme
        roles = read_cells(self.table, "role")
        kinds = {row: find_role_kind(format_cell(roles[row])) for row in self.rows}
        counts = {kind: [*kinds.values()].count(kind) for kind in LETTERS}
        names = {kind: f"{LETTERS[kind]}  {kind} ({count})" for kind, count in counts.items() if count}
        blank = alt.Scale(domain=[""], range=[theme.grid])
        colour = alt.Color("kind:N", scale=blank, legend=None)
        if "role" in self.table.data:
            hues = [ROLE_COLOURS[kind] or theme.grid for kind in names]
            scale = alt.Scale(domain=[*names.values(), ""], range=[*hues, theme.grid])
            columns = max(1, int(self.request.width // 130))
            look: dict[str, Any] = {"orient": "bottom", "columns": columns, "symbolType": "square"}
            legend = alt.Legend(title=None, values=[*names.values()], symbolOpacity=1, **look)
            colour = alt.Color("kind:N", scale=scale, legend=legend)
        data: list[Record] = []
        for row in self.rows:
            sides = {"x": self.x(row, 0), "x2": self.x(row, self.cell.width)}
            kind = names[kinds[row]] if "role" in self.table.data else ""
            top, line = self.y(row, 1), self.line(row)
            data.append(
                {**sides, "y": top, "y2": self.y(row, 0), "kind": kind, "shade": 0.22 if kind else 0.5}
            )
            if kind:
                data.append({**sides, "y": line, "y2": top, "kind": kind, "shade": 1.0})
            if "entropy_normalized" in self.table.data:
                low, high = (line + end for end in _ENTROPY)
                data.append({**sides, "y": low, "y2": high, "kind": "", "shade": 1.0})
        fields = self._chart(data).mark_rect(aria=False)
        opacity = alt.FillOpacity("shade:Q", scale=None)
        return fields.encode(x2="x2:Q", y2="y2:Q", color=colour, fillOpacity=opacity)

    def _list_corners(self, *, pale: bool) -> Iterator[Record]:
        """List the corners of the outline of a head's bars, which is at its base where there is none."""
        parts = [part for part in self.cell.parts if part.pale == pale]
        for row in self.rows:
            base = self.y(row, 0)
            corners = [(0.0, base)]
            for part, following in zip(parts, [*parts[1:], None], strict=True):
                height = take_root(part.values[row], self.profile.top)
                corners.append((part.start, self.y(row, height)))
                if following is None or following.start > part.start + part.width:
                    corners.append((part.start + part.width, base))
            for corner, (at, y) in enumerate(corners):
                yield {"row": row, "corner": corner, "x": self.x(row, at), "y": y}

    def _place_patch(self, row: int, place: int) -> Record:
        down, right = divmod(place, self.profile.side)
        edge = _IMAGE / self.profile.side
        left = self.cell.image + right * edge
        top, bottom = (1 - (down + end) / self.profile.side for end in (0, 1))
        corners = (self.x(row, left), self.x(row, left + edge), self.y(row, top), self.y(row, bottom))
        return dict(zip(("x", "x2", "y", "y2"), corners, strict=True))

    def _frame_patch(self, row: int) -> Record:
        """Place the frame of a patch itself, in the middle."""
        return self._place_patch(row, self.profile.side**2 // 2)

    def _list_squares(self) -> Iterator[Record]:
        """List a square for each step to another patch, the darker the more goes there."""
        for row in self.rows:
            for place, value in enumerate(self.profile.single[row]):
                shade = round(8 * take_root(float(value), self.profile.darkest)) / 8
                if shade:
                    yield {**self._place_patch(row, place), "shade": shade}

    def _list_entropies(self) -> Iterator[Record]:
        values = read_floats(self.table, "entropy_normalized")
        for row in self.rows:
            if values is not None and math.isfinite(values[row]):
                end = self.cell.width * min(max(float(values[row]), 0.0), 1.0)
                low, high = (self.line(row) + end for end in _ENTROPY)
                yield {"x": self.x(row, 0), "x2": self.x(row, end), "y": low, "y2": high}

    def _list_letters(self) -> Iterator[Record]:
        roles = read_cells(self.table, "role")
        for row in self.rows:
            kind = find_role_kind(format_cell(roles[row]))
            if kind != MIXED:
                ink = choose_ink(ROLE_COLOURS[kind] or "#ffffff")
                middle = self.x(row, self.cell.width / 2)
                yield {"x": middle, "y": self.line(row) + _BAND / 2, "letter": LETTERS[kind], "ink": ink}

    def _describe_heads(self) -> Iterator[Record]:
        """Place heads as a whole, with their numbers."""
        known = [name for name in _TOLD if name in self.table.data]
        told: dict[str, Sequence[Any]] = {
            name: (read_cells if name in _WORDS else read_numbers)(self.table, name) for name in known
        }
        for row in self.rows:
            layer, head = self.places.y[row], self.places.x[row]
            yield {
                "x": self.x(row, 0),
                "x2": self.x(row, self.cell.width),
                "y": self.line(row),
                "y2": self.line(row) + _ENTROPY[1],
                "layer": layer,
                "head": head,
                "label": f"layer {format_cell(layer)}, head {format_cell(head)}",
                **{name: cells[row] for name, cells in told.items()},
            }


def _name_ticks(labels: Sequence[object]) -> str:
    """Make the expression of the labels of ticks, which holds whole numbers alone."""
    if not all(isinstance(label, int) for label in labels):
        return "floor(datum.value)"
    return f"[{', '.join(map(str, labels))}][floor(datum.value)]"
