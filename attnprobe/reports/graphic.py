"""Attention as a vector graphic: lines between two columns of tokens, a map, or all heads side by side."""

from collections.abc import Sequence
from html import escape
from textwrap import wrap
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from attnprobe.reports.theme import THEMES, ThemeName
from attnprobe.reports.view import (
    Start,
    add_rollout,
    encode_image,
    find_query,
    make_visible,
    select_tokens,
    shrink_maps,
)
from attnprobe.reports.view_alignment import HIT, Mark, explain_marks, place_marks, tell_rates
from attnprobe.survey.tokens import Maps, SequenceAttention, Side, group_tokens

Rows = NDArray[np.floating[Any]]
Colour = tuple[int, int, int]

#: From nothing to everything, red-green-blue; each step is darker than the last, in grey too.
RAMP: tuple[Colour, ...] = ((255, 255, 255), (198, 219, 239), (107, 174, 214), (33, 113, 181), (8, 48, 107))
#: The same on a dark ground, where much is light.
_DARK: tuple[Colour, ...] = ((22, 24, 29), (24, 58, 104), (36, 108, 184), (112, 178, 240), (232, 244, 255))
#: Colours that a graphic tells apart.
LEVELS = 48
FONT = "Helvetica, Arial, 'Liberation Sans', 'DejaVu Sans', sans-serif"
EDGE = 10
#: Pixels between two columns of tokens, and between which they stay where a width is given.
_BETWEEN, _CLOSEST = 200, 70
#: Lines of less attention are left out.
FAINTEST = 0.01
#: Shades that lines have.
SHADES = 20
#: Most characters of a label.
_LONGEST = 20
#: Cells of a small map on either side; its least and usual size in pixels, and the room between two of them.
_CELLS, _SMALLEST, _SMALL, _GAP = 24, 10, 44, 6
_FRAME = "#999999"
#: What the scale says, and how wide a step of it is.
_SCALE, _STEP = (0, 0.01, 0.05, 0.1, 0.25, 0.5, 1), 34
#: A letter of prose is so many of its sizes wide; labels of few letters can be wider.
_PROSE = 0.52
#: A gold link between two columns of tokens is a band behind the lines, a possible one is dashed.
_BAND, _DASHES = "#d95f0e", ' stroke-dasharray="5 4"'


class Look(NamedTuple):
    """Colours and sizes of a graphic; lengths are pixels, of which 96 make an inch."""

    theme: ThemeName
    stroke: str  # of lines that say everything; less attention is more transparent
    ramp: Sequence[Colour]  # from nothing, which is the background, to everything
    size: int  # of the text
    line: int  # from one token to the next

    @property
    def ink(self) -> str:
        """The colour of tokens and titles."""
        return THEMES[self.theme].ink

    @property
    def pale(self) -> str:
        """The colour of what explains them."""
        return THEMES[self.theme].muted


#: By the name of the theme; that of paper has text of 8 points, as pictures of tables do.
LOOKS: dict[ThemeName, Look] = {
    "light": Look("light", "#08306b", RAMP, 13, 20),
    "dark": Look("dark", "#9ecbff", _DARK, 13, 20),
    "paper": Look("paper", "#08306b", RAMP, 11, 17),
}
LIGHT = LOOKS["light"]


class Panel(NamedTuple):
    """One head, as it is drawn: attention (query, key), and the labels of both."""

    title: str
    rows: Rows
    queries: Sequence[str]
    keys: Sequence[str]
    marks: Sequence[Mark] = ()
    notes: Sequence[str] = ()  # lines below the title


class Block(NamedTuple):
    """The heads of one kind of attention, rollout behind them; no map is of a head that was removed."""

    name: str
    layers: Sequence[str]
    heads: Sequence[str]
    maps: Sequence[Sequence[Rows | None]]


