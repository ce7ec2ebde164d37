"""Heads on a map: near where they attend alike (Clark et al. 2019, figure 6); and each layer's spread."""

from itertools import groupby
from typing import Any

import altair as alt
import numpy as np

from attnprobe.reports.pictures.asked import Asked
from attnprobe.reports.pictures.grid import thinned
from attnprobe.reports.pictures.layers import layer_colour
from attnprobe.reports.pictures.pairs import (
    SQUARED,
    Distances,
    Pairs,
    distances,
    has_distances,
    head_name,
    pairs_of,
)
from attnprobe.reports.pictures.rows import Record, axis_of, name_of, numbers, ordered, tip
from attnprobe.reports.pictures.scaling import Map, scaled
from attnprobe.table.head_table import HeadTable

#: More pairs than this within layers are not drawn one by one beside the means.
_MOST_PAIRS = 6000
#: Narrower pictures have the map above the spread.
_BESIDE = 480
#: Room around the points, as a share of their extent.
_ROOM = 0.08


def fits(table: HeadTable) -> bool:
    """Tell whether a table holds divergences of pairs of heads."""
    return has_distances(table)


def draw(table: HeadTable, asked: Asked) -> Any:
    """Draw a map for all pairs; or, of pairs within layers, one for each layer.

    Beside the map of all heads, the divergence of every pair within a layer against the layer, with the mean:
    do heads of a layer become more alike with depth?
    """
    pairs = pairs_of(table)
    assert pairs is not None  # or the table would not fit
    if pairs.within:
        return _layer_by_layer(table, pairs, asked)
    rows = [_both(table, pairs, place, asked) for place in pairs.maps]
    return rows[0] if len(rows) == 1 else alt.vconcat(*rows)


def _both(table: HeadTable, pairs: Pairs, place: str, asked: Asked) -> Any:
    rows = [row for row, of in enumerate(pairs.of) if of == place]
    found = distances(table, rows, pairs, asked)
    narrow = asked.width < _BESIDE
    side = int(max(140, asked.width - 90) if narrow else min(420, asked.width * 0.48))
    flat = scaled(found.matrix)
    plot = _map(found, flat, _reach(flat), side, place, asked, legend=True)
    within = [row for row in rows if pairs.one[row][0] == pairs.other[row][0]]
    if not within:
        return plot
    if narrow:
        return alt.vconcat(plot, _depth(table, pairs, within, side, side, asked))
    depth = _depth(table, pairs, within, max(120, int(asked.width - side - 150)), side, asked)
    return alt.hconcat(plot, depth, spacing=24).resolve_legend(color="independent")


def _map(
    found: Distances, flat: Map, reach: float, side: int, place: str, asked: Asked, *, legend: bool
) -> Any:
    data: list[Record] = [
        {"layer": head[0], "head": head[1], "name": head_name(head), "x": float(x), "y": float(y)}
        for head, (x, y) in zip(found.heads, flat.points, strict=True)
    ]
    middle = (flat.points.max(0) + flat.points.min(0)) / 2
    scales = [alt.Scale(domain=[float(m - reach), float(m + reach)], nice=False) for m in middle]
    said = [
        f"stress {flat.stress:.2f} (Kruskal's stress-1), {len(found.heads)} heads"
        if legend
        else f"stress {flat.stress:.2f}"
    ]
    if found.left_out:
        said.append(f"without {', '.join(map(head_name, found.left_out[:4]))}: no distance")
    base = alt.Chart(alt.InlineData(values=data)).encode(
        x=alt.X("x:Q", axis=None, scale=scales[0]), y=alt.Y("y:Q", axis=None, scale=scales[1])
    )
    layers = ordered(head[0] for head in found.heads)
    points = base.mark_point(
        filled=True,
        size=70 if side > 250 else 40,
        opacity=0.9,
        stroke=asked.theme.background,
        strokeWidth=0.6,
    ).encode(
        color=layer_colour(layers, asked.theme) if legend else alt.value(asked.theme.ink),
        tooltip=[
            alt.Tooltip("layer:O", title="layer"),
            alt.Tooltip("head:O", title="head"),
        ],
    )
    parts = [points]
    if len(found.heads) <= 48:
        parts.append(
            base.mark_text(
                dy=-9 if side > 250 else -7, fontSize=asked.theme.size - 3, color=asked.theme.muted
            ).encode(text="name:N" if legend else "head:O")
        )
    title = place or "similar heads lie together"
    heading = alt.TitleParams(title, subtitle=said)
    frame = alt.ViewConfig(stroke=asked.theme.grid)
    return alt.layer(*parts, view=frame).properties(width=side, height=side, title=heading)


