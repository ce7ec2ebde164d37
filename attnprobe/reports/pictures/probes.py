"""What all heads find together, beside the best of them, the best rule and a model with random weights."""

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
from attnprobe.reports.pictures.channels import draw_panels, make_remark, make_tooltip, tell_marks_apart
from attnprobe.reports.pictures.gains import ALL, LESS, LETTER, MORE, SAME, compare_rows
from attnprobe.reports.scales import read_spreads
from attnprobe.sums.inference import SIGNIFICANT
from attnprobe.table.cells import format_cell
from attnprobe.table.head_table import HeadTable

#: Marks by the column that they show.
_MARKS = {
    "accuracy": "all heads together", "best_head_accuracy": "best attention head",
    "baseline": "best simple rule", "control": "a model with random weights",
}  # fmt: skip
#: What all heads together are, by whether they find significantly more than the best of them.
_TOGETHER = {
    MORE: "all heads together: more than the best head",
    SAME: "all heads together: no significant difference",
    LESS: "all heads together: less than the best head",
}
_LONGEST = 40
#: The mark of a rule: a tick across the line.
_TICK = "M0,-1L0,1"


def draw_probes(table: HeadTable, request: DrawingRequest) -> Any:
    """Draw a line a label, those first of which most is found: a mark for each of what finds links."""
    theme = request.theme
    label = next(name for name in list_keys(table) if name not in {"model", "dataset"})
    data = _read_probes(table, label)
    order = list(dict.fromkeys(one["label"] for one in sorted(data, key=lambda one: one["first"])))
    texts = ["links", *(one["text"] for one in data)]
    names, beside = (10 + LETTER * theme.small(1) * max(map(len, some)) for some in (order, texts))
    width = int(max(100, min(520, request.width - names - beside)))
    axis = alt.Axis(grid=True, domain=False, ticks=False, labelLimit=240)
    base = alt.Chart().encode(y=alt.Y("label:N", sort=order, title=None, axis=axis))
    x: dict[str, Any] = {
        "title": "share of links found", "scale": alt.Scale(domain=[0, 1], nice=False),
        "axis": alt.Axis(format=".2~f", values=[0, 0.25, 0.5, 0.75, 1], grid=False, labelOverlap=True),
    }  # fmt: skip
    tooltip = make_tooltip({
        "label:N": label.replace("_", " "), "by:N": "found by", "value:Q": "links found", "n:Q": "links",
        "p:Q": "adjusted p",
    })  # fmt: skip
    looks = _make_looks(data, request)
    bars = base.transform_filter("isValid(datum.low)").mark_rule(strokeWidth=1.6, clip=True)
    points = base.transform_filter("isValid(datum.value)").mark_point(size=52, strokeWidth=1.6, opacity=1)
    counts = base.transform_filter(f"datum.by === '{_MARKS['accuracy']}'").mark_text(
        align="right", fontSize=theme.small(2), color=theme.ink
    )
    chart = alt.layer(
        bars.encode(x=alt.X("low:Q", **x), x2="high:Q", stroke=looks["stroke"]),
        points.encode(x=alt.X("value:Q", **x), tooltip=tooltip, **looks),
        counts.encode(x=alt.value(width + beside), text="text:N"),
    ).properties(width=width, height=alt.Step(17))
    drawn = draw_panels(chart, data, list(dict.fromkeys(one["panel"] for one in data)), 1, width)
    lines = [
        "bars: 95 % intervals of all heads together; at the right: number of links",
        f"more than the best head: adjusted p < {SIGNIFICANT}",
    ]
    return drawn.properties(title=make_remark(lines, theme, request.width))


def _read_probes(table: HeadTable, label: str) -> list[Record]:
    """Read a record for each mark; ``first`` sorts lines by what all heads find, all links first."""
    panels = label_by_others(table, {label})
    said = [format_cell(cell) for cell in read_cells(table, label)]
    spreads = read_spreads(table, "accuracy")
    p, n = (read_numbers(table, name) for name in ("p_adjusted", "n"))
    together, best = (read_numbers(table, name) for name in ("accuracy", "best_head_accuracy"))
    gains = [None if a is None or b is None else a - b for a, b in zip(together, best, strict=True)]
    compared = compare_rows(table, gains)
    data: list[Record] = []
    for column, mark in _MARKS.items():
        if column not in table.data:
            continue
        for row, value in enumerate(read_numbers(table, column)):
            spread = spreads[row] if column == "accuracy" else None
            low = high = None
            if value is not None and spread is not None:
                low, high = value - spread, value + spread
            data.append({
                "panel": panels[row], "label": said[row][:_LONGEST], "by": mark, "value": value,
                "mark": _TOGETHER[compared[row]] if column == "accuracy" else mark, "low": low, "high": high,
                "p": p[row], "n": n[row], "text": "" if n[row] is None else f"{n[row]:,}",
                "first": [said[row] != ALL, together[row] is None, -(together[row] or 0.0)],
            })  # fmt: skip
    return data


def _make_looks(data: list[Record], request: DrawingRequest) -> dict[str, Any]:
    """Make the channels by which marks differ: shape, fill and stroke; the legend has those that occur."""
    theme = request.theme
    own, rule, best, less, *_ = theme.categories
    best_head, simple, random = list(_MARKS.values())[1:]
    looks = {
        _TOGETHER[MORE]: ("circle", own, own), _TOGETHER[SAME]: ("circle", theme.background, own),
        _TOGETHER[LESS]: ("triangle-down", theme.background, less),
        best_head: ("diamond", theme.background, best), simple: (_TICK, rule, rule),
        random: ("triangle-up", theme.background, theme.muted),
    }  # fmt: skip
    there = {one["mark"] for one in data if one["value"] is not None}
    legend = alt.Legend(
        title=None, orient="bottom", columns=1, symbolStrokeWidth=1.6, labelLimit=request.width
    )
    return tell_marks_apart({mark: look for mark, look in looks.items() if mark in there}, legend)