def draw_view(
    seen: SequenceAttention, start: Start, *, chosen: bool, look: Look = LIGHT, width: int | None = None
) -> str:
    """Draw the head that ``start`` names as svg, or all heads small where none was chosen.

    It is about ``width`` pixels wide, or by default as wide as it needs to be.
    """
    if not chosen:
        blocks = [_shrink_block(maps, start) for maps in seen.maps]
        images = any(maps.keys.grid is not None for maps in seen.maps)
        share = ", each head as a share of its most" if images else ""
        return draw_all_heads(f"Attention of {make_visible(seen.model)}{share}", blocks, look, width)
    maps = seen.of(start.kind)
    place = f"{f'{maps.kind.value} ' if len(seen.maps) > 1 else ''}layer {maps.layers[start.layer]}"
    rolled = start.head == maps.rows.shape[1]
    title = f"Rollout up to {place}" if rolled else f"{place[0].upper()}{place[1:]}, head {start.head}"
    rows = add_rollout(maps)[start.layer, start.head]
    if start.draw == "patches":
        grid, query = maps.keys.grid, find_query(maps)
        assert grid is not None
        assert seen.picture is not None
        given = rows.mean(0) if query is None else rows[query]
        whose = "all tokens on average" if query is None else maps.queries.labels[query]
        patches = given[grid.first : grid.first + len(grid)].reshape(grid.rows, grid.columns)
        address, size = encode_image(seen.picture), seen.picture.shape[:2]
        return draw_patches(title, f"from {whose}", patches, address, size, look, width)
    if start.words:
        rows = group_tokens(rows, maps.queries.words, maps.keys.words)
    (queries, left), (keys, right) = (_label_side(side, start) for side in (maps.queries, maps.keys))
    marks = place_marks(maps, queries, keys, words=start.words)
    notes = [explain_marks(marks, start.draw)] if marks else []
    if maps.alignment is not None and not rolled:
        notes += [tell_rates(way, start.layer, start.head) for way in maps.alignment.ways]
        notes.append(HIT)
    panel = Panel(title, rows[queries][:, keys], left, right, marks, notes)
    return (draw_lines if start.draw == "lines" else draw_map)(panel, look, width)


def _label_side(side: Side, start: Start) -> tuple[NDArray[np.int64], list[str]]:
    """Choose and label what is shown of a side, with a dot before each piece that goes on with a word."""
    places, labels = select_tokens(side, words=start.words, special=start.special)
    shown = list(map(make_visible, labels))
    if not start.words and side.continues is not None:
        shown = ["\u00b7" * bool(dot) + one for one, dot in zip(shown, side.continues[places], strict=True)]
    return places, shown


def _shrink_block(maps: Maps, start: Start) -> Block:
    small = shrink_maps(maps, words=start.words, special=start.special, most=_CELLS)
    extra = small.shape[1] - maps.rows.shape[1]
    standing = np.pad(maps.standing, ((0, 0), (0, extra)), constant_values=True)
    layers = zip(small, standing, strict=True)
    grid = [[rows if there else None for rows, there in zip(*layer, strict=True)] for layer in layers]
    heads = [*map(str, range(maps.rows.shape[1])), *["rollout"] * extra]
    return Block(maps.kind.value, list(map(str, maps.layers)), heads, grid)


def draw_lines(panel: Panel, look: Look = LIGHT, width: int | None = None) -> str:
    """Draw lines from each token to those it attends to; more attention is a darker and thicker line.

    With a width, the labels keep their size, and the lines give way.
    """
    pen, line = _Pen(look), look.line
    left, right = (list(map(cut_label, labels)) for labels in (panel.queries, panel.keys))
    first, last = (max(map(pen.width, labels), default=0) for labels in (left, right))
    around = 2 * EDGE + first + last + 16
    between = _BETWEEN if width is None else max(_CLOSEST, width - around)
    start = EDGE + first + 8
    stop = start + between
    wide = max(around + between, 2 * EDGE + pen.width(panel.title))
    below = pen.notes(panel, wide)
    top = EDGE + 2 * line + 6 + below
    pen.text(start - 8, EDGE + line + look.size + below, "from", "end", look.pale)
    pen.text(stop + 8, EDGE + line + look.size + below, "to", "start", look.pale)
    for mark in panel.marks:
        begin, end = (f"{top + line * (first + last) / 2:g}" for first, last in (mark.rows, mark.columns))
        pen.parts.append(
            f'<path d="M{start:g} {begin}L{stop:g} {end}" fill="none" stroke="{_BAND}" stroke-opacity="0.5" '
            f'stroke-width="7"{"" if mark.sure else _DASHES}><title>{mark.name}</title></path>'
        )
    shades = np.ceil(panel.rows * SHADES).astype(int)
    shown = panel.rows >= FAINTEST
    middle = [f"{top + line * (place + 0.5):g}" for place in range(max(len(left), len(right)))]
    for shade in np.unique(shades[shown]):
        ends = np.argwhere(shown & (shades == shade))
        path = "".join(f"M{start:g} {middle[query]}L{stop:g} {middle[key]}" for query, key in ends)
        thickness = 0.8 + max(0, shade - 4) * 0.1  # as in draw.js: little attention has a thin line
        pen.parts.append(
            f'<path d="{path}" fill="none" stroke="{look.stroke}" stroke-width="{thickness:.1f}" '
            f'stroke-opacity="{shade / SHADES:g}"/>'
        )
    base = line / 2 + 0.3 * look.size
    for labels, x, anchor in ((left, start - 8, "end"), (right, stop + 8, "start")):
        for n, label in enumerate(labels):
            pen.text(x, top + line * n + base, label, anchor)
    return pen.svg(wide, top + len(middle) * line + EDGE, panel.title)


