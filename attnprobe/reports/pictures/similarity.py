"""Heads that attend alike: on a map, near one another (Clark et al. 2019, figure 6); and as a tree."""

from collections.abc import Sequence
from itertools import groupby
from textwrap import wrap
from typing import Any

import altair as alt
import numpy as np

from attnprobe.reports.columns import (
    DrawingRequest,
    Record,
    make_title,
    name_measure,
    read_numbers,
    sort_labels,
    title_axis,
    title_tooltip,
)
from attnprobe.reports.headline import name_unit, write_number
from attnprobe.reports.pairs import (
    SQUARED,
    Clusters,
    Distances,
    Map,
    Pairs,
    cluster_parts,
    compute_distances,
    find_pairs,
    name_head,
    scale_to_plane,
)
from attnprobe.reports.pictures.channels import (
    colour_by_layer,
    level_titles,
    make_records,
    make_tooltip,
    thin_labels,
)
from attnprobe.reports.theme import Theme
from attnprobe.sums.resampling import half_width
from attnprobe.table.documents import count_documents
from attnprobe.table.head_table import HeadTable
from attnprobe.table.table import Column

#: More pairs than this within layers are not drawn one by one beside the means.
_MOST_PAIRS = 6000
#: What heads within a layer are compared by.
_DIVERGENCE = "Jensen-Shannon divergence"
#: A stress that is poor (Kruskal 1964).
_POOR = 0.2
#: So many heads are all named on a map, where there is room; of more, the so many that are farthest out.
_ALL_NAMED, _EXTREMES = 48, 12
#: Narrower pictures have the map above the spread.
_BESIDE = 480
#: Room around the points, as a share of their extent.
_ROOM = 0.08


def can_draw_map(table: HeadTable) -> bool:
    return SQUARED in table.data and find_pairs(table) is not None


def draw_map(table: HeadTable, request: DrawingRequest) -> Any:
    """Draw a map for all pairs; or, of pairs within layers, one for each layer.

    Where its stress is poor, near points need not be near heads. There, a line goes from each head to its
    nearest one, by the distances themselves; its first half is thick, so that one of each other's nearest is
    thick all along.

    Beside the map of all heads, the divergence of every pair within a layer against the layer, with the mean:
    do heads of a layer become more alike with depth?
    """
    pairs = find_pairs(table)
    assert pairs is not None  # or the table would not fit
    if pairs.within:
        return _draw_layers(table, pairs, request)
    rows = [_draw_part(table, pairs, place, request) for place in pairs.maps]
    return rows[0] if len(rows) == 1 else alt.vconcat(*rows)


def _draw_part(table: HeadTable, pairs: Pairs, place: str, request: DrawingRequest) -> Any:
    rows = pairs.rows(place)
    found = compute_distances(table, rows, pairs, request)
    narrow = request.width < _BESIDE
    side = int(max(140, request.width - 90) if narrow else min(420, request.width * 0.48))
    flat = scale_to_plane(found.matrix)
    plot = _draw_points(found, flat, _find_reach(flat), side, place, request, legend=True)
    within = [row for row in rows if pairs.one[row][0] == pairs.other[row][0]]
    if not within:
        return plot
    if narrow:
        return alt.vconcat(plot, _draw_depth(table, pairs, within, side, side, request))
    depth = _draw_depth(table, pairs, within, max(120, int(request.width - side - 150)), side, request)
    # The topmost number of an axis rises above it by half.
    level_titles([plot.title, depth.title], request.theme, [0, request.theme.small(1) / 2])
    return alt.hconcat(plot, depth, spacing=24).resolve_legend(color="independent")


