"""Pairs of heads: what both do to the loss beyond what each does, with its interval."""

from typing import Any

import altair as alt

from attnprobe.reports.columns import DrawingRequest, label_rows, list_keys, read_numbers
from attnprobe.reports.pictures.channels import draw_panels, make_tooltip
from attnprobe.reports.shapes import name_pairs
from attnprobe.sums.resampling import SIGNIFICANT
from attnprobe.table.head_table import HeadTable
from attnprobe.table.kinds import PAIR

#: Standard errors on either side.
_SIDES = 1.96
_SIGNS = {1: "stand in for each other", -1: "do less without each other", 0: "not significant"}


def draw_pairs(table: HeadTable, request: DrawingRequest) -> Any:
    """Draw the interaction of each pair with its 95 % interval, and the proposal as a line across.

    Pairs that are confirmed have a colour, and a filled dot.
    """
    own = {*PAIR, "attention_a", "attention_b"}
    panels = label_rows(table, [name for name in list_keys(table) if name not in own])
    names = name_pairs(table)
    columns = ("interaction", "interaction_se", "proposed", "p_adjusted")
    rows = zip(panels, names, *(read_numbers(table, name) for name in columns), strict=True)
    data = []
    for panel, name, value, error, proposed, p in rows:
        sign = 0
        if value is not None and p is not None and p < SIGNIFICANT:
            sign = 1 if value > 0 else -1
        spread = None if value is None or error is None else _SIDES * error
        low, high = (None, None) if spread is None else (value - spread, value + spread)
        data.append({
            "panel": panel, "name": name, "value": value, "low": low, "high": high, "proposed": proposed,
            "p": p, "sign": _SIGNS[sign],
        })  # fmt: skip
    order = [one["name"] for one in sorted(data, key=lambda one: -(one["value"] or 0.0))]
    longest = max(map(len, names), default=0) * 0.55 * request.theme.size
    width = int(max(160, min(460, request.width - longest - 40)))
    unit = table.column("interaction").unit
    title = f"loss without both, less those without each{f' ({unit})' if unit else ''}"
    axis = alt.Axis(ticks=False, domain=False, labelLimit=300)
    y = alt.Y("name:N", sort=list(dict.fromkeys(order)), title=None, axis=axis)
    palette = request.theme.categories
    scale = alt.Scale(domain=[*_SIGNS.values()], range=[palette[0], palette[1], request.theme.muted])
    below = alt.Legend(title=None, orient="bottom", columns=1, labelLimit=request.width)
    colour = alt.Color("sign:N", scale=scale, legend=below)
    tooltip = make_tooltip({
        "name:N": "heads", "value:Q": "interaction", "low:Q": "low", "high:Q": "high",
        "proposed:Q": "proposed", "p:Q": "adjusted p",
    })  # fmt: skip
    base = alt.Chart().encode(y=y)
    zero = alt.Chart().mark_rule(strokeDash=[3, 3], color=request.theme.muted)
    x: dict[str, Any] = {"title": title}
    bars = base.transform_filter("isValid(datum.low)").mark_rule(strokeWidth=1.6)
    points = base.transform_filter("isValid(datum.value)").mark_point(filled=True, size=60, opacity=1)
    ticks = base.transform_filter("isValid(datum.proposed)").mark_tick(
        thickness=1.5, color=request.theme.muted, height=12
    )
    chart = alt.layer(
        zero.encode(x=alt.datum(0)),
        ticks.encode(x=alt.X("proposed:Q", **x)),
        bars.encode(x=alt.X("low:Q", **x), x2="high:Q", color=colour),
        points.encode(x=alt.X("value:Q", **x), color=colour, tooltip=tooltip),
    ).properties(width=width, height=alt.Step(20))
    return draw_panels(chart, data, list(dict.fromkeys(panels)), 1, width)