def draw_map(panel: Panel, look: Look = LIGHT, width: int | None = None) -> str:
    """Draw a map: a row for each token that attends, a column for each that it attends to.

    With a width, the cells give way, and labels where cells are smaller.
    """
    pen = _Pen(look)
    left, above = (list(map(cut_label, labels)) for labels in (panel.queries, panel.keys))
    cell, label = float(look.line - 4), float(look.size)
    first, tall = (max(map(pen.width, labels), default=0) for labels in (left, above))
    if width is not None:  # labels that shrink with the cells leave them more room
        cell = max(3.0, (width - 2 * EDGE - 8 - first) / len(above))
        if cell < label + 2:
            share = first / look.size  # a label's width for each pixel of its size
            cell = max(3.0, (width - 2 * EDGE - 8 + 2 * share) / (len(above) + share))
    label = min(label, max(1.0, cell - 2))
    first, tall = first * label / look.size, tall * label / look.size
    x, wide, high = EDGE + first + 8, cell * len(above), cell * len(left)
    full = max(x + wide, x + _STEP * len(_SCALE), EDGE + pen.width(panel.title)) + EDGE
    if width is None:  # room for the name of the keys
        full = max(full, x + wide + 4 + pen.width("key") + EDGE)
    y = EDGE + look.line + tall + 8 + pen.notes(panel, full)
    pen.cells(panel.rows, x, y, cell, cell)
    pen.frame(x, y, wide, high)
    base = cell / 2 + 0.3 * label
    for n, one in enumerate(left):
        pen.text(x - 6, y + cell * n + base, one, "end", size=label)
    for n, one in enumerate(above):
        pen.parts.append(f'<g transform="translate({x + cell * n + base:g} {y - 6:g}) rotate(-90)">')
        pen.text(0, 0, one, size=label)
        pen.parts.append("</g>")
    if x - 6 >= pen.width("query") and x + wide + 4 + pen.width("key") <= full:
        pen.text(x - 6, y - 6, "query", "end", look.pale)
        pen.text(x + wide + 4, y - 6, "key", "start", look.pale)
    pen.marks(panel.marks, x, y, cell)
    pen.scale(x, y + high + 12)
    return pen.svg(full, y + high + 48 + EDGE, panel.title)


