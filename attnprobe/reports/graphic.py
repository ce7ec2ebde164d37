"""Attention as a vector graphic: lines between two columns of tokens, a map, or all heads side by side."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from attnprobe.reports.pen import EDGE, LIGHT, SCALE, STEP, Look, Pen, Rows, cut_label
from attnprobe.reports.view import (
    Start,
    add_rollout,
    encode_image,
    find_query,
    make_visible,
    select_tokens,
    shrink_maps,
)
from attnprobe.reports.view_alignment import (
    Mark,
    explain_hits,
    find_second_text,
    place_marks,
    state_finding,
    tell_rates,
)
from attnprobe.table.sequence import Maps, SequenceAttention, Side, group_tokens

#: Pixels between two columns of tokens, and between which they stay where a width is given.
_BETWEEN, _CLOSEST = 200, 70
#: Lines of less attention are left out.
FAINTEST = 0.01
#: Shades that lines have.
SHADES = 20
#: Cells of a small map on either side; its least and usual size in pixels, and the room between two of them.
_CELLS, _SMALLEST, _SMALL, _GAP = 24, 10, 44, 6
#: Pixels that prose has at least where nobody gives a width.
_PROSE = 420


class Panel(NamedTuple):
    """One head, as it is drawn: attention (query, key), and the labels of both.

    ``parts`` are the row and the column at which a second text begins; 0 where there is none.
    """

    title: str
    rows: Rows
    queries: Sequence[str]
    keys: Sequence[str]
    marks: Sequence[Mark] = ()
    notes: Sequence[str] = ()  # lines below the title
    parts: tuple[int, int] = (0, 0)


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
    first, second = (
        find_second_text(side, some, words=start.words)
        for side, some in ((maps.queries, queries), (maps.keys, keys))
    )
    parts = (first, second) if maps.queries is maps.keys else (0, 0)
    head = None if rolled else (start.layer, start.head)
    marks = place_marks(maps, queries, keys, words=start.words, head=head)
    notes = list[str]()
    if maps.alignment is not None and head is not None:
        lines = any(parts) and start.draw == "map"
        said = explain_hits(maps) + " Lines part the first text from the second." * lines
        notes = [f"{title}.", *(tell_rates(way, *head) for way in maps.alignment.ways), said]
        title = state_finding(maps, *head, several=len(seen.maps) > 1)
    panel = Panel(title, rows[queries][:, keys], left, right, marks, notes, parts)
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
    """Draw lines from each token to those it attends to; more attention is a darker and thicker line."""
    pen, line = Pen(look), look.line
    left, right = (list(map(cut_label, labels)) for labels in (panel.queries, panel.keys))
    first, last = (max(map(pen.width, labels), default=0) for labels in (left, right))
    around = 2 * EDGE + first + last + 16
    between = _BETWEEN if width is None else max(_CLOSEST, width - around)
    start = EDGE + first + 8
    stop = start + between
    wide = max(around + between, _fit_prose(pen, panel, width))
    top = pen.prose(panel.title, panel.notes, wide)
    top = pen.legend(panel.marks, top, wide, bands=True) + line + 6
    pen.text(start - 8, top - line - 6 + look.size, "from", "end", look.pale)
    pen.text(stop + 8, top - line - 6 + look.size, "to", "start", look.pale)
    for mark in panel.marks:
        begin, end = (top + line * (one + other) / 2 for one, other in (mark.rows, mark.columns))
        pen.band(mark, (start, begin), (stop, end))
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
    """Draw a map: a row for each token that attends, a column for each that it attends to."""
    pen = Pen(look)
    left, above = (list(map(cut_label, labels)) for labels in (panel.queries, panel.keys))
    cell, label = float(look.line - 4), float(look.size)
    first, tall = (max(map(pen.width, labels), default=0) for labels in (left, above))
    if width is not None:  # labels that shrink with the cells leave them more room
        cell = max(3.0, (width - 2 * EDGE - 8 - first) / len(above))
        if cell < label + 2:
            share = first / look.size  # a label's width for each pixel of its size
            cell = max(3.0, (width - 2 * EDGE - 8 + 2 * share) / (len(above) + share))
    elif panel.notes:  # room for the name of the queries
        first = max(first, pen.width("query"))
    label = min(label, max(1.0, cell - 2))
    first, tall = first * label / look.size, tall * label / look.size
    x, wide, high = EDGE + first + 8, cell * len(above), cell * len(left)
    full = max(x + wide + EDGE, x + STEP * len(SCALE) + EDGE, _fit_prose(pen, panel, width))
    if width is None:  # room for the name of the keys
        full = max(full, x + wide + 4 + pen.width("key") + EDGE)
    y = pen.prose(panel.title, panel.notes, full)
    y = pen.legend(panel.marks, y, full, bands=False) + tall + 8
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
    if panel.parts[0]:
        pen.part(x - 6, y + cell * panel.parts[0], 6 + wide, 0)
    if panel.parts[1]:
        pen.part(x + cell * panel.parts[1], y - 6, 0, 6 + high)
    for mark in panel.marks:
        pen.square(mark, x, y, cell)
    pen.scale(x, y + high + 12)
    return pen.svg(full, y + high + 48 + EDGE, panel.title)


def _fit_prose(pen: Pen, panel: Panel, width: int | None) -> float:
    """Tell how wide a panel is at least so that its title can be read: notes take what room there is."""
    wide = pen.width(panel.title) + 2 * EDGE
    return min(wide, _PROSE if width is None else width) if panel.notes else wide


def draw_all_heads(title: str, blocks: Sequence[Block], look: Look = LIGHT, width: int | None = None) -> str:
    """Draw a small map of every head, layers from top to bottom; with a width, the maps give way."""
    pen, gap = Pen(look), _GAP
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
    pen = Pen(look)
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