def _depth(table: HeadTable, pairs: Pairs, rows: list[int], width: int, height: int, asked: Asked) -> Any:
    column = asked.columns(table, 1)[0] if asked.measures else table.column(SQUARED)
    values, errors = numbers(table, column.name), numbers(table, f"{column.name}_se")
    data: list[Record] = [
        {"layer": pairs.one[row][0], "one": head_name(pairs.one[row]), "other": head_name(pairs.other[row]),
         "value": values[row], "error": errors[row]}
        for row in rows
    ]  # fmt: skip
    layers = ordered(record["layer"] for record in data)
    many = len(data) > _MOST_PAIRS
    if many:
        data = _means(data)
    base = alt.Chart(alt.InlineData(values=data)).encode(
        x=alt.X(
            "layer:O", title="layer", axis=alt.Axis(labelAngle=0, values=thinned(layers, width / len(layers)))
        )
    )
    parts = []
    if not many:
        parts.append(
            base.mark_point(filled=True, size=14, opacity=0.35, color=asked.theme.muted).encode(
                y=alt.Y("value:Q", title=axis_of(column)),
                tooltip=[
                    alt.Tooltip("one:N", title="one"),
                    alt.Tooltip("other:N", title="other"),
                    alt.Tooltip("value:Q", title=tip(name_of(column)), format=".4~g"),
                    alt.Tooltip("error:Q", title="standard error", format=".2~g"),
                ],
            )
        )
    parts.append(
        base.mark_line(point=alt.OverlayMarkDef(filled=True, size=36, color=asked.theme.ink)).encode(
            y=alt.Y("mean(value):Q", title=axis_of(column)),
            tooltip=[
                alt.Tooltip("layer:O", title="layer"),
                alt.Tooltip("mean(value):Q", title="mean", format=".4~g"),
            ],
        )
    )
    said = "line: mean" if many else "dots: pairs of heads; line: their mean"
    return alt.layer(*parts).properties(
        width=width, height=height, title=alt.TitleParams("spread within each layer", subtitle=[said])
    )


def _means(data: list[Record]) -> list[Record]:
    found = []
    for layer, rows in groupby(sorted(data, key=lambda row: str(row["layer"])), key=lambda row: row["layer"]):
        known = [row["value"] for row in rows if row["value"] is not None]
        found.append({"layer": layer, "value": float(np.mean(known)) if known else None})
    return found


def _layer_by_layer(table: HeadTable, pairs: Pairs, asked: Asked) -> Any:
    places: dict[tuple[str, Any], list[int]] = {}
    for row, (of, one) in enumerate(zip(pairs.of, pairs.one, strict=True)):
        places.setdefault((of, one[0]), []).append(row)
    across = max(1, min(4, len(places), asked.width // 170))
    side = int(asked.width / across - 30)
    found = [distances(table, rows, pairs, asked) for rows in places.values()]
    maps = [scaled(one.matrix) for one in found]
    reach = max(map(_reach, maps))  # or near heads of one layer would look as far apart as those of another
    charts = [
        _map(one, flat, reach, side, ", ".join(filter(None, [of, f"layer {layer}"])), asked, legend=False)
        for (of, layer), one, flat in zip(places, found, maps, strict=True)
    ]
    return alt.concat(*charts, columns=across)


def _reach(flat: Map) -> float:
    """Give half the side of a square that holds all points, with room around them."""
    return float(np.ptp(flat.points, axis=0).max() / 2 * (1 + 2 * _ROOM)) or 1.0
