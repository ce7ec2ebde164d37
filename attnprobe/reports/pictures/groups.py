"""Groups of documents: the rows in which they differ most, by how much, with intervals."""

import math
from collections.abc import Sequence
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
from attnprobe.reports.pairs import name_head
from attnprobe.reports.pictures.channels import draw_panels, make_tooltip
from attnprobe.reports.scales import BEYOND
from attnprobe.sums.resampling import SIGNIFICANT
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
#: The sign of a number on an axis around 0.
_SIGNED = "datum.value === 0 ? '0' : format(datum.value, '+.2~g')"


def can_draw_groups(table: HeadTable) -> bool:
    """Tell whether it was tested of a measure whether groups are alike."""
    return bool(list_compared(table))


def draw_groups(table: HeadTable, request: DrawingRequest) -> Any:
    """Draw the rows in which groups differ most: how far each group is from the mean of all.

    See ``find_deviations``. Rows in which groups differ significantly have a colour and a star.
    """
    tested = list_compared(table)
    named = [column for column in request.columns(table) if column in tested] if request.measures else []
    charts = [_draw_measure(table, column, request) for column in (named or tested)[:_MOST_MEASURES]]
    return charts[0] if len(charts) == 1 else alt.vconcat(*charts)


def find_deviations(
    values: Sequence[float | int | None], errors: Sequence[float | int | None]
) -> list[tuple[float | None, float | None]]:
    """Subtract the mean over G groups from each of them, with the standard errors of what is left.

        d_g = v_g - mean_k v_k,  s_d^2 = (1 - 1/G)^2 s_g^2 + sum_(k != g) s_k^2 / G^2

    Groups have no document in common, so that squares of errors add up. Those without a number are left out,
    and have none.
    """
    known = [row for row, value in enumerate(values) if value is not None]
    if not known:
        return [(None, None)] * len(values)
    many = len(known)
    mean = sum(values[row] or 0.0 for row in known) / many
    squares = [None if (error := errors[row]) is None else error**2 for row in known]
    whole = None if None in squares else sum(square or 0.0 for square in squares)
    found: list[tuple[float | None, float | None]] = [(None, None)] * len(values)
    for row in known:
        own = errors[row]
        error = None
        if whole is not None and own is not None:
            error = math.sqrt(max(0.0, (1 - 2 / many) * own**2 + whole / many**2))
        found[row] = ((values[row] or 0.0) - mean, error)
    return found


def _draw_measure(table: HeadTable, column: Column, request: DrawingRequest) -> Any:
    """Draw a small chart a row, with each group less the mean of all groups of it."""
    counts, every = count_texts(table), sort_by_difference(lay_out_groups(table, column.name, name_head))
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
        for group, value, (apart, error) in zip(groups, own, find_deviations(own, of_own), strict=True):
            if value is None or apart is None:
                continue
            spread = None if error is None else BEYOND * error
            low, high = (None, None) if spread is None else (apart - spread, apart + spread)
            data.append({
                **shared, "group": group, "own": value, "value": apart, "error": error, "low": low,
                "high": high,
            })  # fmt: skip
    names, heading = (
        12 + 0.55 * request.theme.size * max(map(len, some), default=0) for some in (groups, panels)
    )
    least = min(max(_LEAST, heading), request.width - names)
    # The names of groups stand before the first chart of a line alone.
    across = max(1, min(4, len(panels), int((request.width - names) // (least + _GAP))))
    width = int(max(least, (request.width - names) / across - _GAP))
    x: dict[str, Any] = {"title": None, "axis": alt.Axis(tickCount=4, labelExpr=_SIGNED)}
    axis = alt.Axis(ticks=False, domain=False, labelLimit=160)
    base = alt.Chart().encode(y=alt.Y("group:N", sort=groups, title=None, axis=axis))
    scale = alt.Scale(domain=[*_SAID.values()], range=[request.theme.categories[0], request.theme.muted])
    legend = alt.Legend(title=None, orient="bottom", columns=1 if request.width < _NARROW else 2)
    colour = alt.Color("sure:N", scale=scale, legend=legend)
    tooltip = make_tooltip({
        "group:N": "group", "own:Q": "value", "panel:N": "of", "value:Q": "less the mean of its groups",
        "error:Q": "standard error", "q:Q": "Cochran's Q", "p:Q": "adjusted p",
    })  # fmt: skip
    zero = alt.Chart().mark_rule(strokeDash=[3, 3], color=request.theme.muted)
    chart = alt.layer(
        zero.encode(x=alt.X("zero:Q", **x)).transform_calculate(zero="0"),
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
        "points: a group minus the mean of all groups; bars: 95 % intervals, not adjusted",
        f"in brackets: number of {clean(table.column('n').unit) or 'sequences'}" if counts else "",
    ]
    title = make_title(title_axis(column), *lines, width=request.width, size=request.theme.small(1))
    return drawn.properties(title=title)
