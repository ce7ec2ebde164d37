"""Error rates of the best alignments."""

from typing import Any

import altair as alt

from attnprobe.reports.columns import (
    DrawingRequest,
    Record,
    label_rows,
    read_numbers,
)
from attnprobe.reports.pictures.channels import (
    draw_panels,
    make_remark,
    make_tooltip,
)
from attnprobe.sums.inference import SIGNIFICANT
from attnprobe.table.head_table import HeadTable

#: Pixels of a chart at most.
_WIDEST = 420
_PLACE = "same relative place"


def draw_alignments(table: HeadTable, request: DrawingRequest) -> Any:
    """Draw the error rate of each alignment with its 95 % interval; a tick is that of the same place."""
    theme = request.theme
    panels = label_rows(table, [name for name in ("weights", "attention") if name in table.data])
    names = label_rows(table, ["alignment"])
    if len(set(zip(panels, names, strict=True))) < len(table):
        names = label_rows(table, ["alignment", "direction"])
    columns = ("aer", "aer_se", "baseline", "p_adjusted", "n")
    numbers = zip(*(read_numbers(table, name) for name in columns), strict=True)
    data: list[Record] = []
    for panel, name, (value, error, place, p, n) in zip(panels, names, numbers, strict=True):
        sure = p is not None and p < SIGNIFICANT
        data.append({
            "panel": panel, "name": name, "value": value, "error": error, "place": place, "p": p, "n": n,
            "sure": sure, "star": "*" if sure else "",
        })  # fmt: skip
    room = 12 + 0.52 * theme.size * max(map(len, names))
    width = int(max(120, min(_WIDEST, request.width - room - 24)))
    x: dict[str, Any] = {"title": "alignment error rate", "scale": alt.Scale(domain=[0, 1], nice=False)}
    axis = alt.Axis(tickCount=5)
    y_axis = alt.Axis(ticks=False, domain=False, labelLimit=240, grid=True)
    base = alt.Chart().encode(y=alt.Y("name:N", sort=list(dict.fromkeys(names)), title=None, axis=y_axis))
    known = base.transform_filter("isValid(datum.value)")
    bars = known.transform_filter("isValid(datum.error)").transform_calculate(
        low="datum.value - 1.96 * datum.error", high="datum.value + 1.96 * datum.error"
    )
    tooltip = make_tooltip({
        "name:N": "alignment", "value:Q": "error rate", "error:Q": "standard error",
        "place:Q": _PLACE, "p:Q": "adjusted p", "n:Q": "pairs of texts",
    })  # fmt: skip
    best, other, *_ = theme.categories
    look: dict[str, Any] = {"size": 54, "strokeWidth": 1.5, "opacity": 1}
    filled = known.transform_filter("datum.sure").mark_point(filled=True, color=best, **look)
    empty = known.transform_filter("!datum.sure").mark_point(
        filled=True, fill=theme.background, stroke=best, **look
    )
    places = base.transform_filter("isValid(datum.place)").mark_tick(color=other, thickness=2, height=14)
    stars = known.mark_text(align="left", color=theme.ink)
    value = alt.X("value:Q", axis=axis, **x)
    chart = alt.layer(
        bars.mark_rule(strokeWidth=1.6, clip=True, color=best).encode(
            x=alt.X("low:Q", axis=axis, **x), x2="high:Q"
        ),
        filled.encode(x=value, tooltip=tooltip),
        empty.encode(x=value, tooltip=tooltip),
        places.encode(x=alt.X("place:Q", axis=axis, **x)),
        stars.encode(x=alt.value(width + 6), text="star:N"),
    ).properties(width=width, height=alt.Step(24))
    drawn = draw_panels(chart, data, list(dict.fromkeys(panels)), 1, width)
    lines = [
        "the lower, the better; bars: 95 % intervals",
        f"ticks: {_PLACE}; filled, *: adjusted p < {SIGNIFICANT}",
    ]
    return drawn.properties(title=make_remark(lines, theme, request.width))