def _draw_points(
    found: Distances, flat: Map, reach: float, side: int, place: str, request: DrawingRequest, *, legend: bool
) -> Any:
    data: list[Record] = [
        {"layer": head[0], "head": head[1], "name": name_head(head), "x": float(x), "y": float(y)}
        for head, (x, y) in zip(found.heads, flat.points, strict=True)
    ]
    middle = (flat.points.max(0) + flat.points.min(0)) / 2
    scales = [alt.Scale(domain=[float(m - reach), float(m + reach)], nice=False) for m in middle]
    poor = flat.stress >= _POOR
    stress = f"stress {flat.stress:.2f}{', poor' if poor else ''}"
    said = [f"{stress}{f' (Kruskal), {len(found.heads)} heads' if legend else ''}"]
    if poor and not legend:
        said[0] += ": read the lines, from each head to its nearest, thick at the head they start from"
    elif poor:
        said = [
            "lines: from each head to its nearest, thick at the head they start from; for "
            f"{_count_within(found)} of {len(found.heads)} heads, that is in the same layer",
            f"do not read distances off the places of heads: {stress} (Kruskal)",
        ]
    shown = "the nearest head of each head" if poor else "similar heads lie together"
    if found.left_out:
        said.append(f"without {', '.join(map(name_head, found.left_out[:4]))}: no distance")
    base = alt.Chart(alt.InlineData(values=data)).encode(
        x=alt.X("x:Q", axis=None, scale=scales[0]), y=alt.Y("y:Q", axis=None, scale=scales[1])
    )
    theme, layers = request.theme, sort_labels(head[0] for head in found.heads)
    size, dy = (70, -9) if side > 250 else (40, -7)
    points = base.mark_point(filled=True, size=size, opacity=0.9, stroke=theme.background, strokeWidth=0.6)
    colour = colour_by_layer(layers, theme) if legend else alt.value(theme.ink)
    parts = _join_nearest(found, data, scales, theme) if poor else []
    parts.append(points.encode(color=colour, tooltip=make_tooltip({"layer:O": "layer", "head:O": "head"})))
    label = "name" if legend else "head"
    _choose_names(data, label, (flat.points - middle + reach) / (2 * reach) * side, theme.small(3))
    named = base.transform_filter("datum.named").encode(text=f"{label}:N")
    edge: dict[str, Any] = {
        "color": theme.background,
        "stroke": theme.background,
        "strokeWidth": 3,
        "aria": False,
    }
    for look in ([edge] if poor else []) + [{"color": theme.muted}]:  # an edge, where lines run below names
        parts.append(named.mark_text(dy=dy, fontSize=theme.small(3), **look))
    title = make_title(place or shown, *said, width=side, size=theme.size)
    frame = alt.ViewConfig(stroke=theme.grid)
    return alt.layer(*parts, view=frame).properties(width=side, height=side, title=title)


def _count_within(found: Distances) -> int:
    """Count the heads whose nearest one is in their own layer."""
    nearest = zip(found.heads, found.find_nearest(), strict=True)
    return sum(head[0] == found.heads[other][0] for head, other in nearest)


def _join_nearest(
    found: Distances, data: Sequence[Record], scales: Sequence[alt.Scale], theme: Theme
) -> list[Any]:
    """Draw a line from each head to its nearest, and its first half once more, thick."""
    ends: list[Record] = [
        {"near": record["name"], "far": data[other]["name"], "distance": float(found.matrix[row, other]),
         "x_near": record["x"], "y_near": record["y"], "x_far": data[other]["x"], "y_far": data[other]["y"],
         "x_half": (record["x"] + data[other]["x"]) / 2, "y_half": (record["y"] + data[other]["y"]) / 2}
        for row, (record, other) in enumerate(zip(data, found.find_nearest(), strict=True))
    ]  # fmt: skip
    base = alt.Chart(alt.InlineData(values=ends)).encode(
        x=alt.X("x_near:Q", axis=None, scale=scales[0]), y=alt.Y("y_near:Q", axis=None, scale=scales[1]),
        tooltip=make_tooltip({"near:N": "head", "far:N": "nearest head", "distance:Q": found.name}),
    )  # fmt: skip
    return [
        base.mark_rule(strokeWidth=wide, color=theme.muted).encode(x2=x2, y2=y2)
        for wide, x2, y2 in ((0.7, "x_far:Q", "y_far:Q"), (1.8, "x_half:Q", "y_half:Q"))
    ]


