"""Groups of documents: small charts of the rows in which they differ most, an interval a group."""

import math
from typing import Any

import altair as alt

from attnprobe.reports.columns import (
    DrawingRequest,
    Record,
    bound_interval,
    make_title,
    read_with_errors,
    title_axis,
)
from attnprobe.reports.groups import (
    count_texts,
    lay_out_groups,
    list_compared,
    list_groups,
    name_rows,
    sort_by_difference,
)
from attnprobe.reports.pairs import name_head
from attnprobe.reports.pictures.channels import draw_panels, make_tooltip
from attnprobe.sums.resampling import SIGNIFICANT
from attnprobe.table.cells import clean
from attnprobe.table.head_table import HeadTable
from attnprobe.table.table import Column

#: So many rows are drawn, and of so many measures where none is named.
_MOST_ROWS, _MOST_MEASURES = 12, 2
#: How wide a small chart is at least, beside the names of its groups.
_LEAST = 130
#: The legend of a narrower picture is in one column.
_NARROW = 420
_GAP = 24
_LONGEST = 24
_SAID = {True: f"* groups differ (adjusted p < {SIGNIFICANT})", False: "not significant"}


def can_draw_groups(table: HeadTable) -> bool:
    """Tell whether it was tested of a measure whether groups are alike."""
    return bool(list_compared(table))


def draw_groups(table: HeadTable, request: DrawingRequest) -> Any:
    """Draw the rows in which groups differ most: of each group its 95 % interval, and a line for all groups.

    Rows in which groups differ significantly have a colour and a star.
    """
    tested = list_compared(table)
    named = [column for column in request.columns(table) if column in tested] if request.measures else []
    charts = [_draw_measure(table, column, request) for column in (named or tested)[:_MOST_MEASURES]]
    return charts[0] if len(charts) == 1 else alt.vconcat(*charts)


def _drop_nan(value: float) -> float | None:
    return None if math.isnan(value) else value


def _draw_measure(table: HeadTable, column: Column, request: DrawingRequest) -> Any:
    every = sort_by_difference(lay_out_groups(table, column.name, name_head))
    rows = every[:_MOST_ROWS]
    values, errors = read_with_errors(table, column.name)
    counts = count_texts(table)
    groups = [
        clean(name)[:_LONGEST] + (f" ({counts[name]:,})" if name in counts else "")
        for name in list_groups(table)
    ]
    data: list[Record] = []
    panels = []
    for one in rows:
        panel = f"{one.label}{' *' if one.p < SIGNIFICANT else ''}"
        panels.append(panel)
        for group, row in zip(groups, one.rows, strict=True):
            if row is None:
                continue
            data.append({
                "panel": panel, "group": group, "value": values[row], "error": errors[row],
                "all": values[one.whole], "q": _drop_nan(one.q), "p": _drop_nan(one.p),
                "sure": _SAID[one.p < SIGNIFICANT],
            })  # fmt: skip
    names, heading = (
        12 + 0.55 * request.theme.size * max(map(len, some), default=0) for some in (groups, panels)
    )
    least = min(max(_LEAST, heading), request.width - names)
    # The names of groups stand before the first chart of a line alone.
    across = max(1, min(4, len(panels), int((request.width - names) // (least + _GAP))))
    width = int(max(least, (request.width - names) / across - _GAP))
    x: dict[str, Any] = {"title": None, "scale": alt.Scale(zero=False)}
    axis = alt.Axis(ticks=False, domain=False, labelLimit=160)
    base = alt.Chart().encode(y=alt.Y("group:N", sort=groups, title=None, axis=axis))
    palette, muted = request.theme.categories, request.theme.muted
    scale = alt.Scale(domain=[*_SAID.values()], range=[palette[0], muted])
    legend = alt.Legend(title=None, orient="bottom", columns=1 if request.width < _NARROW else 2)
    colour = alt.Color("sure:N", scale=scale, legend=legend)
    tooltip = make_tooltip({
        "group:N": "group", "value:Q": column.name.replace("_", " "), "error:Q": "standard error",
        "all:Q": "all groups", "q:Q": "Cochran's Q", "p:Q": "adjusted p",
    })  # fmt: skip
    bars = base.transform_filter("isValid(datum.value) && isValid(datum.error)").transform_calculate(
        **bound_interval(values, column.unit)
    )
    line = alt.Chart().mark_rule(strokeDash=[3, 3], color=muted)
    chart = alt.layer(
        line.encode(x=alt.X("mean(all):Q", **x)),
        bars.mark_rule(strokeWidth=1.6).encode(x=alt.X("low:Q", **x), x2="high:Q", color=colour),
        base.transform_filter("isValid(datum.value)")
        .mark_point(filled=True, size=50, opacity=1)
        .encode(x=alt.X("value:Q", **x), color=colour, tooltip=tooltip),
    ).properties(width=width, height=alt.Step(18))
    drawn = draw_panels(chart, data, panels, across, width, "").resolve_scale(x="shared")
    left_out = f"the {len(rows)} of {len(every)} {name_rows(table)} with the smallest p"
    said = [
        left_out if len(every) > len(rows) else "",
        "dashes: all groups together" + ("; whiskers: 95 % intervals" if any(errors) else ""),
        f"in brackets: {_name_counted(table)}" if counts else "",
    ]
    below = "; ".join(filter(None, said))
    return drawn.properties(
        title=make_title(title_axis(column), below, width=request.width, size=request.theme.small(1))
    )


def _name_counted(table: HeadTable) -> str:
    """Say what is counted in ``n``."""
    unit = table.column("n").unit
    return f"number of {clean(unit) or 'sequences'}"
