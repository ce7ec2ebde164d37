"""What heads find: a line a relation with its best head, and what that gains over the best simple rule."""

import math
from collections.abc import Sequence
from typing import Any

import altair as alt

from attnprobe.reports.columns import (
    DrawingRequest,
    Record,
    label_by_others,
    list_keys,
    read_cells,
    read_numbers,
)
from attnprobe.reports.pictures.channels import make_records, make_remark, make_tooltip, tell_marks_apart
from attnprobe.reports.pictures.gains import ALL, LESS, LETTER, MORE, SAME, compare_rows
from attnprobe.reports.scales import read_spreads
from attnprobe.sums.inference import SIGNIFICANT
from attnprobe.table.cells import Cell, format_cell
from attnprobe.table.head_table import HeadTable
from attnprobe.table.kinds import RULES
from attnprobe.table.numbers import name_head

#: Most characters of a label.
_LONGEST = 36
#: What a point is, by how it compares with the rule.
_MARKS = {
    MORE: "attention head finds more",
    SAME: "attention head: no significant difference",
    LESS: "attention head finds less",
}
#: Pixels of a line, beside text, and of the axis at least and at most.
_LINE, _GAP, _LEAST, _MOST = 17, 8, 80, 320
#: Narrower pictures have their legend in one column.
_NARROW = 420


def draw_relations(table: HeadTable, request: DrawingRequest) -> Any:
    """Draw a line a label, those first whose head gains most over the rule; a chart for each direction.

    A point is the gain with its 95 % interval. It is filled where the adjusted p is below 0.05, a triangle
    where its interval ends below 0, and empty otherwise. Beside it stand the head and the gain.
    """
    label = next(name for name in list_keys(table) if name not in {"model", "dataset"})
    data = _read_relations(table, label)
    room = LETTER * request.theme.small(2) * max(len(record["text"]) for record in data)
    labels = LETTER * request.theme.small(1) * max(len(record["label"]) for record in data)
    width = int(max(_LEAST, min(_MOST, request.width - labels - room - 4 * _GAP)))
    sides = list(dict.fromkeys(record["panel"] for record in data))
    charts = [
        _draw_side([one for one in data if one["panel"] == side], side, label, width, data, request)
        for side in sides
    ]
    lines = [
        "gain: what the best head finds minus what the best simple rule finds; bars: its 95 % interval",
        f"finds more, *: adjusted p < {SIGNIFICANT}",
    ]
    return alt.concat(*charts, columns=1, title=make_remark(lines, request.theme, request.width))