def draw_all_heads(title: str, blocks: Sequence[Block], look: Look = LIGHT, width: int | None = None) -> str:
    """Draw a small map of every head, layers from top to bottom; with a width, the maps give way."""
    pen, gap = _Pen(look), _GAP
    indent = EDGE + max(pen.width(block.name) for block in blocks) + 14
    most = max(len(block.heads) for block in blocks)
    size = float(_SMALL) if width is None else max(_SMALLEST, (width - indent - EDGE + gap) / most - gap)
    pen.title(title)
    y, end = float(EDGE + 2 * look.line), 0.0
    for block in blocks:
        pen.text(EDGE, y + look.size, block.name, colour=look.pale)
        end = 0.0
        for head, name in enumerate(block.heads):
            left, wide = indent + (size + gap) * head, pen.width(name)
            centred = left + (size - wide) / 2
            at = centred if name.isdigit() else max(left + min(0.0, size - wide) / 2, end + 4)
            if at >= end + 4 or not head:  # where maps are small, not every number finds room
                pen.text(at + wide / 2, y + look.size, name, "middle", look.pale)
                end = at + wide
        y += look.line
        for layer, row in zip(block.layers, block.maps, strict=True):
            pen.text(indent - 8, y + size / 2 + 4, layer, "end", look.pale)
            for head, rows in enumerate(row):
                x = indent + (size + gap) * head
                if rows is not None:
                    pen.cells(rows, x, y, size / rows.shape[1], size / rows.shape[0])
                pen.frame(x, y, size, size, dashed=rows is None)
            y += size + gap
        y += look.line / 2
    at = pen.scale(indent, y)
    full = max(indent + (size + gap) * most - gap, end, indent + at, EDGE + pen.width(title)) + EDGE
    return pen.svg(full, y + 36 + EDGE, title)


def draw_patches(
    title: str, whose: str, patches: Rows, address: str, size: tuple[int, int], look: Look = LIGHT,
    width: int | None = None,
) -> str:  # fmt: skip
    """Draw an image, and beside it what each of its patches (row, column) gets, as a share of the most.

    ``whose`` says who attends; ``address`` is the image as a data URL, ``size`` its height and width.
    """
    pen = _Pen(look)
    wide = 260.0 if width is None else (width - 2 * EDGE - 20) / 2
    high = wide * size[0] / size[1]
    top, x = EDGE + 2 * look.line, EDGE + wide + 20
    most = float(patches.max()) or 1.0
    rows, columns = patches.shape
    note = f"{whose}; the most that a patch gets is {most:.4f}"
    pen.title(title)
    pen.text(EDGE, EDGE + look.line + look.size, note, colour=look.pale)
    pen.parts.append(
        f'<image x="{EDGE}" y="{top}" width="{wide:g}" height="{high:g}" preserveAspectRatio="none" '
        f'href="{address}"/>'
    )
    pen.cells(patches / most, x, top, wide / columns, high / rows)
    pen.frame(x, top, wide, high)
    return pen.svg(max(x + wide, EDGE + pen.width(note)) + EDGE, top + high + EDGE, title)


def cut_label(text: str, longest: int = _LONGEST) -> str:
    """Cut a label for a graphic.

    >>> cut_label("incomprehensibilities", 10)
    'incompreh…'
    """
    return text if len(text) <= longest else f"{text[: longest - 1]}\u2026"


def find_levels(rows: Rows) -> NDArray[np.int64]:
    """Find the level of each probability, from 0 to ``LEVELS``: by its square root, so that 0.01 shows."""
    return np.rint(np.sqrt(np.clip(rows, 0, 1)) * LEVELS).astype(np.int64)


def mix_colour(level: int, ramp: Sequence[Colour] = RAMP) -> str:
    """Interpolate the colour of a level.

    >>> mix_colour(0), mix_colour(LEVELS)
    ('#ffffff', '#08306b')
    """
    place = level / LEVELS * (len(ramp) - 1)
    low = min(int(place), len(ramp) - 2)
    mixed = (round(a + (b - a) * (place - low)) for a, b in zip(ramp[low], ramp[low + 1], strict=True))
    return "#" + "".join(f"{part:02x}" for part in mixed)


