"""A line a row: correlations, checks."""

from typing import Any

import altair as alt

from attnprobe.reports.columns import (
    DrawingRequest,
    Record,
    label_rows,
    list_keys,
    read_cells,
    read_numbers,
)
from attnprobe.reports.pictures.channels import draw_panels, make_records, make_tooltip
from attnprobe.table.cells import format_cell
from attnprobe.table.head_table import HeadTable

_COEFFICIENTS = {
    "pearson": "Pearson",
    "pearson_true": "Pearson, without noise",
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


#: Places in the colours of a theme.
_COLOURS = {"ok": 2, "warning": 1, "failed": 5}


def draw_checks(table: HeadTable, request: DrawingRequest) -> Any:
    """Draw a line a check: its name, how it came out, and what was found."""
    of = label_rows(table, ["model", "dataset"])
    checks, outcomes, details = (
        [format_cell(cell) for cell in read_cells(table, name)] for name in ("check", "status", "detail")
    )
    names = [", ".join(filter(None, parts)) for parts in zip(of, checks, strict=True)]
    data = make_records({"row": range(len(table)), "name": names, "status": outcomes, "detail": details})
    left = 12 + max(map(len, names)) * request.theme.size * 0.55
    statuses = list(dict.fromkeys(outcomes))
    palette, blank = request.theme.categories, request.theme.muted
    hues = [palette[_COLOURS[status]] if status in _COLOURS else blank for status in statuses]
    scale = alt.Scale(domain=statuses, range=hues)
    y = alt.Y("row:O", axis=None)
    tooltip = make_tooltip({f"{name}:N": name for name in ("name", "status", "detail")})
    base = alt.Chart(alt.InlineData(values=data)).encode(y=y, tooltip=tooltip)
    text: dict[str, Any] = {"align": "left", "fontSize": request.theme.small(1)}
    room = max(80, request.width - left - 56)  # a longer detail ends in dots, and the tooltip has all of it
    colour = alt.Color("status:N", scale=scale, legend=None)
    status = base.mark_text(**text, fontWeight="bold")
    detail = base.mark_text(**text, color=request.theme.muted, limit=room)
    return alt.layer(
        base.mark_text(**text).encode(x=alt.value(0), text="name:N"),
        status.encode(x=alt.value(left), text="status:N", color=colour),
        detail.encode(x=alt.value(left + 56), text="detail:N"),
    ).properties(width=request.width, height=alt.Step(18))
