"""The head atlas, laid out: layers by heads, each a small profile of its attention by offset.

A picture and the page of a report draw the same shapes. All bars of one look are one path, so that an atlas
of many heads stays light.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from textwrap import wrap
from typing import NamedTuple

import numpy as np

from attnprobe.reports.columns import read_floats
from attnprobe.reports.profile import Profile, read_profile
from attnprobe.reports.profile_words import CellRoles, read_roles, write_caption
from attnprobe.reports.shapes import AXES, Grid, lay_out_grid
from attnprobe.reports.theme import FRAME, ROLE_COLOURS, Theme, choose_ink
from attnprobe.table.cells import Cell, format_cell
from attnprobe.table.head_table import HeadTable
from attnprobe.table.naming import LETTERS, MIXED

#: Pixels of a cell with its gap; wider ones leave a picture narrower than it may be.
_NARROWEST, _WIDEST = 9.0, 58.0
#: Pixels between cells, of the bar of entropy, and between it and the bars above.
_GAP, _ENTROPY, _AIR = 3.0, 2.0, 1.5
#: Pixels of the bars at full height, and how high they are for each pixel of width.
_LOW, _HIGH, _STEEP, _LEAST = 14.0, 24.0, 0.46, 11.0
#: Pixels of a page, between rows of cells, and of what stands above and below them.
_PAGE, _DOWN, _AROUND = 864.0, 4.0, 150.0
#: How wide parts of a cell are, in bars of single offsets: a mark at the side, what lies beyond, air between.
_MARK, _BEYOND, _BETWEEN = 2.0, 1.6, 0.8
#: How much of its colour a role leaves behind the bars, and how much of their ink what lies beyond has.
_TINT, _FAINT = 0.22, 0.45
#: How much of its colour the ground has where there is no role.
_PLAIN = 0.5
#: Layers: grounds, lines on them, what is drawn, and a frame around a patch.
_BACK, _LINES, _FRONT, _OVER = range(4)
#: Letters of a word and of a sentence are so many of their sizes wide.
_LETTER, _AVERAGE = 0.55, 0.46
#: Pixels between lines of text, and from a row to the numbers of its scale.
_LEADING, _TICK = 4.0, 7.0
#: Sizes of letters that "head" and "attention" take beside one another.
_LABELLED = 12.0
#: Shades of the squares of an image.
_SHADES = 8


@dataclass(frozen=True)
class Shape:
    """Everything of one look."""

    path: str
    fill: str
    opacity: float = 1.0


@dataclass(frozen=True)
class Words:
    """Text; ``x`` and ``y`` are where its base line begins, has its middle or ends."""

    x: float
    y: float
    text: str
    size: int
    fill: str
    anchor: str = "start"
    bold: bool = False


@dataclass(frozen=True)
class Place:
    """Where the head of a row of the table lies."""

    row: int
    x: float
    y: float
    width: float
    height: float


@dataclass(frozen=True)
class Atlas:
    """All that is drawn; lengths are pixels, and the caption says how a cell is read."""

    caption: str
    width: float
    height: float
    shapes: Sequence[Shape]
    words: Sequence[Words]
    places: Sequence[Place]


def _take_root(value: float, end: float) -> float:
    """Give the square root of a value as a share of that of the end of its scale; 0 where it is undefined.

    >>> _take_root(0.25, 1.0), _take_root(float("nan"), 1.0)
    (0.5, 0.0)
    """
    return math.sqrt(min(max(value, 0.0) / end, 1.0)) if math.isfinite(value) else 0.0


class _Look(NamedTuple):
    """How a shape looks; those of a lower layer lie below."""

    layer: int
    fill: str
    opacity: float = 1.0


@dataclass
class _Paths:
    """Paths that grow, by their look."""

    of: dict[_Look, list[str]] = field(default_factory=dict)

    def rectangle(self, look: _Look, x: float, y: float, width: float, height: float) -> None:
        if width > 0 and height > 0:
            path = f"M{_cut(x)} {_cut(y)}h{_cut(width)}v{_cut(height)}h{_cut(-width)}z"
            self.of.setdefault(look, []).append(path)

    def shapes(self) -> list[Shape]:
        found = sorted(self.of.items(), key=lambda one: one[0].layer)
        return [Shape("".join(parts), look.fill, look.opacity) for look, parts in found]


def _cut(length: float) -> str:
    """Write a length to a hundredth of a pixel.

    >>> _cut(2.0), _cut(-0.333333)
    ('2', '-0.33')
    """
    return f"{length:.2f}".rstrip("0").rstrip(".") or "0"


def _write_end(value: float) -> str:
    """Write a number of the scale, which has one digit that is not 0.

    >>> _write_end(1.0), _write_end(0.02)
    ('1', '.02')
    """
    return f"{value:.3g}".removeprefix("0")


@dataclass(frozen=True)
class _Cell:
    """Sizes of a cell, and where its parts begin."""

    width: float
    head: float  # height of the band of the role; 0 without roles
    bars: float  # height of the bars
    unit: float  # width of the bar of a single offset
    singles: int
    befores: int  # parts of what lies beyond on the left
    afters: int
    patches: bool

    @property
    def height(self) -> float:
        return self.head + self.bars + _AIR + _ENTROPY

    @property
    def singles_from(self) -> float:
        return self.unit * (_MARK + _BETWEEN + self.befores * (_BEYOND + _BETWEEN))

    @property
    def singles_to(self) -> float:
        return self.singles_from + self.unit * self.singles


def _size_cell(profile: Profile, pitch: float, head: float, layers: int) -> _Cell:
    width, room = pitch - _GAP, (_PAGE - _AROUND) / layers - head - _AIR - _ENTROPY - _DOWN
    befores, afters = (0, 1) if profile.side else (1, profile.beyond.shape[1] - 1)
    singles = profile.side or profile.single.shape[1]
    beside = 2 * (_MARK + _BETWEEN) + (befores + afters) * (_BEYOND + _BETWEEN)
    if profile.side:  # squares, beside marks that are as wide as those of a text
        unit = width / (beside + 21)
        square = min(width - unit * beside, 1.5 * _HIGH, max(room, _LEAST))
        return _Cell(width, head, square, unit, 0, befores, afters, patches=True)
    bars = min(max(_LOW, _STEEP * width), _HIGH, max(room, _LEAST))
    return _Cell(width, head, bars, width / (beside + singles), singles, befores, afters, patches=False)


def lay_out_atlas(
    table: HeadTable, theme: Theme, width: float, *, captioned: bool = True, widest: float = _WIDEST
) -> Atlas:
    """Lay out a table of heads with their attention by offset, about ``width`` pixels wide.

    A cell is at most ``widest`` pixels wide. Where it is ``captioned``, the caption is among the words.

    A bar stands for the mean attention to an offset; bars are as high as the square root of it, so that 0.01
    is seen, and a scale beside the first row says so. Where the table says which role a head has, its band
    has the colour and the letter of it.
    """
    profile, grid = read_profile(table), lay_out_grid(table)
    assert profile is not None
    assert grid is not None  # or the table would not fit
    size = theme.small(3)
    roles = read_roles(table)
    left = 5.0 + _LETTER * size * len("layer")
    scale = _LETTER * size * len(_write_end(profile.top / 10)) + _TICK + 2.0
    pitch = min(max((width - left - scale) / len(grid.heads), _NARROWEST), widest)
    full = max(left + pitch * len(grid.heads) + scale, min(width, 280.0))
    rows = len(set(zip(grid.places, table.data["layer"], strict=True)))
    cell = _size_cell(profile, pitch, size + 2.0 if roles is not None else 0.0, rows)
    drawing = _Drawing(table, theme, profile, cell, roles, size)
    y = 0.0
    for name in grid.maps:
        y = drawing.draw_map(grid, name, left, y, pitch)
    y = drawing.list_roles(0.0, y + 4.0, full)
    caption = write_caption(profile, entropy=drawing.entropy is not None)
    if captioned:
        for line in wrap(caption, max(20, int(full / (_AVERAGE * size)))):
            drawing.write(0.0, y + size, line, fill=theme.muted)
            y += size + _LEADING
    return Atlas(caption, full, y, drawing.paths.shapes(), drawing.words, drawing.places)


@dataclass
class _Drawing:
    """An atlas that is being drawn."""

    table: HeadTable
    theme: Theme
    profile: Profile
    cell: _Cell
    roles: CellRoles | None
    size: int
    paths: _Paths = field(default_factory=_Paths)
    words: list[Words] = field(default_factory=list)
    places: list[Place] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.top = self.profile.top
        self.entropy = read_floats(self.table, "entropy_normalized")

    def write(
        self, x: float, y: float, text: str, anchor: str = "start", fill: str | None = None, *,
        bold: bool = False,
    ) -> None:  # fmt: skip
        self.words.append(Words(x, y, text, self.size, fill or self.theme.ink, anchor, bold))

    def draw_map(self, grid: Grid, name: str, left: float, y: float, pitch: float) -> float:
        """Draw the heads of one map; return where it ends."""
        if len(grid.maps) > 1:
            self.write(0.0, y + self.size, name.replace("_", " "), bold=True)
            y += self.size + 5.0
        named = y + self.size
        self.write(left, named, "head", fill=self.theme.muted)
        y += self.size + 3.0
        self.write(0.0, y + self.size, "layer", fill=self.theme.muted)
        self._number(grid.heads, left, y + self.size, pitch)
        y += self.size + 4.0
        columns = {head: place for place, head in enumerate(grid.heads)}
        layers, heads = (self.table.data[name] for name in AXES)
        own = [row for row, place in enumerate(grid.places) if place == name]
        used = [layer for layer in grid.layers if any(layers[row] == layer for row in own)]
        lines = {layer: place for place, layer in enumerate(used)}
        height = self.cell.height + _DOWN
        for layer, line in lines.items():
            middle = y + line * height + self.cell.head + self.cell.bars / 2 + 0.35 * self.size
            self.write(left - 4.0, middle, format_cell(layer), "end", self.theme.muted)
        for row in own:
            x = left + columns[heads[row]] * pitch
            self.draw_head(row, x, y + lines[layers[row]] * height)
        if self.places[0].row in own:  # one scale is enough for all maps
            scale = left + len(grid.heads) * pitch - _GAP
            self.draw_scale(scale, y + self.cell.head)
            end = max(
                scale + _TICK + _LETTER * self.size * len(_write_end(self.top / 10)), _LABELLED * self.size
            )
            self.write(end, named, "attention", "end", self.theme.muted)
        return y + len(used) * height + 4.0

    def _number(self, heads: Sequence[Cell], left: float, y: float, pitch: float) -> None:
        room = _LETTER * self.size * max(len(format_cell(head)) for head in heads) + 3.0
        step = next(step for step in (1, 2, 5, 10, 20, 50) if step * pitch >= room or step == 50)
        for place in range(0, len(heads), step):
            middle = left + place * pitch + self.cell.width / 2
            self.write(middle, y, format_cell(heads[place]), "middle", self.theme.muted)

    def draw_head(self, row: int, x: float, y: float) -> None:
        """Draw a head: the band of its role, its bars, and the bar of its entropy."""
        cell = self.cell
        self.places.append(Place(row, x, y, cell.width, cell.height))
        kind = None if self.roles is None else self.roles.kinds[row]
        below = y + cell.head
        colour = None if kind is None else ROLE_COLOURS[kind]
        if colour is not None:
            self.paths.rectangle(_Look(_BACK, colour), x, y, cell.width, cell.head)
            if not cell.patches:
                self.paths.rectangle(_Look(_BACK, colour, _TINT), x, below, cell.width, cell.bars)
        if colour is None or cell.patches:  # a shade would not be the same on a tint
            self.paths.rectangle(_Look(_BACK, self.theme.grid, _PLAIN), x, below, cell.width, cell.bars)
        if kind is not None and self.roles is not None and kind != MIXED:
            ink = self.theme.ink if colour is None else choose_ink(colour)
            self._label(kind, x, y, ink)
        if not cell.patches:
            last = cell.singles_to - cell.unit / 2
            at = (cell.singles_from + cell.singles_to) / 2 if cell.afters else last
            self.paths.rectangle(_Look(_LINES, self.theme.muted, 0.5), x + at - 0.3, below, 0.6, cell.bars)
        self.draw_profile(row, x, below)
        entropy = None if self.entropy is None else float(self.entropy[row])
        self.draw_entropy(entropy, x, below + cell.bars + _AIR)

    def _label(self, kind: str, x: float, y: float, ink: str) -> None:
        """Write the letter of a role."""
        base, width = y + self.cell.head - 2.4, self.cell.width
        if width >= _LETTER * self.size + 2:
            self.write(x + width / 2, base, LETTERS[kind], "middle", ink, bold=True)

    def draw_profile(self, row: int, x: float, y: float) -> None:
        """Draw the bars of a row, or the squares of an image, with the marks at their sides."""
        cell, profile, ink = self.cell, self.profile, self.theme.ink
        mark, beyond = cell.unit * _MARK, cell.unit * _BEYOND
        right, between, pale = x + cell.width, cell.unit * _BETWEEN, _Look(_FRONT, ink, _FAINT)
        self._bar(_Look(_FRONT, ink), profile.first[row], x, y, mark)
        self._bar(_Look(_FRONT, ink), profile.special[row], right - mark, y, mark)
        if cell.patches:
            self._squares(profile.single[row], x, y)
            self._bar(pale, profile.beyond[row, 0], right - mark - between - beyond, y, beyond)
            return
        start, end = x + cell.singles_from, x + cell.singles_to
        self._bar(pale, profile.beyond[row, 0], start - between - beyond, y, beyond)
        if cell.afters:
            self._bar(pale, profile.beyond[row, 1], end + between, y, beyond)
        self._silhouette(profile.single[row], start, y)

    def draw_scale(self, x: float, y: float) -> None:
        """Draw the heights of the top of the scale and of a tenth of it, right of a row of cells."""
        base = y + self.cell.bars
        self.paths.rectangle(_Look(_LINES, self.theme.muted), x + 1.0, y, 0.6, self.cell.bars)
        for value in (self.top, self.top / 10):
            at = base - self._raise(value)
            self.paths.rectangle(_Look(_LINES, self.theme.muted), x + 1.0, at - 0.3, _TICK - 2.0, 0.6)
            self.write(x + _TICK, at + 0.35 * self.size, _write_end(value), fill=self.theme.muted)

    def _raise(self, value: float) -> float:
        """Give the height of a bar."""
        return self.cell.bars * _take_root(value, self.top)

    def _bar(self, look: _Look, value: float, x: float, y: float, width: float) -> None:
        height = self._raise(float(value))
        self.paths.rectangle(look, x, y + self.cell.bars - height, width, height)

    def _silhouette(self, values: np.ndarray, x: float, y: float) -> None:
        """Draw bars that touch as one outline."""
        if not np.isfinite(values).any():
            return
        path, base = [f"M{_cut(x)} {_cut(y + self.cell.bars)}"], y + self.cell.bars
        for value in values:
            path.append(f"V{_cut(base - self._raise(float(value)))}h{_cut(self.cell.unit)}")
        path.append(f"V{_cut(base)}z")
        self.paths.of.setdefault(_Look(_FRONT, self.theme.ink), []).append("".join(path))

    def _squares(self, values: np.ndarray, x: float, y: float) -> None:
        """Draw a square for each step to another patch, darker where more goes there."""
        side = self.profile.side
        edge = self.cell.bars / side
        start = x + self.cell.singles_from
        for place, value in enumerate(values):
            shade = round(_SHADES * _take_root(float(value), self.profile.darkest))
            down, right = divmod(place, side)
            look = _Look(_FRONT, self.theme.ink, shade / _SHADES)
            if shade:
                self.paths.rectangle(look, start + right * edge, y + down * edge, edge, edge)
        own, thin = side // 2 * edge, min(0.7, edge / 4)
        for across, along, wide, high in (
            (0.0, 0.0, edge, thin), (0.0, edge - thin, edge, thin),
            (0.0, thin, thin, edge - 2 * thin), (edge - thin, thin, thin, edge - 2 * thin),
        ):  # fmt: skip
            self.paths.rectangle(_Look(_OVER, FRAME), start + own + across, y + own + along, wide, high)

    def draw_entropy(self, value: float | None, x: float, y: float) -> None:
        if value is not None and math.isfinite(value):
            self.paths.rectangle(_Look(_BACK, self.theme.grid), x, y, self.cell.width, _ENTROPY)
            self.paths.rectangle(
                _Look(_FRONT, self.theme.muted), x, y, self.cell.width * min(max(value, 0.0), 1.0), _ENTROPY
            )

    def list_roles(self, x: float, y: float, width: float) -> float:
        """List the roles that there are, with how many heads have each; return where that ends."""
        if self.roles is None:
            return y
        at, line = x, self.size + _LEADING
        for kind in self.roles.counts:
            text = self.roles.describe(kind)
            wide = line + 3.0 + _LETTER * self.size * len(text) + 8.0
            if at > x and at + wide > x + width:
                at, y = x, y + line
            colour = ROLE_COLOURS[kind]
            box = line - 3.0
            if colour is not None:
                self.paths.rectangle(_Look(_BACK, colour), at, y, box, box)
                self.write(
                    at + box / 2, y + box - 2.2, LETTERS[kind], "middle", choose_ink(colour), bold=True
                )
            else:
                self.paths.rectangle(_Look(_BACK, self.theme.grid, _PLAIN), at, y, box, box)
            self.write(at + box + 3.0, y + box - 2.2, text)
            at += wide
        return y + line + 3.0
