"""Attention as a graphic: lines between two columns of tokens, a map, or all heads side by side."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnprobe.reports.view.colours import LIGHT, Look, colour, levels
from attnprobe.reports.view.labels import cut

Rows = NDArray[np.floating[Any]]

FONT = "Helvetica, Arial, 'Liberation Sans', 'DejaVu Sans', sans-serif"
EDGE = 10
#: Pixels between two columns of tokens, and between which they stay where a width is asked for.
_BETWEEN, _CLOSEST = 200, 70
#: Lines of less attention are left out.
FAINTEST = 0.01
#: Shades that lines have.
SHADES = 20
#: Least and usual size of a small map, and the room between two of them.
_SMALLEST, _SMALL, _GAP = 10, 44, 6
_FRAME = "#999999"


@dataclass(frozen=True)
class Panel:
    """One head, as it is drawn.

    Attributes:
        title: What it is.
        rows: Attention (query, key).
        queries: Labels of the tokens that attend.
        keys: Labels of those they attend to.
    """

    title: str
    rows: Rows
    queries: Sequence[str]
    keys: Sequence[str]


def lines(panel: Panel, look: Look = LIGHT, width: int | None = None) -> str:
    """Draw lines from each token to those it attends to; more attention is a darker and thicker line.

    Args:
        panel: The head.
        look: Its colours and sizes.
        width: About how wide the graphic is; the labels keep their size, the lines give way.
    """
    pen, line = _Pen(look), look.line
    left, right = ([cut(label) for label in labels] for labels in (panel.queries, panel.keys))
    first, last = (max(map(pen.width, labels), default=0) for labels in (left, right))
    around = 2 * EDGE + first + last + 16
    between = _BETWEEN if width is None else max(_CLOSEST, width - around)
    top = EDGE + 2 * line + 6
    start = EDGE + first + 8
    stop = start + between
    pen.text(EDGE, EDGE + look.size, panel.title, weight="bold")
    pen.text(start - 8, EDGE + line + look.size, "from", "end", look.pale)
    pen.text(stop + 8, EDGE + line + look.size, "to", "start", look.pale)
    shades = np.ceil(panel.rows * SHADES).astype(int)
    shown = panel.rows >= FAINTEST
    middle = [f"{top + line * (place + 0.5):g}" for place in range(max(len(left), len(right)))]
    for shade in range(1, SHADES + 1):
        ends = np.argwhere(shown & (shades == shade))
        if len(ends):
            path = "".join(f"M{start:g} {middle[query]}L{stop:g} {middle[key]}" for query, key in ends)
            pen.parts.append(
                f'<path d="{path}" fill="none" stroke="{look.stroke}" stroke-width="{_thickness(shade):.1f}" '
                f'stroke-opacity="{shade / SHADES:g}"/>'
            )
    base = line / 2 + 0.3 * look.size
    for n, one in enumerate(left):
        pen.text(start - 8, top + line * n + base, one, "end")
    for n, one in enumerate(right):
        pen.text(stop + 8, top + line * n + base, one)
    wide = max(around + between, 2 * EDGE + pen.width(panel.title))
    return pen.svg(wide, top + len(middle) * line + EDGE, panel.title)


def heat_map(panel: Panel, look: Look = LIGHT, width: int | None = None) -> str:
    """Draw a map: a row for each token that attends, a column for each that it attends to.

    Args:
        panel: The head.
        look: Its colours and sizes.
        width: About how wide the graphic is; the cells give way, and labels where cells are smaller.
    """
    pen = _Pen(look)
    left, above = ([cut(label) for label in labels] for labels in (panel.queries, panel.keys))
    cell, label = float(look.line - 4), float(look.size)
    first, tall = (max(map(pen.width, labels), default=0) for labels in (left, above))
    if width is not None:  # labels that shrink with the cells leave them more room
        cell = max(3.0, (width - 2 * EDGE - 8 - first) / len(above))
        if cell < label + 2:
            share = first / look.size  # a label's width for each pixel of its size
            cell = max(3.0, (width - 2 * EDGE - 8 + 2 * share) / (len(above) + share))
    label = min(label, max(1.0, cell - 2))
    first, tall = first * label / look.size, tall * label / look.size
    x, y = EDGE + first + 8, EDGE + look.line + tall + 8
    wide, high = cell * len(above), cell * len(left)
    pen.text(EDGE, EDGE + look.size, panel.title, weight="bold")
    pen.cells(panel.rows, x, y, cell, cell)
    pen.frame(x, y, wide, high)
    base = cell / 2 + 0.3 * label
    for n, one in enumerate(left):
        pen.text(x - 6, y + cell * n + base, one, "end", size=label)
    for n, one in enumerate(above):
        pen.parts.append(f'<g transform="translate({x + cell * n + base:g} {y - 6:g}) rotate(-90)">')
        pen.text(0, 0, one, size=label)
        pen.parts.append("</g>")
    at = pen.scale(x, y + high + 12)
    full = max(x + wide, x + at, EDGE + pen.width(panel.title)) + EDGE
    return pen.svg(full, y + high + 48 + EDGE, panel.title)


@dataclass(frozen=True)
class Block:
    """The heads of one kind of attention.

    Attributes:
        name: Of the kind.
        layers: Their names.
        heads: Their names, which rollout may be behind.
        maps: Small maps by layer and head; None for a head that was removed.
    """

    name: str
    layers: Sequence[str]
    heads: Sequence[str]
    maps: Sequence[Sequence[Rows | None]]


def all_heads(
    title: str,
    blocks: Sequence["Block"],
    look: Look = LIGHT,
    width: int | None = None,
) -> str:
    """Draw a small map of every head, layers from top to bottom.

    Args:
        title: What it is.
        blocks: The kinds of attention.
        look: Its colours and sizes.
        width: About how wide the graphic is; the small maps give way.
    """
    pen, gap = _Pen(look), _GAP
    indent = EDGE + max(pen.width(block.name) for block in blocks) + 14
    most = max(len(block.heads) for block in blocks)
    size = float(_SMALL)
    if width is not None:
        size = max(_SMALLEST, (width - indent - EDGE + gap) / most - gap)
    pen.text(EDGE, EDGE + look.size, title, weight="bold")
    y, end = float(EDGE + 2 * look.line), 0.0
    for block in blocks:
        pen.text(EDGE, y + look.size, block.name, colour=look.pale)
        end = 0.0
        for head, name in enumerate(block.heads):
            left, wide = indent + (size + gap) * head, pen.width(name)
            at = (
                left + (size - wide) / 2 if name.isdigit() else max(left + min(0.0, size - wide) / 2, end + 4)
            )
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


def beside_image(
    title: str,
    whose: str,
    patches: Rows,
    address: str,
    size: tuple[int, int],
    look: Look = LIGHT,
    width: int | None = None,
) -> str:
    """Draw an image, and beside it what each of its patches gets, as a share of the most.

    Args:
        title: What it is.
        whose: Who attends.
        patches: Attention (row, column).
        address: The image, as an address of its own.
        size: Its height and width.
        look: Its colours and sizes.
        width: About how wide the graphic is.
    """
    pen = _Pen(look)
    wide = 260.0 if width is None else (width - 2 * EDGE - 20) / 2
    high = wide * size[0] / size[1]
    top, x = EDGE + 2 * look.line, EDGE + wide + 20
    most = float(patches.max()) or 1.0
    rows, columns = patches.shape
    said = f"{whose}; the most that a patch gets is {most:.4f}"
    pen.text(EDGE, EDGE + look.size, title, weight="bold")
    pen.text(EDGE, EDGE + look.line + look.size, said, colour=look.pale)
    pen.parts.append(
        f'<image x="{EDGE}" y="{top}" width="{wide:g}" height="{high:g}" preserveAspectRatio="none" '
        f'href="{address}"/>'
    )
    pen.cells(patches / most, x, top, wide / columns, high / rows)
    pen.frame(x, top, wide, high)
    return pen.svg(max(x + wide, EDGE + pen.width(said)) + EDGE, top + high + EDGE, title)


class _Pen:
    """Collects the parts of a graphic."""

    def __init__(self, look: Look) -> None:
        self.look, self.parts = look, list[str]()

    def text(
        self,
        x: float,
        y: float,
        text: str,
        anchor: str = "start",
        colour: str | None = None,
        weight: str = "normal",
        size: float | None = None,
    ) -> None:
        bold = "" if weight == "normal" else f' font-weight="{weight}"'
        small = "" if size in (None, self.look.size) else f' font-size="{size:g}"'
        self.parts.append(
            f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}" fill="{colour or self.look.ink}"{small}{bold}>'
            f"{escape(text)}</text>"
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
        shades = levels(rows)
        # Neighbours have the very same edge: otherwise the paper shows between them.
        across = [f"{x + wide * place:.8g}" for place in range(rows.shape[1] + 1)]
        down = [f"{y + high * place:.8g}" for place in range(rows.shape[0] + 1)]
        paths: dict[int, list[str]] = {}
        for place, row in enumerate(shades):
            ends = np.flatnonzero(np.diff(row)) + 1
            for start, stop in zip([0, *ends], [*ends, len(row)], strict=True):
                if level := int(row[start]):  # that of nothing is the paper's own
                    left, right = across[start], across[stop]
                    paths.setdefault(level, []).append(
                        f"M{left} {down[place]}H{right}V{down[place + 1]}H{left}z"
                    )
        self.parts += [
            f'<path d="{"".join(path)}" fill="{colour(level, self.look.ramp)}" shape-rendering="crispEdges"/>'
            for level, path in sorted(paths.items())
        ]

    def scale(self, x: float, y: float) -> float:
        """Draw which colour is how much, and give how wide that is."""
        marks = (0, 0.01, 0.05, 0.1, 0.25, 0.5, 1)
        wide = 34
        for place, mark in enumerate(marks):
            shade = colour(int(levels(np.array(mark))), self.look.ramp)
            self.parts.append(
                f'<rect x="{x + wide * place:g}" y="{y:g}" width="{wide}" height="10" fill="{shade}" '
                f'stroke="{_FRAME}" stroke-width="0.5"/>'
            )
            self.text(x + wide * (place + 0.5), y + 24, f"{mark:g}", "middle", self.look.pale)
        return wide * len(marks)

    def svg(self, width: float, height: float, title: str) -> str:
        size = f'width="{width:.0f}" height="{height:.0f}" viewBox="0 0 {width:.0f} {height:.0f}"'
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" font-family="{FONT}" '
            f'font-size="{self.look.size}"><title>{escape(title)}</title>'
            f'<rect width="100%" height="100%" fill="{self.look.paper}"/>{"".join(self.parts)}</svg>\n'
        )


def _thickness(shade: int) -> float:
    """Little attention has a thin line; a page draws the same."""
    return 0.8 + max(0, shade - 4) * 0.1
