"""A line a correlation."""

from typing import Any

import altair as alt

from attnprobe.reports.columns import (
    DrawingRequest,
    Record,
    label_rows,
    list_keys,
    read_numbers,
)
from attnprobe.reports.pictures.channels import draw_panels, make_tooltip
from attnprobe.table.head_table import HeadTable

_COEFFICIENTS = {
    "pearson": "Pearson",
    "spearman": "Spearman",
    "kendall": "Kendall",
}


def draw_intervals(table: HeadTable, request: DrawingRequest) -> Any:
    """Draw each coefficient on the scale from -1 to 1, with its 95 % interval where the table has one."""
    panels = label_rows(table, list_keys(table))
    data: list[Record] = []
    for name, shown in _COEFFICIENTS.items():
        ends = (read_numbers(table, f"{name}{end}") for end in ("", "_low", "_high"))
        data += [
            {"panel": panel, "name": shown, "value": value, "low": low, "high": high}
            for panel, value, low, high in zip(panels, *ends, strict=True)
        ]
    width = int(min(420, request.width - 190))
    scale = alt.Scale(domain=[-1, 1], nice=False)
    x: dict[str, Any] = {"title": "correlation over heads", "scale": scale}
    x["axis"] = alt.Axis(values=[-1, -0.5, 0, 0.5, 1])
    y_axis = alt.Axis(ticks=False, domain=False)
    y = alt.Y("name:N", sort=list(_COEFFICIENTS.values()), title=None, axis=y_axis)
    base = alt.Chart().encode(y=y)
    bars = base.transform_filter("isValid(datum.low) && isValid(datum.high)").mark_rule(strokeWidth=1.6)
    points = base.transform_filter("isValid(datum.value)").mark_point(filled=True, size=60, opacity=1)
    tooltip = make_tooltip({"name:N": "coefficient", **{f"{end}:Q": end for end in ("value", "low", "high")}})
    zero = alt.Chart().mark_rule(strokeDash=[3, 3], color=request.theme.muted)
    chart = alt.layer(
        zero.encode(x=alt.datum(0, scale=scale)),
        bars.encode(x=alt.X("low:Q", **x), x2="high:Q"),
        points.encode(x=alt.X("value:Q", **x), tooltip=tooltip),
    ).properties(width=width, height=alt.Step(26))
    return draw_panels(chart, data, list(dict.fromkeys(panels)), 1, width)