def _choose_names(data: list[Record], label: str, pixels: np.ndarray, size: int) -> None:
    """Name the heads farthest from the middle first, and none whose name would lie on another one.

    Of many heads, only the farthest are named: the tooltip has all names.
    """
    apart = np.hypot(*(pixels - pixels.mean(0)).T)
    most = len(data) if len(data) <= _ALL_NAMED else _EXTREMES
    named: list[int] = []
    for row in np.argsort(-apart, kind="stable"):
        wide = [0.3 * size * (len(str(data[row][label])) + len(str(data[other][label]))) for other in named]
        free = all(
            abs(pixels[row, 0] - pixels[other, 0]) > room or abs(pixels[row, 1] - pixels[other, 1]) > size
            for other, room in zip(named, wide, strict=True)
        )
        data[row]["named"] = bool(free and len(named) < most)
        if data[row]["named"]:
            named.append(int(row))


def _draw_depth(
    table: HeadTable, pairs: Pairs, rows: list[int], width: int, height: int, request: DrawingRequest
) -> Any:
    column = request.columns(table, 1)[0] if request.measures else table.column(SQUARED)
    values, errors = read_numbers(table, column.name), read_numbers(table, f"{column.name}_se")
    data: list[Record] = [
        {"layer": pairs.one[row][0], "one": name_head(pairs.one[row]), "other": name_head(pairs.other[row]),
         "value": values[row], "error": errors[row]}
        for row in rows
    ]  # fmt: skip
    layers = sort_labels(record["layer"] for record in data)
    many = len(data) > _MOST_PAIRS
    if many:
        data = _average_by_layer(data)
    axis = alt.Axis(labelAngle=0, values=thin_labels(layers, width / len(layers)))
    x = alt.X("layer:O", title="layer", axis=axis)
    base = alt.Chart(alt.InlineData(values=data)).encode(x=x)
    parts = []
    if not many:
        titles = {"one:N": "one", "other:N": "other", "value:Q": title_tooltip(name_measure(column))}
        dots = base.mark_point(filled=True, size=14, opacity=0.35, color=request.theme.muted)
        y = alt.Y("value:Q", title=title_axis(column))
        parts.append(dots.encode(y=y, tooltip=make_tooltip({**titles, "error:Q": "standard error"})))
    mean = base.mark_line(point=alt.OverlayMarkDef(filled=True, size=36, color=request.theme.ink))
    y = alt.Y("mean(value):Q", title=title_axis(column))
    parts.append(mean.encode(y=y, tooltip=make_tooltip({"layer:O": "layer", "mean(value):Q": "mean"})))
    said = "line: mean" if many else "dots: pairs of heads; line: their mean"
    name = _DIVERGENCE if column.name == SQUARED else name_measure(column)
    title = make_title(f"{name} within each layer", said, width=width, size=request.theme.size)
    return alt.layer(*parts).properties(width=width, height=height, title=title)


def state_map(table: HeadTable, columns: Sequence[Column]) -> str:
    """State within which layer heads differ most, if its interval lies above those of all other layers.

    It is the mean over the pairs of the layer. Its error is at most the mean of theirs, however they depend
    on each other; intervals hold for all layers together.
    """
    pairs = find_pairs(table)
    if pairs is None or len(pairs.maps) > 1:
        return ""
    values, errors = (read_numbers(table, f"{SQUARED}{end}") for end in ("", "_se"))
    of: dict[Any, list[tuple[float, float]]] = {}
    for (layer, _), (other, _), value, error in zip(pairs.one, pairs.other, values, errors, strict=True):
        if layer == other and value is not None:
            of.setdefault(layer, []).append((value, np.nan if error is None else error))
    means, sure = np.array([np.mean(one, 0) for one in of.values()]).reshape(-1, 2).T
    if len(means) < 2:
        return ""
    half, most = half_width(sure, count_documents(table, SQUARED).min()), int(means.argmax())
    if (means[most] - half[most] > means + half).sum() < len(means) - 1:
        return ""
    unit = name_unit(table.column(SQUARED))
    return f"heads of layer {[*of][most]} differ most: mean {_DIVERGENCE} {write_number(means[most])}{unit}"


