"""Groups of documents: the rows in which they differ most, by how much, with intervals."""

import math
from typing import Any

import altair as alt

from attnprobe.reports.columns import (
    DrawingRequest,
    Record,
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
from attnprobe.reports.pictures.channels import draw_panels, make_tooltip
from attnprobe.reports.scales import BEYOND
from attnprobe.sums.inference import SIGNIFICANT
from attnprobe.table.cells import clean
from attnprobe.table.head_table import HeadTable
from attnprobe.table.table import Column

#: So many rows are drawn; and of so many measures where none is named.
_MOST_ROWS, _MOST_MEASURES = 12, 2
#: How wide a small chart is at least, between two, and most letters of a group's name.
_LEAST, _GAP, _LONGEST = 130, 24, 24
#: The legend of a narrower picture is in one column.
_NARROW = 420
_SAID = {True: f"* groups differ (adjusted p < {SIGNIFICANT})", False: "not significant"}


def can_draw_groups(table: HeadTable) -> bool:
    """Tell whether it was tested of a measure whether groups are alike."""
    return bool(list_compared(table))


def draw_groups(table: HeadTable, request: DrawingRequest) -> Any:
    """Draw the rows in which groups differ most, with the value of each group.

    Rows in which groups differ significantly have a colour and a star.
    """
    tested = list_compared(table)
    named = [column for column in request.columns(table) if column in tested] if request.measures else []
    charts = [_draw_measure(table, column, request) for column in (named or tested)[:_MOST_MEASURES]]
    return charts[0] if len(charts) == 1 else alt.vconcat(*charts)


def _draw_measure(table: HeadTable, column: Column, request: DrawingRequest) -> Any:
    """Draw a small chart a row, with a point a group."""
    counts, every = count_texts(table), sort_by_difference(lay_out_groups(table, column.name))
    groups = [
        f"{clean(name)[:_LONGEST]}{f' ({counts[name]:,})' if name in counts else ''}"
        for name in list_groups(table)
    ]
    values, errors = read_with_errors(table, column.name)
    data: list[Record] = []
    panels = []
    for one in every[:_MOST_ROWS]:
        sure = one.p < SIGNIFICANT
        shared = {
            "panel": f"{one.label}{' *' if sure else ''}", "q": None if math.isnan(one.q) else one.q,
            "p": None if math.isnan(one.p) else one.p, "sure": _SAID[sure],
        }  # fmt: skip
        panels.append(shared["panel"])
        own, of_own = (
            [None if row is None else cells[row] for row in one.rows] for cells in (values, errors)
        )
        for group, value, error in zip(groups, own, of_own, strict=True):
            if value is None:
                continue
            spread = None if error is None else BEYOND * error
            low, high = (None, None) if spread is None else (value - spread, value + spread)
            data.append({**shared, "group": group, "value": value, "error": error, "low": low, "high": high})
    names, heading = (
        12 + 0.55 * request.theme.size * max(map(len, some), default=0) for some in (groups, panels)
    )
    least = min(max(_LEAST, heading), request.width - names)
    # The names of groups stand before the first chart of a line alone.
    across = max(1, min(4, len(panels), int((request.width - names) // (least + _GAP))))
    width = int(max(least, (request.width - names) / across - _GAP))
    x: dict[str, Any] = {"title": None, "axis": alt.Axis(tickCount=4), "scale": alt.Scale(zero=False)}
    axis = alt.Axis(ticks=False, domain=False, labelLimit=160)
    base = alt.Chart().encode(y=alt.Y("group:N", sort=groups, title=None, axis=axis))
    scale = alt.Scale(domain=[*_SAID.values()], range=[request.theme.categories[0], request.theme.muted])
    legend = alt.Legend(title=None, orient="bottom", columns=1 if request.width < _NARROW else 2)
    colour = alt.Color("sure:N", scale=scale, legend=legend)
    tooltip = make_tooltip({
        "group:N": "group", "value:Q": "value", "panel:N": "of", "error:Q": "standard error",
        "q:Q": "Cochran's Q", "p:Q": "adjusted p",
    })  # fmt: skip
    chart = alt.layer(
        base.transform_filter("isValid(datum.low)")
        .mark_rule(strokeWidth=1.6)
        .encode(x=alt.X("low:Q", **x), x2="high:Q", color=colour),
        base.mark_point(filled=True, size=50, opacity=1).encode(
            x=alt.X("value:Q", **x), color=colour, tooltip=tooltip
        ),
    ).properties(width=width, height=alt.Step(18))
    drawn = draw_panels(chart, data, panels, across, width, "").resolve_scale(x="shared")
    what = name_rows(table)
    lines = [
        f"the {len(panels)} of {len(every)} {what} with the smallest p" if len(every) > len(panels) else "",
        "points: a group; bars: 95 % intervals, not adjusted",
        f"in brackets: number of {clean(table.column('n').unit) or 'sequences'}" if counts else "",
    ]
    title = make_title(title_axis(column), *lines, width=request.width, size=request.theme.small(1))
    return drawn.properties(title=title)
