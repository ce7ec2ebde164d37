"""Pairs of heads: what both do beyond each, with intervals."""

from typing import Any

import altair as alt

from attnprobe.reports.columns import (
    DrawingRequest,
    Record,
    label_rows,
    list_keys,
    read_numbers,
)
from attnprobe.reports.pictures.channels import draw_panels, make_remark, make_tooltip, tell_marks_apart
from attnprobe.reports.scales import read_spreads
from attnprobe.reports.shapes import name_pairs
from attnprobe.sums.inference import SIGNIFICANT
from attnprobe.table.head_table import HeadTable
from attnprobe.table.kinds import PAIR

_SIGNS = {1: "stand in for each other", -1: "do less without each other", 0: "not significant"}
_SHAPES = ("circle", "diamond", "circle")
#: Pixels of a line.
_LINE = 18


def draw_pairs(table: HeadTable, request: DrawingRequest) -> Any:
    """Draw a line a pair, those that stand in for each other most first."""
    data = _read_pairs(table)
    return _draw_list(table, data, list(dict.fromkeys(record["panel"] for record in data)), request)


def _read_pairs(table: HeadTable) -> list[Record]:
    own = {*PAIR, "attention_a", "attention_b"}
    panels = label_rows(table, [name for name in list_keys(table) if name not in own])
    columns = (read_numbers(table, name) for name in ("interaction", "proposed", "p_adjusted"))
    numbers = zip(read_spreads(table, "interaction"), *columns, strict=True)
    names, data = name_pairs(table), list[Record]()
    for row, (spread, value, proposed, p) in enumerate(numbers):
        sign = 0
        if value is not None and p is not None and p < SIGNIFICANT:
            sign = 1 if value > 0 else -1
        low, high = (None, None) if spread is None or value is None else (value - spread, value + spread)
        data.append({
            "panel": panels[row], "name": names[row], "value": value,
            "low": low, "high": high, "proposed": proposed, "p": p, "mark": _SIGNS[sign],
        })  # fmt: skip
    return data


def _draw_list(table: HeadTable, data: list[Record], panels: list[str], request: DrawingRequest) -> Any:
    names = [record["name"] for record in data]
    order = [one["name"] for one in sorted(data, key=lambda one: -(one["value"] or 0.0))]
    longest = max(map(len, names), default=0) * 0.55 * request.theme.size
    width = int(max(160, min(460, request.width - longest - 40)))
    unit = table.column("interaction").unit
    said = f"\u0394L(both) \u2212 \u0394L(one) \u2212 \u0394L(other){f' ({unit})' if unit else ''}"
    axis = alt.Axis(ticks=False, domain=False, labelLimit=300)
    y = alt.Y("name:N", sort=list(dict.fromkeys(order)), title=None, axis=axis)
    legend = alt.Legend(title=None, orient="bottom", columns=1, labelLimit=request.width)
    hues = [*request.theme.categories[:2], request.theme.muted]
    looks = zip(_SHAPES, [*hues[:2], request.theme.background], hues, strict=True)
    there = {record["mark"] for record in data if record["value"] is not None}
    marks = {mark: look for mark, look in zip(_SIGNS.values(), looks, strict=True) if mark in there}
    channels = tell_marks_apart(marks, legend)
    tooltip = make_tooltip({
        "name:N": "heads", "value:Q": "interaction", "low:Q": "low", "high:Q": "high",
        "proposed:Q": "predicted by gradients", "p:Q": "adjusted p",
    })  # fmt: skip
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
        bars.encode(x=alt.X("low:Q", **x), x2="high:Q", stroke=channels["stroke"]),
        points.encode(x=alt.X("value:Q", **x), tooltip=tooltip, **channels),
    ).properties(width=width, height=alt.Step(_LINE))
    drawn = draw_panels(chart, data, panels, 1, width)
    lines = [
        "above 0: removing both costs more than both removals add up to; bars: 95 % intervals",
        f"filled: adjusted p < {SIGNIFICANT}; grey ticks: predictions from gradients, on other texts",
    ]
    return drawn.properties(title=make_remark(lines, request.theme, longest + width, offset=4))