def _average_by_layer(data: list[Record]) -> list[Record]:
    """Average what is defined over the pairs of each layer."""
    found = []
    for layer, rows in groupby(sorted(data, key=lambda row: str(row["layer"])), key=lambda row: row["layer"]):
        known = [row["value"] for row in rows if row["value"] is not None]
        found.append({"layer": layer, "value": float(np.mean(known)) if known else None})
    return found


def _draw_layers(table: HeadTable, pairs: Pairs, request: DrawingRequest) -> Any:
    places: dict[tuple[str, Any], list[int]] = {}
    for row, (of, one) in enumerate(zip(pairs.of, pairs.one, strict=True)):
        places.setdefault((of, one[0]), []).append(row)
    across = max(1, min(4, len(places), request.width // 170))
    side = int(request.width / across - 30)
    found = [compute_distances(table, rows, pairs, request) for rows in places.values()]
    maps = [scale_to_plane(one.matrix) for one in found]
    # One reach for all, or near heads of one layer would look as far apart as those of another.
    reach = max(map(_find_reach, maps))
    names = [", ".join(filter(None, [of, f"layer {layer}"])) for of, layer in places]
    charts = [
        _draw_points(one, flat, reach, side, name, request, legend=False)
        for one, flat, name in zip(found, maps, names, strict=True)
    ]
    for first in range(0, len(charts), across):
        level_titles([chart.title for chart in charts[first : first + across]], request.theme)
    return alt.concat(*charts, columns=across)


def _find_reach(flat: Map) -> float:
    """Find half the side of a square that holds all points, with room around them."""
    return float(np.ptp(flat.points, axis=0).max() / 2 * (1 + 2 * _ROOM)) or 1.0


#: Pixels for a head; fewer where there are many, and no names below ``_NAMED``.
_HIGH, _NAMED = 13, 8


def can_draw_dendrogram(table: HeadTable) -> bool:
    pairs = find_pairs(table) if SQUARED in table.data else None
    return pairs is not None and not pairs.within


def draw_dendrogram(table: HeadTable, request: DrawingRequest) -> Any:
    """Draw the tree of average linkage on roots of divergences with its clusters; see ``cluster_heads``."""
    trees = [_draw_tree(one, place, request) for place, one in cluster_parts(table, request)]
    return trees[0] if len(trees) == 1 else alt.vconcat(*trees)


def _draw_tree(found: Clusters, place: str, request: DrawingRequest) -> Any:
    theme, heads = request.theme, [found.found.heads[leaf] for leaf in found.leaves]
    high = int(np.clip(900 / len(heads), 3, _HIGH))
    named, letters = high >= _NAMED, min(high, theme.size - 1)
    beside = 13 + named * (8 + 0.58 * letters * max(len(name_head(head)) for head in heads))
    width = max(160, int(request.width - 110 - beside))
    y = alt.Y("row:Q", axis=None, scale=alt.Scale(domain=[len(heads) - 0.5, -0.5], nice=False))
    base = alt.Chart(alt.InlineData(values=_read_leaves(found))).encode(y=y, x=alt.value("width"))
    titles = {"layer:O": "layer", "head:O": "head", "cluster:N": "cluster", "mean:Q": "mean distance in it"}
    tiles = base.mark_square(size=min(high, 11) ** 2, xOffset=8, opacity=1).encode(
        color=colour_by_layer(sort_labels(head[0] for head in heads), theme), tooltip=make_tooltip(titles)
    )
    parts: list[Any] = [*_draw_joins(found, y, request), tiles]
    if named:
        names = base.mark_text(align="left", dx=17, fontSize=letters, color=theme.ink)
        parts.append(names.encode(text="name:N"))
    parts += _draw_brackets(found, y, width + beside, high, request)
    said = f"average linkage, {len(heads)} heads; {found.sentence()}"
    lines = wrap(said, max(30, int((width + beside) / (0.5 * theme.size))))
    title = alt.TitleParams(place or "similar heads join first", subtitle=lines)
    return alt.layer(*parts).properties(width=width, height=high * len(heads), title=title)


def _read_leaves(found: Clusters) -> list[Record]:
    heads = [found.found.heads[leaf] for leaf in found.leaves]
    numbers, means = [found.numbers[leaf] for leaf in found.leaves], found.mean_distances()
    return make_records({
        "name": list(map(name_head, heads)), "layer": [layer for layer, _ in heads],
        "head": [head for _, head in heads], "row": range(len(heads)),
        "cluster": ["on its own" if number is None else str(number) for number in numbers],
        "mean": [means[leaf] for leaf in found.leaves],
    })  # fmt: skip


def _draw_joins(found: Clusters, y: Any, request: DrawingRequest) -> list[Any]:
    """Draw the tree; neighbouring clusters have colours that differ, and what joins them has none."""
    from scipy.cluster.hierarchy import dendrogram

    heads = len(found.found.heads)
    # scipy draws leaves at 5, 15, 25, ..., and asks for the colour of each join by its number.
    tree = dendrogram(found.joined, no_plot=True, link_color_func=str)
    links: dict[str, list[Record]] = {}
    joins = zip(tree["icoord"], tree["dcoord"], tree["color_list"], strict=True)
    for link, (rows, ends, join) in enumerate(joins):
        number = found.numbers[_find_leaf(found, int(join) - heads)]
        within = max(ends) <= found.height and number is not None
        links.setdefault(_choose_colour(number if within else None, request), []).extend(
            {"link": link, "step": step, "distance": float(distance), "row": (float(row) - 5) / 10}
            for step, (row, distance) in enumerate(zip(rows, ends, strict=True))
        )
    top = float(found.joined[-1, 2]) * 1.02 or 1.0
    scale = alt.Scale(domain=[top, 0], nice=False)
    x = alt.X("distance:Q", title=found.found.name, scale=scale, axis=alt.Axis(grid=False, tickCount=6))
    cut = alt.Chart(alt.InlineData(values=[{"distance": found.height}]))
    parts = [cut.mark_rule(strokeDash=[4, 3], color=request.theme.muted).encode(x=x)]
    for colour, data in links.items():
        chart = alt.Chart(alt.InlineData(values=data)).encode(x=x, y=y, detail="link:N", order="step:Q")
        parts.append(chart.mark_line(strokeWidth=1.2, strokeJoin="miter", color=colour))
    return parts


def _choose_colour(number: int | None, request: DrawingRequest) -> str:
    """Choose a colour for a cluster; a scale would be shared with the colours of layers."""
    return request.theme.muted if number is None else request.theme.categories[number % 2]


def _find_leaf(found: Clusters, join: int) -> int:
    """Find a head below a join."""
    heads = len(found.found.heads)
    while (below := int(found.joined[join, 0])) >= heads:
        join = below - heads
    return below


def _draw_brackets(found: Clusters, y: Any, at: float, high: int, request: DrawingRequest) -> list[Any]:
    """Draw a bracket beside each cluster, with its number where there is room."""
    numbers = [found.numbers[leaf] for leaf in found.leaves]
    rows = {one: [row for row, number in enumerate(numbers) if number == one] for one in found.sizes}
    brackets = []
    for parity in (1, 0):
        own = {number: of for number, of in rows.items() if number % 2 == parity}
        data: list[Record] = [
            {"row": min(of) - 0.35, "end": max(of) + 0.35, "middle": (min(of) + max(of)) / 2,
             "number": str(number) if len(of) * high >= request.theme.size - 2 else ""}
            for number, of in own.items()
        ]  # fmt: skip
        colour = _choose_colour(parity, request)
        base = alt.Chart(alt.InlineData(values=data)).encode(x=alt.value(at))
        text = base.mark_text(align="left", dx=5, fontSize=request.theme.small(1), color=colour)
        brackets += [
            base.mark_rule(strokeWidth=2, color=colour).encode(y=y, y2="end:Q"),
            text.encode(y=alt.Y("middle:Q", axis=None), text="number:N"),
        ]
    return brackets
