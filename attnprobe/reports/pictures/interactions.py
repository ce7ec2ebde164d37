"""Pairs of heads: which stand in for each other, as lines between heads, and by how much, with intervals."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import altair as alt
import numpy as np

from attnprobe.reports.columns import (
    DrawingRequest,
    Record,
    label_rows,
    list_keys,
    read_cells,
    read_numbers,
    sort_labels,
)
from attnprobe.reports.pairs import name_head
from attnprobe.reports.pictures.channels import draw_panels, make_remark, make_tooltip, thin_labels
from attnprobe.reports.scales import BEYOND
from attnprobe.reports.shapes import name_pairs
from attnprobe.sums.resampling import SIGNIFICANT
from attnprobe.table.cells import Cell, format_cell
from attnprobe.table.head_table import HeadTable
from attnprobe.table.kinds import PAIR

_SIGNS = {1: "stand in for each other", -1: "do less without each other", 0: "not significant"}
_SHAPES = ("circle", "diamond", "circle")
_DASHES = ([1, 0], [4, 2])
#: Pixels between two heads and between two layers of the map, both at most, and of its widest and highest
#: side; between layers at least; of a line of the list; and what stands beside the list at least.
_HEAD, _LAYER, _MAP, _HIGHEST, _LEAST, _LINE, _LIST = 60, 40, 240, 440, 14, 18, 330
#: No model has so many layers, or heads in one.
_MOST = 1000
#: Pixels beside the map, for the numbers of layers and their title.
_MARGIN = 70
#: Points of a curve, and how far its middle leaves the straight line, as a share of its length.
_POINTS, _BEND = 13, 0.22
#: Pixels of the thinnest and the thickest line.
_THIN, _THICK = 1.2, 5.0


def draw_pairs(table: HeadTable, request: DrawingRequest) -> Any:
    """Draw the confirmed pairs as lines between heads, and every pair with its interaction in a list.

    On the map, layers go down and heads across. A line is as thick as its interaction is large; of heads that
    do less without each other it is dashed. Every layer and head up to the last has its place, and those that
    were tried a circle. In the list, a bar is the 95 % interval of the pair alone, and a grey tick what
    gradients predicted; filled are pairs whose p, adjusted for all of them, is below 0.05.
    """
    data = _read_pairs(table)
    panels = list(dict.fromkeys(record["panel"] for record in data))
    confirmed = any(record["sign"] != _SIGNS[0] for record in data)
    rows = _name_layers(table)
    heads = _count_up(
        [cell for side in "ab" for cell in read_cells(table, f"head_{side}")], _count_recorded(table, "heads")
    )
    across = min(_MAP, len(heads) * _HEAD)
    beside = confirmed and request.width >= across + _LIST + 60
    room = request.width - (across + _MARGIN + 30 if beside else 0)
    listed = _draw_list(table, data, panels, room, request)
    if not confirmed:
        return listed
    drawn = _draw_map(data, panels, (rows, heads), min(across, request.width - _MARGIN), request)
    whole = alt.hconcat(drawn, listed, spacing=30) if beside else alt.vconcat(drawn, listed, spacing=16)
    return whole.resolve_scale(color="independent")


def _read_pairs(table: HeadTable) -> list[Record]:
    own = {*PAIR, "attention_a", "attention_b"}
    panels = label_rows(table, [name for name in list_keys(table) if name not in own])
    columns = ("interaction", "interaction_se", "proposed", "p_adjusted")
    numbers = zip(*(read_numbers(table, name) for name in columns), strict=True)
    sides = [_name_rows(table, side) for side in "ab"]
    heads = [read_cells(table, f"head_{side}") for side in "ab"]
    names, data = name_pairs(table, name_head), list[Record]()
    for row, (value, error, proposed, p) in enumerate(numbers):
        sign = 0
        if value is not None and p is not None and p < SIGNIFICANT:
            sign = 1 if value > 0 else -1
        spread = None if value is None or error is None else BEYOND * error
        low, high = (None, None) if spread is None else (value - spread, value + spread)
        data.append({
            "panel": panels[row], "name": names[row], "value": value,
            "low": low, "high": high, "proposed": proposed, "p": p, "sign": _SIGNS[sign],
            "ends": [(sides[end][row], heads[end][row]) for end in (0, 1)],
        })  # fmt: skip
    return data


def _name_rows(table: HeadTable, side: str) -> list[str]:
    """Name the row of the map on which one head of each pair lies: kind of attention and layer."""
    kinds = read_cells(table, f"attention_{side}")
    layers = read_cells(table, f"layer_{side}")
    return [_name_layer(*pair) for pair in zip(kinds, layers, strict=True)]


def _name_layers(table: HeadTable) -> list[str]:
    """List the rows of the map: every kind of attention as it comes, and its layers from 0 to the last.

    That is the last of the model where the table's record says so, else of its pairs.
    """
    least = 0 if "attention_a" in table.data else _count_recorded(table, "layers")
    known: dict[Cell, list[Cell]] = {}
    for side in "ab":
        pairs = zip(read_cells(table, f"attention_{side}"), read_cells(table, f"layer_{side}"), strict=True)
        for kind, layer in pairs:
            known.setdefault(kind, []).append(layer)
    return [_name_layer(kind, layer) for kind, layers in known.items() for layer in _count_up(layers, least)]


def _count_recorded(table: HeadTable, name: str) -> int:
    """Read how many layers or heads the model has off the table's record; 0 where it does not say."""
    architecture = table.provenance.get("architecture")
    number = architecture.get(name) if isinstance(architecture, dict) else None
    return number if isinstance(number, int) and number < _MOST else 0