def _draw_side(
    rows: list[Record], side: str, label: str, width: int, data: Sequence[Record], request: DrawingRequest,
) -> Any:  # fmt: skip
    theme = request.theme
    rows = sorted(rows, key=lambda one: (one["said"] != ALL, one["gain"] is None, -(one["gain"] or 0.0)))
    names = alt.Axis(grid=True, domain=False, ticks=False, labelLimit=240, labelOverlap=False)
    order = list(dict.fromkeys(one["label"] for one in rows))
    chart = alt.Chart(alt.InlineData(values=rows)).encode(
        y=alt.Y("label:N", sort=order, title=None, axis=names)
    )
    tooltip = make_tooltip({
        "label:N": label.replace("_", " "), "panel:N": "of", "n:Q": "links", "name:N": "head",
        "mark:N": "mark", "accuracy:Q": "accuracy", "error:Q": "standard error",
        "baseline:Q": "simple rule finds", "rule:N": "simple rule", "gain:Q": "gain",
        "gain_error:Q": "standard error of the gain", "p:Q": "adjusted p",
    })  # fmt: skip
    axis = alt.Axis(
        grid=False, tickCount=max(2, width // 45), labelOverlap=True,
        labelExpr="datum.value === 0 ? '0' : format(datum.value, '+.1~f')",
    )  # fmt: skip
    scale = alt.Scale(domain=_find_ends(data), nice=False)
    x: dict[str, Any] = {"title": "gain over the rule", "scale": scale, "axis": axis}
    looks = _make_looks(data, request)
    once = alt.Chart(alt.InlineData(values=[{"zero": 0}]))
    bars = chart.transform_filter("isValid(datum.low)").mark_rule(strokeWidth=1.4, clip=True)
    points = chart.transform_filter("isValid(datum.gain)").mark_point(size=40, strokeWidth=1.5, opacity=1)
    parts = [
        once.mark_rule(color=theme.muted, strokeDash=[3, 3]).encode(x=alt.X("zero:Q", **x)),
        bars.encode(x=alt.X("low:Q", **x), x2="high:Q", stroke=looks["stroke"]),
        points.encode(x=alt.X("gain:Q", **x), tooltip=tooltip, **looks),
    ]
    texts = chart.mark_text(align="left", fontSize=theme.small(2), color=theme.ink)
    parts.append(texts.encode(x=alt.value(width + _GAP), text="text:N"))
    drawn = alt.layer(*parts).properties(width=width, height=alt.Step(_LINE))
    return drawn.properties(title=alt.TitleParams(side)) if side else drawn


def _find_ends(data: Sequence[Record]) -> list[float]:
    """Find the ends of the axis of gains: tenths that hold 0 and all intervals; of shares, from -1 to 1."""
    known = [one[name] for one in data for name in ("gain", "low", "high") if one[name] is not None]
    low = max(-1.0, min(known, default=0.0))
    high = min(1.0, max(known, default=0.0))
    return [min(math.floor(10 * low) / 10, -0.1), max(math.ceil(10 * high) / 10, 0.1)]


def _make_looks(data: Sequence[Record], request: DrawingRequest) -> dict[str, Any]:
    """Make the channels by which marks differ: shape, fill and stroke; the legend has those that occur."""
    theme = request.theme
    best, _, _, less, *_ = theme.categories
    looks = {
        _MARKS[MORE]: ("circle", best, best),
        _MARKS[SAME]: ("circle", theme.background, best),
        _MARKS[LESS]: ("triangle-down", theme.background, less),
    }
    there = {record["mark"] for record in data if record["gain"] is not None}
    columns = 1 if request.width < _NARROW else 2
    legend = alt.Legend(title=None, orient="bottom", columns=columns, labelLimit=400)
    return tell_marks_apart({mark: look for mark, look in looks.items() if mark in there}, legend)


def _read_relations(table: HeadTable, label: str) -> list[Record]:
    rule = next(name for name in RULES if name in table.data)
    places = list(zip(*(read_cells(table, name) for name in ("layer", "head", "position")), strict=True))
    gains, errors = read_numbers(table, "gain"), read_numbers(table, "gain_se")
    compared = compare_rows(table, gains)
    said, rules = ([format_cell(cell) for cell in read_cells(table, name)] for name in (label, rule))
    n = read_numbers(table, "n")
    spreads = [
        None if gain is None else spread
        for gain, spread in zip(gains, read_spreads(table, "gain"), strict=True)
    ]
    return make_records({
        "said": said, "label": [one[:_LONGEST] for one in said], "panel": label_by_others(table, {label}),
        "n": n, "name": [_name_place(*place) for place in places], "rule": rules,
        "mark": [_MARKS[one] for one in compared], "accuracy": read_numbers(table, "accuracy"),
        "error": read_numbers(table, "accuracy_se"), "baseline": read_numbers(table, "baseline"),
        "gain": gains, "gain_error": errors, "p": read_numbers(table, "p_adjusted"),
        "low": [s if s is None else (gain or 0.0) - s for gain, s in zip(gains, spreads, strict=True)],
        "high": [s if s is None else (gain or 0.0) + s for gain, s in zip(gains, spreads, strict=True)],
        "text": [
            f"{_name_place(*place)}  {_write_gain(gain, how)}"
            for place, gain, how in zip(places, gains, compared, strict=True)
        ],
    })  # fmt: skip


def _name_place(layer: Cell, head: Cell, position: Cell) -> str:
    if layer is None:
        return ""
    return name_head(layer, head) + (f" {position}" if position else "")


def _write_gain(gain: float | None, compared: int) -> str:
    if gain is None:
        return ""
    return f"{gain:+.2f}{' *' if compared == MORE else ''}".replace("-", "\u2212")
