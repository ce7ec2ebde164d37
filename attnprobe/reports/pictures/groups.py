"""Groups of documents: the rows in which they differ most, by how much, with intervals."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from textwrap import wrap
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
    Compared,
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

#: So many rows are drawn, of two groups and of more; and of so many measures where none is named.
_MOST_PAIRED, _MOST_ROWS, _MOST_MEASURES = 24, 12, 2
#: How wide a small chart is at least, beside the names of its groups.
_LEAST = 130
#: The legend of a narrower picture is in one column.
_NARROW = 420
_GAP = 24
_LONGEST = 24
#: What bars are.
_BARS = "bars: 95 % intervals of it, not adjusted for the number of rows"
#: Of two groups: pixels of a row, of the axis at most, and between columns; letters of a group's name there.
_LINE, _WIDEST, _BETWEEN, _SHORT = 17, 320, 10, 14
#: How wide a letter is on average, as a share of its size.
_LETTER = 0.54
_SAID = {True: f"* groups differ (adjusted p < {SIGNIFICANT})", False: "not significant"}
#: The test, as ``Compared.p`` has it.
TEST = "p: Welch's F test that groups are alike, with Holm's correction over"


@dataclass(frozen=True)
class _Rows:
    """The rows of a measure that are drawn."""

    column: Column
    rows: Sequence[Compared]  # those that differ most first
    number: int  # of all rows
    groups: Sequence[str]
    values: Sequence[float | int | None]  # of all rows of the table
    errors: Sequence[float | int | None]


def can_draw_groups(table: HeadTable) -> bool:
    """Tell whether it was tested of a measure whether groups are alike."""
    return bool(list_compared(table))


def draw_groups(table: HeadTable, request: DrawingRequest) -> Any:
    """Draw the rows in which groups differ most, about a line at 0.

    Of two groups it is the second less the first, with its 95 % interval, and a column of numbers for each
    group and for p. Of more groups, it is how far each is from the mean of the groups of its row, see
    ``find_deviations``. Rows in which groups differ significantly have a colour and a star.
    """
    tested = list_compared(table)
    named = [column for column in request.columns(table) if column in tested] if request.measures else []
    groups = list_groups(table)
    draw = _draw_pairs if len(groups) == 2 else _draw_deviations
    most = _MOST_PAIRED if len(groups) == 2 else _MOST_ROWS
    charts = []
    for column in (named or tested)[:_MOST_MEASURES]:
        every = sort_by_difference(lay_out_groups(table, column.name, name_head))
        numbers = read_with_errors(table, column.name)
        found = _Rows(column, every[:most], len(every), groups, *numbers)
        charts.append(draw(table, found, request))
    return charts[0] if len(charts) == 1 else alt.vconcat(*charts)


def find_difference(
    values: Sequence[float | int | None], errors: Sequence[float | int | None]
) -> tuple[float | None, float | None]:
    """Subtract the first of two groups from the second, with the standard error.

    Groups have no document in common, so that the squares of their errors add up.
    """
    (one, other), (first, second) = values, errors
    if one is None or other is None:
        return None, None
    return other - one, None if first is None or second is None else math.hypot(first, second)


def find_deviations(
    values: Sequence[float | int | None], errors: Sequence[float | int | None]
) -> list[tuple[float | None, float | None]]:
    """Subtract the mean over G groups from each of them, with the standard errors of what is left.

        d_g = v_g - mean_k v_k,  s_d^2 = (1 - 1/G)^2 s_g^2 + sum_(k != g) s_k^2 / G^2

    Groups without a number are left out, and have none.
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


def _list_ends(value: float | None, error: float | None) -> Record:
    """List the ends of an interval; None where one is undefined."""
    known = value is not None and error is not None
    return {
        name: value + sign * BEYOND * error if known else None  # type: ignore[operator]
        for name, sign in (("low", -1), ("high", 1))
    }


def _read_records(found: _Rows, one: Compared) -> Record:
    """Begin the data of a row: what all of its marks share."""
    return {
        "panel": f"{one.label}{' *' if one.p < SIGNIFICANT else ''}", "q": _drop_nan(one.q),
        "p": _drop_nan(one.p), "sure": _SAID[one.p < SIGNIFICANT],
    }  # fmt: skip


def _pick(cells: Sequence[float | int | None], one: Compared) -> list[float | int | None]:
    """Pick the cells of the groups of a row."""
    return [None if row is None else cells[row] for row in one.rows]