class _Pen:
    """Collects the parts of a graphic."""

    def __init__(self, look: Look) -> None:
        self.look, self.parts = look, list[str]()

    def text(
        self, x: float, y: float, text: str, anchor: str = "start", colour: str | None = None,
        size: float | None = None, more: str = "",
    ) -> None:  # fmt: skip
        small = "" if size in (None, self.look.size) else f' font-size="{size:g}"'
        self.parts.append(
            f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}" fill="{colour or self.look.ink}"{small}{more}>'
            f"{escape(text)}</text>"
        )

    def title(self, text: str) -> None:
        self.text(EDGE, EDGE + self.look.size, text, more=' font-weight="bold"')

    def notes(self, panel: Panel, wide: float) -> float:
        """Write the title, and the notes below it in lines; returns how high the notes are."""
        self.title(panel.title)
        lines = list[str]()
        for note in panel.notes:
            fits = max(24, int((wide - 2 * EDGE) / (_PROSE * self.look.size)))
            lines += wrap(note, fits)
        for number, line in enumerate(lines, start=1):
            self.text(EDGE, EDGE + self.look.size + self.look.line * number, line, colour=self.look.pale)
        return float(self.look.line * len(lines))

    def marks(self, marks: Sequence[Mark], x: float, y: float, cell: float) -> None:
        """Draw gold links as squares around cells, solid or dashed, on a rim that shows on any colour."""
        paper, thick = THEMES[self.look.theme].background, min(2.0, cell / 6)
        for mark in marks:
            (top, bottom), (left, right) = mark.rows, mark.columns
            box = (
                f'x="{x + cell * left + thick:g}" y="{y + cell * top + thick:g}" '
                f'width="{cell * (right - left) - 2 * thick:g}" '
                f'height="{cell * (bottom - top) - 2 * thick:g}" fill="none"'
            )
            dashes = "" if mark.sure else f' stroke-dasharray="{1.5 * thick:g} {thick:g}"'
            self.parts.append(
                f'<rect {box} stroke="{paper}" stroke-width="{2 * thick:g}"/>'
                f'<rect {box} stroke="{self.look.ink}" stroke-width="{thick:g}"{dashes}>'
                f"<title>{mark.name}</title></rect>"
            )

    def width(self, label: str) -> float:
        """Estimate how wide a label is: a page can measure it, a file can't."""
        return self.look.size * sum(1 if ord(character) > 0x2E7F else 0.6 for character in label)

    def frame(self, x: float, y: float, wide: float, high: float, *, dashed: bool = False) -> None:
        dashes = ' stroke-dasharray="3 3"' if dashed else ""
        self.parts.append(
            f'<rect x="{x:g}" y="{y:g}" width="{wide:g}" height="{high:g}" fill="none" stroke="{_FRAME}" '
            f'stroke-width="0.5"{dashes}/>'
        )

    def cells(self, rows: Rows, x: float, y: float, wide: float, high: float) -> None:
        """Draw the cells of a map, one path for each colour, runs of one colour as one."""
        # Neighbours have the very same edge: otherwise the paper shows between them.
        across = [f"{x + wide * place:.8g}" for place in range(rows.shape[1] + 1)]
        down = [f"{y + high * place:.8g}" for place in range(rows.shape[0] + 1)]
        paths: dict[int, list[str]] = {}
        ramp = self.look.ramp
        for place, row in enumerate(find_levels(rows)):
            ends = np.flatnonzero(np.diff(row)) + 1
            for start, stop in zip([0, *ends], [*ends, len(row)], strict=True):
                if level := int(row[start]):  # that of nothing is the paper's own
                    left, right = across[start], across[stop]
                    path = f"M{left} {down[place]}H{right}V{down[place + 1]}H{left}z"
                    paths.setdefault(level, []).append(path)
        self.parts += [
            f'<path d="{"".join(path)}" fill="{mix_colour(level, ramp)}" shape-rendering="crispEdges"/>'
            for level, path in sorted(paths.items())
        ]

    def scale(self, x: float, y: float) -> float:
        """Draw which colour is how much; returns how wide that is."""
        wide = _STEP
        for place, mark in enumerate(_SCALE):
            shade = mix_colour(int(find_levels(np.array(mark))), self.look.ramp)
            self.parts.append(
                f'<rect x="{x + wide * place:g}" y="{y:g}" width="{wide}" height="10" fill="{shade}" '
                f'stroke="{_FRAME}" stroke-width="0.5"/>'
            )
            self.text(x + wide * (place + 0.5), y + 24, f"{mark:g}", "middle", self.look.pale)
        return wide * len(_SCALE)

    def svg(self, width: float, height: float, title: str) -> str:
        size = f'width="{width:.0f}" height="{height:.0f}" viewBox="0 0 {width:.0f} {height:.0f}"'
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" font-family="{FONT}" '
            f'font-size="{self.look.size}"><title>{escape(title)}</title>'
            f'<rect width="100%" height="100%" fill="{THEMES[self.look.theme].background}"/>'
            f"{''.join(self.parts)}</svg>\n"
        )
