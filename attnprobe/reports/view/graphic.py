"""One sentence as a graphic: lines between tokens, a map, patches of an image, or small maps of all heads."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import altair as alt
import numpy as np
from altair.utils.schemapi import debug_mode
from numpy.typing import NDArray

from attnprobe.reports.charts.channels import make_chart, make_title, make_word_axis, number_words
from attnprobe.reports.picture import draw_svg, make_spec, measure_picture
from attnprobe.reports.theme import THEMES, Theme, ThemeName
from attnprobe.reports.view import packing
from attnprobe.reports.view.packing import EXPLANATION, LinkMark, Start, add_rollout, make_visible
from attnprobe.table.sequence import Maps, Rows, SequenceAttention, Side, group_tokens

#: Colours from no attention to all, each farther from the background than the last.
RAMPS = {
    "light": ["#ffffff", "#c6dbef", "#6baed6", "#2171b5", "#08306b"],
    "dark": ["#16181d", "#183a68", "#246cb8", "#70b2f0", "#e8f4ff"],
}
RAMPS["paper"] = RAMPS["light"]
#: Lines with less attention than the first, and cells with less than the second, are left out.
FAINTEST, NOTHING = 0.01, 0.0001
#: Pixels from a token to the next, across a small map, and of the narrowest drawing.
_LINE, _SMALL, _NARROWEST = 18, 50, 60
#: Most characters of a token.
_LONGEST = 20
#: The look of gold links, which ``_weigh`` puts into their data.
_GOLD = {"strokeWidth": alt.expr("datum.width"), "strokeDash": alt.expr("datum.dash"), "aria": True}


@dataclass(frozen=True)
class HeadPicture:
    """One head to draw: its attention (query, key), the labels of both sides, gold links, and notes."""

    title: str
    rows: Rows
    queries: Sequence[str]
    keys: Sequence[str]
    marks: Sequence[LinkMark] = ()
    notes: Sequence[str] = ()


def draw_view(
    sequence: SequenceAttention, start: Start, *, chosen: bool, theme: ThemeName, width: int | None
) -> str:
    """Draw the head of ``start`` as svg, or small maps of all heads if none was chosen."""
    look, maps = THEMES[theme], sequence.of(start.kind)
    if not chosen:
        return draw_all_heads(sequence, start, look, width)
    if start.draw == "patches":
        return _draw_patches(sequence, start, look, width)
    rows = add_rollout(maps)[start.layer, start.head]
    if start.words:
        rows = group_tokens(rows, maps.queries.words, maps.keys.words)
    (queries, left), (keys, right) = (_label_side(side, start) for side in (maps.queries, maps.keys))
    head = None if start.head == maps.rows.shape[1] else (start.layer, start.head)
    title, notes = _name_map(sequence, start), []
    if maps.alignment is not None and head is not None:
        title = packing.state_alignment(maps, *head, several=len(sequence.maps) > 1)
        notes = [packing.explain_hits(maps), EXPLANATION]
    marks = packing.place_marks(maps, queries, keys, words=start.words, head=head)
    panel = HeadPicture(title, rows[queries][:, keys], left, right, marks, notes)
    return (draw_lines if start.draw == "lines" else draw_map)(panel, look, width)


def _name_map(sequence: SequenceAttention, start: Start) -> str:
    """Name the layer and head of a map, or the layer up to which it is a rollout, and the kind if several."""
    maps = sequence.of(start.kind)
    place = f"{f'{maps.kind.value} ' if len(sequence.maps) > 1 else ''}layer {maps.layers[start.layer]}"
    if start.head == maps.rows.shape[1]:
        return f"Rollout up to {place}"
    return f"{place[0].upper()}{place[1:]}, head {start.head}"


def _label_side(side: Side, start: Start) -> tuple[NDArray[np.int64], list[str]]:
    """Give the places and labels of what is shown; a token that continues a word begins with a dot."""
    places, names = packing.select_tokens(side, words=start.words, special=start.special)
    labels = list(map(make_visible, names))
    if not start.words and side.continues is not None:
        pieces = zip(labels, side.continues[places], strict=True)
        labels = [f"·{label}" if goes_on else label for label, goes_on in pieces]
    return places, [label if len(label) <= _LONGEST else f"{label[: _LONGEST - 1]}…" for label in labels]


def draw_lines(panel: HeadPicture, theme: Theme, width: int | None = None) -> str:
    """Draw a line from each token to each that it attends to, darker and thicker for more attention."""
    count = max(len(panel.queries), len(panel.keys))
    places = alt.Scale(domain=[-1, count], nice=False, reverse=True, zero=False)
    lines = [
        {"y": query, "y2": key, "share": float(panel.rows[query, key])}
        for query, key in np.argwhere(panel.rows >= FAINTEST).tolist()
    ]
    links = [
        {"y": sum(mark.rows) / 2 - 0.5, "y2": sum(mark.columns) / 2 - 0.5, **_weigh(mark, 6)}
        for mark in panel.marks
    ]

    def draw(room: float) -> Any:
        y = alt.Y("y:Q", scale=places, axis=None)
        ends = {"x": alt.value(0), "x2": alt.value(room), "y": y, "y2": "y2:Q"}
        bands = make_chart(links).mark_rule(color="#d95f0e", opacity=0.5, **_GOLD)
        look: dict[str, Any] = {"opacity": alt.expr("datum.share")}
        look |= {"strokeWidth": alt.expr("0.8 + 1.6 * datum.share"), "color": RAMPS[theme.name][-1]}
        labels = [
            {"x": x, "y": place - 1, "label": label}
            for x, side, words in ((-8, "from", panel.queries), (room + 8, "to", panel.keys))
            for place, label in enumerate([side, *words])
        ]
        texts = make_chart(labels).mark_text(align=alt.expr("datum.x < 0 ? 'right' : 'left'"))
        layers = [
            bands.encode(**ends, description="name:N"),
            make_chart(lines).mark_rule(**look).encode(**ends),
            texts.encode(
                x=alt.X("x:Q", scale=alt.Scale(domain=[0, room], nice=False), axis=None),
                y=y,
                text="label:N",
                color=alt.condition("datum.y < 0", alt.value(theme.muted), alt.value(theme.ink)),
            ),
        ]
        return alt.layer(*layers).properties(width=room, height=_LINE * (count + 1))

    return _draw(draw, 200, panel.title, panel.notes, theme, width)


def draw_map(panel: HeadPicture, theme: Theme, width: int | None = None) -> str:
    """Draw a map with a row for each query and a column for each key."""
    queries, keys = number_words(panel.queries), number_words(panel.keys)
    cells = [
        {"y": queries[query], "x": keys[key], "share": float(panel.rows[query, key])}
        for query, key in np.argwhere(panel.rows >= NOTHING).tolist()
    ]
    links = [
        {
            "y": queries[top],
            "y2": queries[below - 1],
            "x": keys[left],
            "x2": keys[right - 1],
            **_weigh(mark, 2),
        }
        for mark in panel.marks
        for (top, below), (left, right) in [(mark.rows, mark.columns)]
    ]
    box = {
        "x": alt.X("x:N", bandPosition=0),
        "x2": alt.X2("x2:N", bandPosition=1),
        "y": alt.Y("y:N", bandPosition=0),
        "y2": alt.Y2("y2:N", bandPosition=1),
    }

    def axis(channel: type[Any], field: str, labels: Sequence[str], room: float, **look: Any) -> Any:
        size = max(1.0, min(theme.size, room / len(labels) - 1))
        words = make_word_axis(labelFontSize=size, titleColor=theme.muted, **look)
        return channel(field, sort=None, scale=alt.Scale(domain=list(labels)), axis=words)

    def draw(room: float) -> Any:
        high = room * len(queries) / len(keys)
        x = axis(alt.X, "x:N", keys, room, title="key", orient="top", labelAngle=-90)
        y = axis(alt.Y, "y:N", queries, high, title="query")
        edges, wider = make_chart(links), alt.expr("datum.width + 2")
        rim = edges.mark_rect(filled=False, stroke=theme.background, strokeWidth=wider, aria=False)
        square = edges.mark_rect(filled=False, stroke=theme.ink, **_GOLD)
        layers = [
            make_chart(cells).mark_rect(aria=False).encode(x=x, y=y, color=_colour(theme, room)),
            rim.encode(**box),  # shows on any colour
            square.encode(**box, description="name:N"),
        ]
        frame = alt.ViewConfig(stroke=theme.muted)
        return alt.layer(*layers).properties(width=room, height=high, view=frame)

    return _draw(draw, _LINE * len(keys), panel.title, panel.notes, theme, width)


def draw_all_heads(sequence: SequenceAttention, start: Start, theme: Theme, width: int | None = None) -> str:
    """Draw a small map of every head, layers from top to bottom; a ``width`` sets the size of the maps."""
    most = max(add_rollout(maps).shape[1] for maps in sequence.maps)
    images = any(maps.keys.grid is not None for maps in sequence.maps)
    share = ", each head as a share of its most" if images else ""

    def draw(room: float) -> Any:
        return alt.vconcat(*(_draw_small_maps(maps, start, room / most, theme) for maps in sequence.maps))

    title = f"Attention of {make_visible(sequence.model)}{share}"
    return _draw(draw, _SMALL * most, title, (), theme, width)


def _draw_small_maps(maps: Maps, start: Start, size: float, theme: Theme) -> Any:
    """Draw the small maps of a kind of attention, each in a frame, which is dashed for a removed head."""
    small = packing.shrink_maps(maps, words=start.words, special=start.special, most=24)
    layers, heads = list(map(str, maps.layers)), list(map(str, range(maps.rows.shape[1])))
    kept = maps.kept
    if small.shape[1] > len(heads):
        heads, kept = [*heads, "rollout"], np.pad(kept, ((0, 0), (0, 1)), constant_values=True)
    cells = [
        {"layer": layers[layer], "head": heads[head], "row": row, "column": column, "share": share}
        for layer, head, row, column in np.argwhere(small >= NOTHING).tolist()
        for share in [float(small[layer, head, row, column])]
    ]
    frames = [
        {"layer": layers[layer], "head": heads[head], "dash": [1, 0] if there else [3, 3]}
        for (layer, head), there in np.ndenumerate(kept)
    ]

    def place(channel: type[Any], name: str, labels: list[str], **look: Any) -> Any:
        axis = alt.Axis(titleColor=theme.muted, labelOverlap=True, **look)
        scale = alt.Scale(domain=labels, paddingInner=0.12, paddingOuter=0)
        return channel(f"{name}:N", title=name, scale=scale, axis=axis)

    def divide(channel: type[Any], name: str, number: int) -> Any:
        return channel(f"{name}:O", scale=alt.Scale(domain=list(range(number)), padding=0))

    x, y = place(alt.X, "head", heads, orient="top", labelAngle=0), place(alt.Y, "layer", layers)
    right, down = divide(alt.XOffset, "column", small.shape[3]), divide(alt.YOffset, "row", small.shape[2])
    squares = make_chart(cells).mark_rect(aria=False, strokeWidth=0)
    squares = squares.encode(x=x, y=y, xOffset=right, yOffset=down, color=_colour(theme, size * len(heads)))
    look: dict[str, Any] = {"filled": False, "aria": False, "stroke": theme.muted, "strokeWidth": 0.5}
    edges = make_chart(frames).mark_rect(strokeDash=alt.expr("datum.dash"), **look).encode(x=x, y=y)
    named = alt.TitleParams(maps.kind.value, fontWeight="normal", color=theme.muted)
    sizes = {"width": size * len(heads), "height": size * len(layers)}
    return alt.layer(squares, edges).properties(title=named, **sizes)


def _draw_patches(sequence: SequenceAttention, start: Start, theme: Theme, width: int | None) -> str:
    """Draw an image, and beside it attention to its patches from the leading token, or all on average."""
    maps = sequence.of(start.kind)
    grid, query, rows = maps.keys.grid, packing.find_query(maps), add_rollout(maps)[start.layer, start.head]
    assert grid is not None
    assert sequence.picture is not None
    address, (tall, wide, _) = packing.encode_image(sequence.picture), sequence.picture.shape
    given = (rows.mean(0) if query is None else rows[query])[grid.first : grid.first + len(grid)]
    most = float(given.max())
    cells = [
        {"row": patch // grid.columns, "column": patch % grid.columns, "share": share / (most or 1.0)}
        for patch, share in enumerate(given.tolist())
    ]

    def draw(room: float) -> Any:
        size = (room - 20) / 2
        high = size * tall / wide
        image = make_chart([{"address": address}]).mark_image(width=size, height=high, aspect=False)
        image = image.encode(url="address:N", x=alt.value(size / 2), y=alt.value(high / 2))
        x, y = alt.X("column:O", axis=None), alt.Y("row:O", axis=None)
        heat = make_chart(cells).mark_rect(aria=False).encode(x=x, y=y, color=_colour(theme, size))
        return alt.hconcat(*(chart.properties(width=size, height=high) for chart in (image, heat)))

    whose = "all tokens on average" if query is None else maps.queries.labels[query]
    note = f"from {whose}; the most that a patch gets is {most:.4f}"
    return _draw(draw, 540, _name_map(sequence, start), [note], theme, width)


def _colour(theme: Theme, room: float) -> Any:
    """Make the channel of colours, which follow the square root so that little attention can be seen."""
    ramp = RAMPS[theme.name]
    colours = alt.Scale(type="sqrt", domain=[0, 1], range=ramp, interpolate="rgb", clamp=True)
    length = max(_NARROWEST, min(room, 240))
    below: dict[str, Any] = {"orient": "bottom", "direction": "horizontal", "offset": 8}
    ticks = [0, 0.01, 0.05, 0.1, 0.25, 0.5, 1]
    legend = alt.Legend(title=None, values=ticks, format=".3~g", gradientLength=length, **below)
    return alt.Color("share:Q", scale=colours, legend=legend)


def _weigh(mark: LinkMark, width: float) -> dict[str, Any]:
    """Give the look of a gold link: heavy if it is hit, thin if missed, dashed if only possible."""
    weight = {None: 1.0, True: 1.4, False: 0.5}[mark.hit]  # as in ``view.js``
    return {"name": mark.name, "width": width * weight, "dash": [1, 0] if mark.sure else [4, 3]}


def _draw(draw: Any, room: float, title: str, notes: Sequence[str], theme: Theme, width: int | None) -> str:
    """Draw as svg what ``draw`` makes of ``room`` pixels, or of those that ``width`` leaves beside labels."""
    with debug_mode(False):
        if width is not None:
            labels = measure_picture(draw(room), theme)[0] - room
            room = max(_NARROWEST, width - labels)
        heading = make_title(title, notes, width or max(room, 420), theme)
        return draw_svg(make_spec(alt.vconcat(draw(room)).properties(title=heading), theme))
