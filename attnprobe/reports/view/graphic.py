"""Attention of one sentence as a picture: lines between tokens, a map, patches of an image, or all heads."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import altair as alt
import numpy as np
from altair.utils.schemapi import debug_mode
from numpy.typing import NDArray

from attnprobe.reports.charts.marks import make_chart, make_title, make_word_axis, number_words
from attnprobe.reports.picture import make_spec, measure_picture, render_svg
from attnprobe.reports.theme import THEMES, Theme, ThemeName
from attnprobe.reports.view.alignment import (
    Mark,
    explain_hits,
    find_second_text,
    place_marks,
    state_alignment,
)
from attnprobe.reports.view.packing import (
    add_rollout,
    encode_image,
    find_query,
    make_visible,
    select_tokens,
    shrink_maps,
)
from attnprobe.reports.view.start import Start
from attnprobe.table.sequence import Maps, Rows, SequenceAttention, Side, group_tokens

#: Attention from nothing to everything; each colour is darker than the last, on a dark ground lighter.
RAMPS = {
    "light": ["#ffffff", "#c6dbef", "#6baed6", "#2171b5", "#08306b"],
    "dark": ["#16181d", "#183a68", "#246cb8", "#70b2f0", "#e8f4ff"],
}
RAMPS["paper"] = RAMPS["light"]
#: Lines of less attention are left out, and so are cells whose colour is that of nothing.
FAINTEST, NOTHING = 0.01, 0.0001
#: Pixels from a token to the next, and the fewest for what is drawn.
_LINE, _NARROWEST = 18, 60
#: From a small map to the next, in maps.
_STEP = 1.14
_LONGEST = 20
#: The look of marks whose data are what ``_weigh`` gives.
_WEIGHED = {"strokeWidth": alt.expr("datum.width"), "strokeDash": alt.expr("datum.dash")}


@dataclass(frozen=True)
class Panel:
    """One head, as it is drawn: attention (query, key), and the labels of both.

    ``second`` are the row and the column at which a second text begins; 0 where there is none.
    """

    title: str
    rows: Rows
    queries: Sequence[str]
    keys: Sequence[str]
    marks: Sequence[Mark] = ()
    notes: Sequence[str] = ()
    second: tuple[int, int] = (0, 0)


@dataclass(frozen=True)
class Block:
    """Small maps of a kind of attention, by layer and head; None for a head that was removed."""

    name: str
    layers: Sequence[str]
    heads: Sequence[str]
    maps: Sequence[Sequence[Rows | None]]


def draw_view(
    seen: SequenceAttention,
    start: Start,
    *,
    chosen: bool,
    theme: ThemeName = "light",
    width: int | None = None,
) -> str:
    """Draw the head that ``start`` names as svg, or all heads small where none was chosen.

    It is about ``width`` pixels wide, or by default as wide as it needs to be.
    """
    look = THEMES[theme]
    if not chosen:
        blocks = [_shrink_block(maps, start) for maps in seen.maps]
        images = any(maps.keys.grid is not None for maps in seen.maps)
        share = ", each head as a share of its most" if images else ""
        return draw_all_heads(f"Attention of {make_visible(seen.model)}{share}", blocks, look, width)
    if start.draw == "patches":
        return _draw_image(seen, start, look, width)
    panel = _read_panel(seen, start)
    return (draw_lines if start.draw == "lines" else draw_map)(panel, look, width)


def _name_head(seen: SequenceAttention, start: Start) -> str:
    maps = seen.of(start.kind)
    place = f"{f'{maps.kind.value} ' if len(seen.maps) > 1 else ''}layer {maps.layers[start.layer]}"
    if start.head == maps.rows.shape[1]:
        return f"Rollout up to {place}"
    return f"{place[0].upper()}{place[1:]}, head {start.head}"


def _read_panel(seen: SequenceAttention, start: Start) -> Panel:
    maps = seen.of(start.kind)
    title, rows = _name_head(seen, start), add_rollout(maps)[start.layer, start.head]
    if start.words:
        rows = group_tokens(rows, maps.queries.words, maps.keys.words)
    (queries, left), (keys, right) = (_label_side(side, start) for side in (maps.queries, maps.keys))
    head = None if start.head == maps.rows.shape[1] else (start.layer, start.head)
    marks = place_marks(maps, queries, keys, words=start.words, head=head)
    panel = Panel(title, rows[queries][:, keys], left, right, marks)
    if maps.queries is maps.keys:
        first = find_second_text(maps.queries, queries, words=start.words)
        panel = replace(panel, second=(first, find_second_text(maps.keys, keys, words=start.words)))
    if maps.alignment is None or head is None:
        return panel
    notes = [explain_hits(maps)]
    if start.draw == "map" and any(panel.second):
        notes.append("Lines part the first text from the second.")
    return replace(panel, title=state_alignment(maps, *head, several=len(seen.maps) > 1), notes=notes)


def _label_side(side: Side, start: Start) -> tuple[NDArray[np.int64], list[str]]:
    """Choose and label what is shown of a side, with a dot before each piece that goes on with a word."""
    places, names = select_tokens(side, words=start.words, special=start.special)
    labels = list(map(make_visible, names))
    if not start.words and side.continues is not None:
        pieces = zip(labels, side.continues[places], strict=True)
        labels = [f"·{label}" if goes_on else label for label, goes_on in pieces]
    return places, [label if len(label) <= _LONGEST else f"{label[: _LONGEST - 1]}…" for label in labels]


def _shrink_block(maps: Maps, start: Start) -> Block:
    small = shrink_maps(maps, words=start.words, special=start.special, most=24)
    extra = small.shape[1] - maps.rows.shape[1]
    standing = np.pad(maps.standing, ((0, 0), (0, extra)), constant_values=True)
    layers = zip(small, standing, strict=True)
    grid = [[rows if there else None for rows, there in zip(*layer, strict=True)] for layer in layers]
    heads = [*map(str, range(maps.rows.shape[1])), *["rollout"] * extra]
    return Block(maps.kind.value, list(map(str, maps.layers)), heads, grid)


def draw_lines(panel: Panel, theme: Theme, width: int | None = None) -> str:
    """Draw lines from each token to those it attends to; more attention is a darker and thicker line."""
    count = max(len(panel.queries), len(panel.keys))
    places = alt.Scale(domain=[-1, count], nice=False, reverse=True, zero=False)
    lines = [
        {"query": query, "key": key, "share": float(panel.rows[query, key])}
        for query, key in np.argwhere(panel.rows >= FAINTEST).tolist()
    ]

    def draw(room: float) -> Any:
        ends = {
            "x": alt.value(0),
            "x2": alt.value(room),
            "y": alt.Y("query:Q", scale=places, axis=None),
            "y2": alt.Y2("key:Q"),
        }
        middles = [
            {"query": sum(mark.rows) / 2 - 0.5, "key": sum(mark.columns) / 2 - 0.5, **_weigh(mark, 6)}
            for mark in panel.marks
        ]
        bands = make_chart(middles).mark_rule(color="#d95f0e", opacity=0.5, aria=True, **_WEIGHED)
        layers = [bands.encode(**ends, description="name:N")] if middles else []
        strokes = make_chart(lines).mark_rule(color=RAMPS[theme.name][-1])
        opacity, size = (
            channel("share:Q", scale=alt.Scale(domain=[0, 1], range=reach), legend=None)
            for channel, reach in ((alt.Opacity, [0, 1]), (alt.Size, [0.8, 2.4]))
        )
        layers.append(strokes.encode(**ends, opacity=opacity, size=size))
        for words, heading, x, align in (
            (panel.queries, "from", -8, "right"),
            (panel.keys, "to", room + 8, "left"),
        ):
            beside = {"x": alt.value(x), "y": alt.Y("place:Q", scale=places), "text": "label:N"}
            labels = make_chart([{"place": place, "label": label} for place, label in enumerate(words)])
            above = make_chart([{"place": -1, "label": heading}])
            layers.append(labels.mark_text(align=align).encode(**beside))
            layers.append(above.mark_text(align=align, color=theme.muted).encode(**beside))
        chart = alt.layer(*layers).properties(width=room, height=_LINE * (count + 1))
        return chart.resolve_scale(size="independent", opacity="independent")

    notes = [*panel.notes, *_explain_marks(panel.marks, "Broad bands")]
    return _draw(draw, 200, panel.title, notes, theme, width)


def draw_map(panel: Panel, theme: Theme, width: int | None = None) -> str:
    """Draw a map: a row for each token that attends, a column for each that it attends to."""
    queries, keys = number_words(panel.queries), number_words(panel.keys)
    cells = [
        {"query": queries[query], "key": keys[key], "share": float(panel.rows[query, key])}
        for query, key in np.argwhere(panel.rows >= NOTHING).tolist()
    ]

    def channel(kind: type[Any], name: str, labels: Sequence[str], room: float, **axis: Any) -> Any:
        size = max(1.0, min(theme.size, room / len(labels) - 1))
        look = make_word_axis(labelFontSize=size, titleColor=theme.muted, **axis)
        return kind(f"{name}:N", title=name, sort=None, scale=alt.Scale(domain=list(labels)), axis=look)

    def draw(room: float) -> Any:
        high = room * len(queries) / len(keys)
        x = channel(alt.X, "key", keys, room, orient="top", labelAngle=-90)
        y = channel(alt.Y, "query", queries, high)
        squares = make_chart(cells).mark_rect(aria=False)
        layers = [squares.encode(x=x, y=y, color=_attention(theme, room))]
        box = {
            "x": alt.X("key:N", bandPosition=0),
            "x2": alt.X2("key_end:N", bandPosition=1),
            "y": alt.Y("query:N", bandPosition=0),
            "y2": alt.Y2("query_end:N", bandPosition=1),
        }
        links = [
            {
                "query": queries[mark.rows[0]],
                "query_end": queries[mark.rows[1] - 1],
                "key": keys[mark.columns[0]],
                "key_end": keys[mark.columns[1] - 1],
                **_weigh(mark, 2),
            }
            for mark in panel.marks
        ]
        edges = make_chart(links)
        rims = edges.mark_rect(
            filled=False, stroke=theme.background, strokeWidth=alt.expr("datum.width + 2"), aria=False
        )
        squares = edges.mark_rect(filled=False, stroke=theme.ink, **_WEIGHED)
        squares = squares.encode(**box, description="name:N")
        layers += [rims.encode(**box), squares] if links else []
        second_row, second_column = panel.second
        if second_row:
            border = make_chart([{"query": queries[second_row]}]).mark_rule(color=theme.ink)
            layers.append(border.encode(y=alt.Y("query:N", bandPosition=0)))
        if second_column:
            border = make_chart([{"key": keys[second_column]}]).mark_rule(color=theme.ink)
            layers.append(border.encode(x=alt.X("key:N", bandPosition=0)))
        frame = alt.ViewConfig(stroke=theme.muted)
        return alt.layer(*layers).properties(width=room, height=high, view=frame)

    notes = [*panel.notes, *_explain_marks(panel.marks, "Squares")]
    return _draw(draw, _LINE * len(keys), panel.title, notes, theme, width)


def draw_all_heads(title: str, blocks: Sequence[Block], theme: Theme, width: int | None = None) -> str:
    """Draw a small map of every head, layers from top to bottom; with a width, the maps give way."""
    most = max(len(block.heads) for block in blocks)

    def draw(room: float) -> Any:
        size = room / most
        return alt.vconcat(*(_draw_block(block, size, theme) for block in blocks))

    return _draw(draw, 44 * _STEP * most, title, (), theme, width)


def _draw_block(block: Block, size: float, theme: Theme) -> Any:
    """Draw the small maps of a block, each of them 1 wide and ``_STEP`` from the next."""
    cells, kept, removed = [], [], []
    for layer, line in enumerate(block.maps):
        for head, rows in enumerate(line):
            x, y = head * _STEP, layer * _STEP
            frame = {"x": x, "x2": x + 1, "y": y, "y2": y + 1}
            if rows is None:
                removed.append(frame)
                continue
            kept.append(frame)
            wide, high = 1 / rows.shape[1], 1 / rows.shape[0]
            for row, column in np.argwhere(rows >= NOTHING).tolist():
                left, top, share = x + column * wide, y + row * high, float(rows[row, column])
                cells.append({"x": left, "x2": left + wide, "y": top, "y2": top + high, "share": share})
    across, down = len(block.heads) * _STEP, len(block.layers) * _STEP

    def axis(numbers: Sequence[str], title: str, **look: Any) -> Any:
        centres = [place * _STEP + 0.5 for place in range(len(numbers))]
        words = f"{json.dumps(numbers)}[round((datum.value - 0.5) / {_STEP})]"
        plain: dict[str, Any] = {"ticks": False, "domain": False, "grid": False, "titleColor": theme.muted}
        return alt.Axis(values=centres, labelExpr=words, title=title, labelOverlap=True, **plain, **look)

    edge: dict[str, Any] = {"nice": False, "zero": False}
    heads, layers = axis(block.heads, "head", orient="top"), axis(block.layers, "layer")
    box = {
        "x": alt.X("x:Q", scale=alt.Scale(domain=[0, across], **edge), axis=heads),
        "x2": "x2:Q",
        "y": alt.Y("y:Q", scale=alt.Scale(domain=[0, down], reverse=True, **edge), axis=layers),
        "y2": "y2:Q",
    }
    squares = make_chart(cells).mark_rect(aria=False, strokeWidth=0)
    charts = [squares.encode(**box, color=_attention(theme, size * len(block.heads)))]
    for frames, dashes in ((kept, [1, 0]), (removed, [3, 3])):
        edges = {"filled": False, "aria": False, "stroke": theme.muted, "strokeWidth": 0.5}
        charts.append(make_chart(frames).mark_rect(strokeDash=dashes, **edges).encode(**box))
    named = alt.TitleParams(block.name, fontWeight="normal", color=theme.muted)
    scale = size / _STEP
    return alt.layer(*charts).properties(width=across * scale, height=down * scale, title=named)


def _draw_image(seen: SequenceAttention, start: Start, theme: Theme, width: int | None) -> str:
    """Draw an image, and beside it what each of its patches gets, as a share of the most."""
    maps = seen.of(start.kind)
    grid, query, rows = maps.keys.grid, find_query(maps), add_rollout(maps)[start.layer, start.head]
    assert grid is not None
    assert seen.picture is not None
    given = rows.mean(0) if query is None else rows[query]
    patches = given[grid.first : grid.first + len(grid)].reshape(grid.rows, grid.columns)
    whose = "all tokens on average" if query is None else maps.queries.labels[query]
    note = f"from {whose}; the most that a patch gets is {patches.max():.4f}"
    return draw_patches(_name_head(seen, start), note, patches, seen.picture, theme, width)


def draw_patches(
    title: str, note: str, patches: Rows, picture: NDArray[np.uint8], theme: Theme, width: int | None = None
) -> str:
    """Draw an image (height, width, 3), and beside it what its patches (row, column) get of the most."""
    tall, wide = picture.shape[:2]
    shares = patches / (float(patches.max()) or 1.0)
    cells = [
        {"row": row, "column": column, "share": float(share)}
        for (row, column), share in np.ndenumerate(shares)
    ]

    def draw(room: float) -> Any:
        size = (room - 20) / 2
        high = size * tall / wide
        image = make_chart([{"address": encode_image(picture)}])
        shown = image.mark_image(width=size, height=high, aspect=False, aria=False).encode(
            url="address:N", x=alt.value(size / 2), y=alt.value(high / 2)
        )
        squares = make_chart(cells).mark_rect(aria=False)
        heat = squares.encode(
            x=alt.X("column:O", axis=None), y=alt.Y("row:O", axis=None), color=_attention(theme, size)
        )
        return alt.hconcat(*(chart.properties(width=size, height=high) for chart in (shown, heat)))

    return _draw(draw, 540, title, [note], theme, width)


def _attention(theme: Theme, room: float) -> Any:
    """Make the channel of colours, which follow the square root of attention, so that little shows."""
    ramp = RAMPS[theme.name]
    colours = alt.Scale(type="sqrt", domain=[0, 1], range=ramp, interpolate="rgb", clamp=True)
    length = max(_NARROWEST, min(room, 240))
    below: dict[str, Any] = {"orient": "bottom", "direction": "horizontal", "offset": 8}
    ticks = [0, 0.01, 0.05, 0.1, 0.25, 0.5, 1]
    legend = alt.Legend(title=None, values=ticks, format=".3~g", gradientLength=length, **below)
    return alt.Color("share:Q", scale=colours, legend=legend)


def _weigh(mark: Mark, width: float) -> dict[str, Any]:
    """Give the look of a gold link: heavy where it is hit, thin where missed, dashed where possible."""
    return {"name": mark.name, "width": width * mark.weight, "dash": [1, 0] if mark.sure else [4, 3]}


def _explain_marks(marks: Sequence[Mark], shape: str) -> list[str]:
    if not marks:
        return []
    hits = "" if marks[0].hit is None else ", heavy where the head finds them, thin where it misses them"
    possible = "" if all(mark.sure for mark in marks) else ", dashed where they are only possible"
    return [f"{shape} are gold links{hits}{possible}."]


def _draw(draw: Any, room: float, title: str, notes: Sequence[str], theme: Theme, width: int | None) -> str:
    """Draw a chart in so much room, or in what a width leaves of it beside labels; a title stands above."""
    with debug_mode(False):
        if width is not None:
            labels = measure_picture(draw(room), theme)[0] - room
            room = max(_NARROWEST, width - labels)
        heading = make_title(title, notes, width or max(room, 420), theme)
        return render_svg(make_spec(alt.vconcat(draw(room)).properties(title=heading), theme)).decode()
