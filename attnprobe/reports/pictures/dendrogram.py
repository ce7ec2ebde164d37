"""Heads as a tree: those that attend alike join first."""

from textwrap import wrap
from typing import Any

import altair as alt
import numpy as np

from attnprobe.reports.pictures.asked import Asked
from attnprobe.reports.pictures.clusters import Clusters, of_table
from attnprobe.reports.pictures.layers import layer_colour
from attnprobe.reports.pictures.pairs import SQUARED, head_name, pairs_of
from attnprobe.reports.pictures.rows import Record, ordered
from attnprobe.reports.pictures.theme import Theme
from attnprobe.table.head_table import HeadTable

#: Pixels for a head; fewer where there are many, and no names below ``_NAMED``.
_HIGH, _NAMED = 13, 8


def fits(table: HeadTable) -> bool:
    """Tell whether a table holds divergences of all pairs of heads."""
    if SQUARED not in table.data:
        return False
    pairs = pairs_of(table)
    return pairs is not None and not pairs.within


def draw(table: HeadTable, asked: Asked) -> Any:
    """Draw the tree of average linkage on roots of divergences, with its clusters; see ``clusters``."""
    trees = [_tree(one, place, asked) for place, one in of_table(table, asked)]
    return trees[0] if len(trees) == 1 else alt.vconcat(*trees)


def _tree(found: Clusters, place: str, asked: Asked) -> Any:
    theme, heads = asked.theme, [found.found.heads[leaf] for leaf in found.leaves]
    high = int(np.clip(900 / len(heads), 3, _HIGH))
    named, letters = high >= _NAMED, min(high, theme.size - 1)
    beside = 13 + named * (8 + 0.58 * letters * max(len(head_name(head)) for head in heads))
    width = max(160, int(asked.width - 110 - beside))
    y = alt.Y("row:Q", axis=None, scale=alt.Scale(domain=[len(heads) - 0.5, -0.5], nice=False))
    base = alt.Chart(alt.InlineData(values=_leaves(found))).encode(y=y, x=alt.value("width"))
    tiles = base.mark_square(size=min(high, 11) ** 2, xOffset=8, opacity=1).encode(
        color=layer_colour(ordered(head[0] for head in heads), theme),
        tooltip=[
            *(alt.Tooltip(f"{name}:O", title=name) for name in ("layer", "head")),
            alt.Tooltip("cluster:N", title="cluster"),
            alt.Tooltip("mean:Q", title="mean distance in it", format=".4~g"),
        ],
    )
    parts: list[Any] = [*_lines(found, y, asked), tiles]
    if named:
        names = base.mark_text(align="left", dx=17, fontSize=letters, color=theme.ink)
        parts.append(names.encode(text="name:N"))
    parts += _brackets(found, y, width + beside, high, asked)
    title = alt.TitleParams(place or "similar heads join first", subtitle=_said(found, width + beside, theme))
    return alt.layer(*parts).properties(width=width, height=high * len(heads), title=title)


def _leaves(found: Clusters) -> list[Record]:
    means = found.mean_distances()
    return [
        {
            "name": head_name(head),
            "layer": head[0],
            "head": head[1],
            "row": row,
            "cluster": "on its own" if number is None else str(number),
            "mean": means[leaf],
        }
        for row, leaf in enumerate(found.leaves)
        for head, number in [(found.found.heads[leaf], found.numbers[leaf])]
    ]


def _lines(found: Clusters, y: Any, asked: Asked) -> list[Any]:
    """Draw the tree; neighbouring clusters have colours that differ, and what joins them has none."""
    from scipy.cluster.hierarchy import dendrogram

    heads = len(found.found.heads)
    # scipy draws leaves at 5, 15, 25, ..., and asks for the colour of each join by its number.
    tree = dendrogram(found.joined, no_plot=True, link_color_func=str)
    links: dict[str, list[Record]] = {}
    joins = zip(tree["icoord"], tree["dcoord"], tree["color_list"], strict=True)
    for link, (rows, ends, join) in enumerate(joins):
        number = found.numbers[_some_head(found, int(join) - heads)]
        within = max(ends) <= found.height and number is not None
        links.setdefault(_colour(number if within else None, asked), []).extend(
            {"link": link, "step": step, "distance": float(distance), "row": (float(row) - 5) / 10}
            for step, (row, distance) in enumerate(zip(rows, ends, strict=True))
        )
    top = float(found.joined[-1, 2]) * 1.02 or 1.0
    scale = alt.Scale(domain=[top, 0], nice=False)
    x = alt.X("distance:Q", title=found.found.name, scale=scale, axis=alt.Axis(grid=False, tickCount=6))
    cut = alt.Chart(alt.InlineData(values=[{"distance": found.height}]))
    return [
        cut.mark_rule(strokeDash=[4, 3], color=asked.theme.muted).encode(x=x),
        *(
            alt.Chart(alt.InlineData(values=some))
            .mark_line(strokeWidth=1.2, strokeJoin="miter", color=colour)
            .encode(x=x, y=y, detail="link:N", order="step:Q")
            for colour, some in links.items()
        ),
    ]


def _colour(number: int | None, asked: Asked) -> str:
    """Choose a colour for a cluster; a scale would be shared with the colours of layers."""
    return asked.theme.muted if number is None else asked.theme.categories[number % 2]


def _some_head(found: Clusters, join: int) -> int:
    """Give a head below a join."""
    heads = len(found.found.heads)
    while (below := int(found.joined[join, 0])) >= heads:
        join = below - heads
    return below


def _brackets(found: Clusters, y: Any, at: float, high: int, asked: Asked) -> list[Any]:
    """Draw a bracket beside each cluster, with its number where there is room."""
    rows: dict[int, list[int]] = {}
    for row, leaf in enumerate(found.leaves):
        if (number := found.numbers[leaf]) is not None:
            rows.setdefault(number, []).append(row)
    brackets = []
    for parity in (1, 0):
        data: list[Record] = [
            {
                "row": min(of) - 0.35,
                "end": max(of) + 0.35,
                "middle": (min(of) + max(of)) / 2,
                "number": str(number) if len(of) * high >= asked.theme.size - 2 else "",
            }
            for number, of in rows.items()
            if number % 2 == parity
        ]
        base, colour = alt.Chart(alt.InlineData(values=data)), _colour(parity, asked)
        brackets += [
            base.mark_rule(strokeWidth=2, color=colour).encode(x=alt.value(at), y=y, y2="end:Q"),
            base.mark_text(align="left", dx=5, fontSize=asked.theme.size - 1, color=colour).encode(
                x=alt.value(at), y=alt.Y("middle:Q", axis=None), text="number:N"
            ),
        ]
    return brackets


def _said(found: Clusters, width: float, theme: Theme) -> list[str]:
    """Say how many heads there are, and where the tree is cut, in lines that fit."""
    said = f"average linkage, {len(found.leaves)} heads; {found.sentence()}"
    return wrap(said, max(30, int(width / (0.5 * theme.size))))