def _name_layer(kind: Cell, layer: Cell) -> str:
    return " ".join(format_cell(cell) for cell in (kind, layer) if cell is not None)


def _count_up(labels: Sequence[Cell], least: int) -> list[Cell]:
    """List numbers from 0 to the largest, and so many at least; what is no layer or head as it comes."""
    numbers = [label for label in labels if isinstance(label, int) and 0 <= label < _MOST]
    if len(numbers) < len(labels):
        return sort_labels(labels)
    return list(range(max(least, max(numbers) + 1)))


def _draw_map(
    data: Sequence[Record], panels: Sequence[str], sides: tuple[Sequence[str], Sequence[Cell]], width: int,
    request: DrawingRequest,
) -> Any:  # fmt: skip
    """Draw heads as points, layers down and heads across, and a curve for each pair that is confirmed."""
    theme, (rows, heads) = request.theme, sides
    step = min(_LAYER, max(_LEAST, _HIGHEST / len(rows)))
    height = step * len(rows)
    down = {name: (place + 0.5) * step for place, name in enumerate(rows)}
    over = {head: (place + 0.5) * width / len(heads) for place, head in enumerate(heads)}
    shown: list[Record] = []
    sure_of: dict[tuple[str, str, Cell], bool] = {}
    largest = max(abs(one["value"]) for one in data if one["sign"] != _SIGNS[0])
    for place, one in enumerate(data):
        sure = one["sign"] != _SIGNS[0]
        for row, head in one["ends"]:
            key = (one["panel"], row, head)
            sure_of[key] = sure or sure_of.get(key, False)
        if sure:
            thick = _THIN + (_THICK - _THIN) * abs(one["value"]) / largest
            common = {"panel": one["panel"], "pair": place, "thick": thick, "sign": one["sign"]}
            common |= {"name": one["name"], "interaction": one["value"], "p": one["p"]}
            ends = [(over[head], down[row]) for row, head in one["ends"]]
            shown += [{**common, "x": x, "y": y, "order": step} for step, (x, y) in enumerate(_bend(*ends))]
    # Those that were not tried have a dot.
    shown += [
        {"panel": panel, "x": x, "y": y, "sure": sure_of.get((panel, row, head))}
        for panel in panels
        for row, y in down.items()
        for head, x in over.items()
    ]
    base = alt.Chart()
    places: dict[str, Any] = {
        "x": alt.X("x:Q", scale=alt.Scale(domain=[0, width], nice=False), axis=None),
        "y": alt.Y("y:Q", scale=alt.Scale(domain=[height, 0], nice=False), axis=None),
    }
    signs = list(_SIGNS.values())[:2]
    colour = alt.Color("sign:N", scale=alt.Scale(domain=signs, range=list(theme.categories[:2])), legend=None)
    dash = alt.StrokeDash("sign:N", scale=alt.Scale(domain=signs, range=list(_DASHES)), legend=None)
    tooltip = make_tooltip({"name:N": "heads", "interaction:Q": "interaction", "p:Q": "adjusted p"})
    curves = base.transform_filter("isValid(datum.pair)").mark_line(opacity=0.85, strokeCap="butt")
    thick = alt.Size("thick:Q", scale=None, legend=None)
    points = base.transform_filter("!isValid(datum.pair)")
    size: dict[str, Any] = {"size": 46 if step > 20 and width / len(heads) > 20 else 24, "opacity": 1}
    dots = points.transform_filter("!isValid(datum.sure)").mark_point(
        filled=True, color=theme.muted, size=6, opacity=0.7, aria=False
    )
    empty = points.transform_filter("datum.sure === false").mark_point(
        filled=True, color=theme.background, stroke=theme.muted, **size
    )
    filled = points.transform_filter("datum.sure").mark_point(
        filled=True, color=theme.ink, stroke=theme.background, strokeWidth=0.8, **size
    )
    text: dict[str, Any] = {"fontSize": theme.small(1), "color": theme.ink}
    layers = [{"label": name, "y": at} for name, at in down.items()]
    letter = theme.small(1) * 0.62 * max(len(format_cell(head)) for head in heads) + 4
    every = set(thin_labels(heads, width / len(heads), letter))
    numbers = [{"label": format_cell(head), "x": at} for head, at in over.items() if head in every]
    beside = text["fontSize"] * 0.62 * max(map(len, down)) + 14
    axes = {
        "head": {"x": width / 2, "y": height + 2.6 * text["fontSize"]},
        "layer": {"x": -beside, "y": height / 2},
    }
    titles = [
        alt.Chart(alt.InlineData(values=[{"label": name}])).mark_text(
            angle=0 if name == "head" else 270, **{**text, "fontSize": theme.size}
        ).encode(x=alt.value(place["x"]), y=alt.value(place["y"]), text="label:N")
        for name, place in axes.items()
    ]  # fmt: skip
    chart = alt.layer(
        alt.Chart(alt.InlineData(values=layers)).mark_rule(color=theme.grid).encode(y=places["y"]),
        curves.encode(
            **places, detail="pair:N", order="order:O", color=colour, size=thick, strokeDash=dash,
            tooltip=tooltip,
        ),
        dots.encode(**places), empty.encode(**places), filled.encode(**places),
        alt.Chart(alt.InlineData(values=layers)).mark_text(align="right", **text).encode(
            x=alt.value(-6), y=places["y"], text="label:N"
        ),
        alt.Chart(alt.InlineData(values=numbers)).mark_text(baseline="top", **text).encode(
            x=places["x"], y=alt.value(height + 4), text="label:N"
        ),
        *titles,
    ).properties(width=width, height=height)  # fmt: skip
    drawn = draw_panels(chart, shown, panels, 1, width)
    remark = [
        "circles: heads of the pairs that were tried; filled: those of a pair with a line",
        f"lines: pairs with adjusted p < {SIGNIFICANT}",
    ]
    if any("sure" in one and one["sure"] is None for one in shown):
        remark[0] += "; dots: other heads"
    if len({round(one["thick"], 1) for one in shown if "thick" in one}) > 1:
        remark[-1] += ", thicker where they interact more"
    return drawn.properties(title=make_remark(remark, theme, width + _MARGIN, offset=4))