def _draw_pairs(table: HeadTable, found: _Rows, request: DrawingRequest) -> Any:
    """Draw two groups: a line a row with the second less the first, and columns of numbers."""
    theme, size = request.theme, request.theme.small(2)
    data: list[Record] = []
    for one in found.rows:
        both, errors = _pick(found.values, one), _pick(found.errors, one)
        value, error = find_difference(both, errors)
        texts = {f"group{place}_text": _write(value) for place, value in enumerate(both)}
        data.append({
            **_read_records(found, one), "value": value, "error": error, **_list_ends(value, error), **texts,
            "p_text": write_p(one.p),
        })  # fmt: skip
    names = dict(zip(found.groups, shorten_names(found.groups, _SHORT), strict=True))
    first, second = names.values()
    titles = [("group0_text", first), ("group1_text", second), ("p_text", "p")]
    rooms = [
        _LETTER * size * max(len(text) for text in (title, *(record[name] for record in data))) + _BETWEEN
        for name, title in titles
    ]
    order = list(dict.fromkeys(record["panel"] for record in data))
    labels = 12 + 0.55 * theme.size * max(map(len, order), default=0)
    width = int(max(_LEAST / 2, min(_WIDEST, request.width - labels - sum(rooms) - _BETWEEN)))
    said = [
        f"{second} minus {first} ({clean(found.column.unit)})"
        if found.column.unit
        else f"{second} minus {first}"
    ]
    said = wrap(said[0], max(12, int(width / (_LETTER * theme.size))), max_lines=5, placeholder=" ...")
    ends = [record[name] for record in data for name in ("value", "low", "high") if record[name] is not None]
    x: dict[str, Any] = {
        "title": said, "scale": alt.Scale(domain=[min([0.0, *ends]), max([0.0, *ends])], nice=True),
        "axis": alt.Axis(tickCount=max(2, width // 60), labelExpr=_SIGNED),
    }  # fmt: skip
    axis = alt.Axis(ticks=False, domain=False, grid=True, labelLimit=200)
    base = alt.Chart().encode(y=alt.Y("panel:N", sort=order, title=None, axis=axis))
    colour, tooltip = _make_colour(request), _make_tooltip(found.column, f"{second} minus {first}")
    once = alt.Chart(alt.InlineData(values=[{"zero": 0}]))
    parts = [
        once.mark_rule(strokeDash=[3, 3], color=theme.muted).encode(x=alt.X("zero:Q", **x)),
        base.transform_filter("isValid(datum.low)").mark_rule(strokeWidth=1.6).encode(
            x=alt.X("low:Q", **x), x2="high:Q", color=colour
        ),
        base.transform_filter("isValid(datum.value)").mark_point(filled=True, size=44, opacity=1).encode(
            x=alt.X("value:Q", **x), color=colour, tooltip=tooltip
        ),
    ]  # fmt: skip
    end = float(width)
    for (name, title), room in zip(titles, rooms, strict=True):
        end += room
        text: dict[str, Any] = {"align": "right", "fontSize": size}
        parts.append(base.mark_text(**text, color=theme.ink).encode(x=alt.value(end), text=f"{name}:N"))
        parts.append(
            once.mark_text(**text, color=theme.muted, baseline="bottom").encode(
                x=alt.value(end), y=alt.value(-3), text=alt.value(title)
            )
        )
    chart = alt.layer(*parts, data=alt.InlineData(values=data))
    drawn = chart.properties(width=width, height=alt.Step(_LINE))
    counts = count_texts(table)
    number = {f"{counts[name]:,}" for name in found.groups if name in counts}
    many = [f"{names[name]} {counts[name]:,}" for name in found.groups if name in counts]
    lines = [
        f"points: {second} minus {first}"
        + (f"; {_BARS}" if any(record["low"] is not None for record in data) else ""),
        f"columns: {title_axis(found.column)} of each group, and p",
        f"{_name_counted(table)}: {', '.join(many)}" if number else "",
    ]
    return drawn.properties(title=_title(table, found, lines, request))


def _write(value: float | int | None) -> str:
    """Write a number with three digits, or a whole one.

    >>> _write(2.6), _write(-0.25), _write(1234.5)
    ('2.60', '\u22120.250', '1234')
    """
    if value is None:
        return ""
    return (f"{value:#.3g}" if abs(value) < _WHOLE else f"{value:.0f}").replace("-", "\u2212")


#: A smaller p is written as that; and numbers from here on have no decimals.
_TINY, _WHOLE = 0.001, 99.95
#: The sign of a number on an axis around 0.
_SIGNED = "datum.value === 0 ? '0' : format(datum.value, '+.2~g')"


def _make_colour(request: DrawingRequest) -> Any:
    scale = alt.Scale(domain=[*_SAID.values()], range=[request.theme.categories[0], request.theme.muted])
    legend = alt.Legend(title=None, orient="bottom", columns=1 if request.width < _NARROW else 2)
    return alt.Color("sure:N", scale=scale, legend=legend)


def _make_tooltip(column: Column, what: str) -> list[alt.Tooltip]:
    return make_tooltip({
        "panel:N": "of", "value:Q": f"{column.name.replace('_', ' ')}, {what}", "error:Q": "standard error",
        "q:Q": "Cochran's Q", "p:Q": "adjusted p",
    })  # fmt: skip


def _title(table: HeadTable, found: _Rows, lines: Sequence[str], request: DrawingRequest) -> Any:
    """Title a measure, and say how rows are chosen, what marks are, and which test it is."""
    what = name_rows(table)
    chosen = f"the {len(found.rows)} of {found.number} {what} with the smallest p"
    said = [chosen if found.number > len(found.rows) else "", *lines, f"{TEST} {what}"]
    return make_title(title_axis(found.column), *said, width=request.width, size=request.theme.small(1))


def shorten_names(names: Sequence[str], most: int) -> list[str]:
    """Cut names to so many letters; those that begin alike lose what they have in common.

    >>> shorten_names(["corpus-english-1", "corpus-english-2"], 9), shorten_names(["news", "reports"], 9)
    (['\u20261', '\u20262'], ['news', 'reports'])
    """
    names = [clean(name) for name in names]
    short = [name[:most] for name in names]
    if len(set(short)) < len(set(names)):
        differ = (at for at, letters in enumerate(zip(*names, strict=False)) if len(set(letters)) > 1)
        alike = next(differ, min(map(len, names)))
        short = [f"\u2026{name[alike:][: most - 1]}" for name in names]
    return short


def write_p(p: float) -> str:
    """Write a p value with two digits, or as many as say on which side of 0.05 it is."""
    if math.isnan(p):
        return ""
    if p < _TINY:
        return f"< {_TINY:g}"
    texts = (f"{p:#.{digits}g}" for digits in range(2, 17))
    return next((text for text in texts if (float(text) < SIGNIFICANT) == (p < SIGNIFICANT)), f"{p:g}")


def _drop_nan(value: float) -> float | None:
    return None if math.isnan(value) else value


def _draw_deviations(table: HeadTable, found: _Rows, request: DrawingRequest) -> Any:
    """Draw more groups than two: a small chart a row, with each group less the mean of all groups of it."""
    counts = count_texts(table)
    groups = [
        short + (f" ({counts[name]:,})" if name in counts else "")
        for name, short in zip(found.groups, shorten_names(found.groups, _LONGEST), strict=True)
    ]
    data: list[Record] = []
    panels = []
    for one in found.rows:
        shared = _read_records(found, one)
        panels.append(shared["panel"])
        own = _pick(found.values, one)
        deviations = find_deviations(own, _pick(found.errors, one))
        for group, value, (apart, error) in zip(groups, own, deviations, strict=True):
            if value is not None:
                more = {"group": group, "own": value, "value": apart, "error": error}
                data.append({**shared, **more, **_list_ends(apart, error)})
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
    colour = _make_colour(request)
    what = "less the mean of its groups"
    tooltip = [*make_tooltip({"group:N": "group", "own:Q": "value"}), *_make_tooltip(found.column, what)]
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
    barred = f"; {_BARS}" if any(record["low"] is not None for record in data) else ""
    lines = [
        f"points: a group minus the mean of the groups of its {_name_row(table)}{barred}",
        f"in brackets: {_name_counted(table)}" if counts else "",
    ]
    return drawn.properties(title=_title(table, found, lines, request))


def _name_row(table: HeadTable) -> str:
    return name_rows(table).removesuffix("s")


def _name_counted(table: HeadTable) -> str:
    """Say what is counted in ``n``."""
    unit = table.column("n").unit
    return f"number of {clean(unit) or 'sequences'}"
