"""Attention as a vector graphic: lines between two columns of tokens, a map, or all heads side by side."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnprobe.reports.view.colours import LEVELS, colour, levels
from attnprobe.reports.view.labels import cut

Rows = NDArray[np.floating[Any]]

FONT = "Helvetica, Arial, 'Liberation Sans', 'DejaVu Sans', sans-serif"
SIZE, LINE, BETWEEN, EDGE = 13, 20, 200, 10
INK, PALE = "#1a1a1a", "#666666"
#: Lines of less attention are left out.
FAINTEST = 0.01
#: Shades that lines have.
SHADES = 20


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


def lines(panel: Panel) -> str:
    """Draw lines from each token to those it attends to; more attention is a darker line."""
    left, right = ([cut(label) for label in labels] for labels in (panel.queries, panel.keys))
    first, last = (max(map(_width, labels), default=0) for labels in (left, right))
    top = EDGE + 2 * LINE + 6
    start, stop = EDGE + first + 8, EDGE + first + 8 + BETWEEN
    width, height = stop + 8 + last + EDGE, top + max(len(left), len(right)) * LINE + EDGE
    parts = [_text(EDGE, EDGE + SIZE, panel.title, weight="bold")]
    parts += [
        _text(start - 8, EDGE + LINE + SIZE, "from", "end", PALE),
        _text(stop + 8, EDGE + LINE + SIZE, "to", "start", PALE),
    ]
    shades = np.ceil(panel.rows * SHADES).astype(int)
    shown = panel.rows >= FAINTEST
    for shade in range(1, SHADES + 1):
        ends = np.argwhere(shown & (shades == shade))
        if len(ends):
            path = "".join(
                f"M{start:g} {_middle(top, query):g}L{stop:g} {_middle(top, key):g}" for query, key in ends
            )
            parts.append(
                f'<path d="{path}" fill="none" stroke="{colour(LEVELS)}" stroke-width="1.6" '
                f'stroke-opacity="{shade / SHADES:g}"/>'
            )
    parts += [_text(start - 8, top + LINE * n + 14, one, "end") for n, one in enumerate(left)]
    parts += [_text(stop + 8, top + LINE * n + 14, one) for n, one in enumerate(right)]
    return _svg(width, height, parts, panel.title)


def heat_map(panel: Panel) -> str:
    """Draw a map: a row for each token that attends, a column for each that it attends to."""
    left, above = ([cut(label) for label in labels] for labels in (panel.queries, panel.keys))
    cell = LINE - 4
    first, tall = (max(map(_width, labels), default=0) for labels in (left, above))
    x, y = EDGE + first + 8, EDGE + LINE + tall + 8
    wide, high = cell * len(above), cell * len(left)
    parts = [_text(EDGE, EDGE + SIZE, panel.title, weight="bold")]
    parts += cells(panel.rows, x, y, cell, cell)
    parts.append(
        f'<rect x="{x:g}" y="{y:g}" width="{wide:g}" height="{high:g}" fill="none" stroke="#999999" '
        'stroke-width="0.5"/>'
    )
    parts += [_text(x - 6, y + cell * n + 12, one, "end") for n, one in enumerate(left)]
    parts += [
        f'<g transform="translate({x + cell * n + 12:g} {y - 6:g}) rotate(-90)">{_text(0, 0, one)}</g>'
        for n, one in enumerate(above)
    ]
    scale, at = _scale(x, y + high + 12)
    width = max(x + wide, x + at, EDGE + _width(panel.title)) + EDGE
    return _svg(width, y + high + 48 + EDGE, [*parts, *scale], panel.title)


def all_heads(
    title: str, blocks: Sequence[tuple[str, Sequence[str], Sequence[Sequence[Rows | None]]]]
) -> str:
    """Draw a small map of every head, layers from top to bottom.

    Args:
        title: What it is.
        blocks: For each kind of attention its name, the names of its layers, and its maps by layer and head;
            None for a head that was removed.
    """
    size, gap, indent = 44, 6, 64
    most = max((len(row) for _, _, grid in blocks for row in grid), default=0)
    parts, y = [_text(EDGE, EDGE + SIZE, title, weight="bold")], EDGE + 2 * LINE
    for name, layers, grid in blocks:
        parts.append(_text(EDGE, y + SIZE, name, colour=PALE))
        parts += [
            _text(indent + (size + gap) * head + size / 2, y + SIZE, str(head), "middle", PALE)
            for head in range(len(grid[0]))
        ]
        y += LINE
        for layer, row in zip(layers, grid, strict=True):
            parts.append(_text(indent - 8, y + size / 2 + 4, layer, "end", PALE))
            for head, rows in enumerate(row):
                x = indent + (size + gap) * head
                if rows is not None:
                    parts += cells(rows, x, y, size / rows.shape[1], size / rows.shape[0])
                dashes = "" if rows is not None else ' stroke-dasharray="3 3"'
                parts.append(
                    f'<rect x="{x:g}" y="{y:g}" width="{size}" height="{size}" fill="none" stroke="#999999" '
                    f'stroke-width="0.5"{dashes}/>'
                )
            y += size + gap
        y += LINE / 2
    scale, at = _scale(indent, y)
    width = max(indent + (size + gap) * most, indent + at, EDGE + _width(title)) + EDGE
    return _svg(width, y + 36 + EDGE, [*parts, *scale], title)


def beside_image(title: str, whose: str, patches: Rows, address: str, size: tuple[int, int]) -> str:
    """Draw an image, and beside it what each of its patches gets, as a share of the most.

    Args:
        title: What it is.
        whose: Who attends.
        patches: Attention (row, column).
        address: The image, as an address of its own.
        size: Its height and width.
    """
    wide = 260
    high = wide * size[0] / size[1]
    top, x = EDGE + 2 * LINE, EDGE + wide + 20
    most = float(patches.max()) or 1.0
    rows, columns = patches.shape
    parts = [
        _text(EDGE, EDGE + SIZE, title, weight="bold"),
        _text(EDGE, EDGE + LINE + SIZE, f"{whose}; the darkest patch gets {most:.4f}", colour=PALE),
        f'<image x="{EDGE}" y="{top}" width="{wide}" height="{high:g}" preserveAspectRatio="none" '
        f'href="{address}"/>',
        *cells(patches / most, x, top, wide / columns, high / rows),
        f'<rect x="{x}" y="{top}" width="{wide}" height="{high:g}" fill="none" stroke="#999999" '
        'stroke-width="0.5"/>',
    ]
    return _svg(x + wide + EDGE, top + high + EDGE, parts, title)


def cells(rows: Rows, x: float, y: float, wide: float, high: float) -> list[str]:
    """Draw the cells of a map, one path for each colour, runs of one colour as one."""
    shades = levels(rows)
    paths: dict[int, list[str]] = {}
    for place, row in enumerate(shades):
        ends = np.flatnonzero(np.diff(row)) + 1
        for start, stop in zip([0, *ends], [*ends, len(row)], strict=True):
            if level := int(row[start]):  # the lightest is the paper's own
                paths.setdefault(level, []).append(
                    f"M{x + wide * start:.6g} {y + high * place:.6g}h{wide * (stop - start):.6g}v{high:.6g}"
                    f"h{-wide * (stop - start):.6g}z"
                )
    return [
        f'<path d="{"".join(path)}" fill="{colour(level)}" shape-rendering="crispEdges"/>'
        for level, path in sorted(paths.items())
    ]


def _scale(x: float, y: float) -> tuple[list[str], float]:
    """Draw which colour is how much."""
    marks = (0, 0.01, 0.05, 0.1, 0.25, 0.5, 1)
    wide = 34
    parts = []
    for place, mark in enumerate(marks):
        shade = colour(int(levels(np.array(mark))))
        parts.append(
            f'<rect x="{x + wide * place:g}" y="{y:g}" width="{wide}" height="10" fill="{shade}" '
            'stroke="#999999" stroke-width="0.5"/>'
        )
        parts.append(_text(x + wide * (place + 0.5), y + 24, f"{mark:g}", "middle", PALE))
    return parts, wide * len(marks)


def _middle(top: float, place: int) -> float:
    return top + LINE * place + LINE / 2


def _text(
    x: float, y: float, text: str, anchor: str = "start", colour: str = INK, weight: str = "normal"
) -> str:
    bold = "" if weight == "normal" else f' font-weight="{weight}"'
    return f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}" fill="{colour}"{bold}>{escape(text)}</text>'


def _width(label: str) -> float:
    """Estimate how wide a label is: a page can measure it, a file can't."""
    return sum(SIZE if ord(character) > 0x2E7F else 0.6 * SIZE for character in label)


def _svg(width: float, height: float, parts: Sequence[str], title: str) -> str:
    size = f'width="{width:.0f}" height="{height:.0f}" viewBox="0 0 {width:.0f} {height:.0f}"'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" font-family="{FONT}" '
        f'font-size="{SIZE}"><title>{escape(title)}</title>'
        f'<rect width="100%" height="100%" fill="#ffffff"/>{"".join(parts)}</svg>\n'
    )