def _bend(one: tuple[float, float], other: tuple[float, float]) -> list[tuple[float, float]]:
    """Give the points of a curve between two places, which leaves the heads between them free."""
    start, end = np.array(one), np.array(other)
    across = np.array([end[1] - start[1], start[0] - end[0]])
    middle = (start + end) / 2 + _BEND * across
    share = np.linspace(0, 1, _POINTS)[:, None]
    points = (1 - share) ** 2 * start + 2 * share * (1 - share) * middle + share**2 * end
    return [(float(x), float(y)) for x, y in points]


def _draw_list(
    table: HeadTable, data: list[Record], panels: list[str], room: int, request: DrawingRequest
) -> Any:
    names = [record["name"] for record in data]
    order = [one["name"] for one in sorted(data, key=lambda one: -(one["value"] or 0.0))]
    longest = max(map(len, names), default=0) * 0.55 * request.theme.size
    width = int(max(160, min(460, room - longest - 40)))
    unit = table.column("interaction").unit
    said = f"\u0394L(both) \u2212 \u0394L(one) \u2212 \u0394L(other){f' ({unit})' if unit else ''}"
    axis = alt.Axis(ticks=False, domain=False, labelLimit=300)
    y = alt.Y("name:N", sort=list(dict.fromkeys(order)), title=None, axis=axis)
    legend = alt.Legend(title=None, orient="bottom", columns=1, labelLimit=request.width)
    hues = [*request.theme.categories[:2], request.theme.muted]
    looks = zip(_SIGNS.values(), _SHAPES, [*hues[:2], request.theme.background], hues, strict=True)
    there = {record["sign"] for record in data if record["value"] is not None}
    shown = [look for look in looks if look[0] in there]
    scales = [
        alt.Scale(domain=[look[0] for look in shown], range=[look[part] for look in shown])
        for part in (1, 2, 3)
    ]
    shape = alt.Shape("sign:N", scale=scales[0], legend=legend)
    fill = alt.Fill("sign:N", scale=scales[1], legend=legend)
    stroke = alt.Stroke("sign:N", scale=scales[2], legend=legend)
    tooltip = make_tooltip({
        "name:N": "heads", "value:Q": "interaction", "low:Q": "low", "high:Q": "high",
        "proposed:Q": "predicted by gradients", "p:Q": "adjusted p",
    })  # fmt: skip
    values = [{name: cell for name, cell in one.items() if name != "ends"} for one in data]
    base = alt.Chart().encode(y=y)
    zero = alt.Chart().mark_rule(strokeDash=[3, 3], color=request.theme.muted)
    x: dict[str, Any] = {"title": said, "axis": alt.Axis(tickCount=max(3, width // 60))}
    bars = base.transform_filter("isValid(datum.low)").mark_rule(strokeWidth=1.6)
    points = base.transform_filter("isValid(datum.value)").mark_point(size=54, strokeWidth=1.5, opacity=1)
    ticks = base.transform_filter("isValid(datum.proposed)").mark_tick(
        thickness=1.5, color=request.theme.muted, height=12
    )
    chart = alt.layer(
        zero.encode(x=alt.datum(0)),
        ticks.encode(x=alt.X("proposed:Q", **x)),
        bars.encode(x=alt.X("low:Q", **x), x2="high:Q", stroke=stroke),
        points.encode(x=alt.X("value:Q", **x), stroke=stroke, fill=fill, shape=shape, tooltip=tooltip),
    ).properties(width=width, height=alt.Step(_LINE))
    drawn = draw_panels(chart, values, list(dict.fromkeys(panels)), 1, width)
    remark = make_remark(_explain_marks(data), request.theme, longest + width, offset=4)
    return drawn.properties(title=remark)


def _explain_marks(data: Sequence[Record]) -> list[str]:
    """Say what signs, bars, filled points and ticks are, and why a bar that is clear of 0 may be grey."""
    said = [
        "\u0394L: how much the loss rises without a head, or without both; above 0, removing both costs more "
        "than the two removals add up to",
        "bars: 95 % intervals, each of one pair alone",
    ]
    if any(record["p"] is not None for record in data):
        grey = any(
            record["sign"] == _SIGNS[0] and record["low"] is not None and record["low"] * record["high"] > 0
            for record in data
        )
        counts = set(Counter(record["panel"] for record in data).values())
        many = f"the {counts.pop()}" if len(counts) == 1 else "all"
        said.append(f"filled: p < {SIGNIFICANT}, adjusted for {many} pairs that were tried")
        if grey:
            said[-1] += "; a grey bar clear of 0 is significant by itself alone"
    if any(record["proposed"] is not None for record in data):
        said.append(
            "grey ticks: predictions from gradients, on the other half of the texts; of these, the largest "
            "in size were tried"
        )
    return said
