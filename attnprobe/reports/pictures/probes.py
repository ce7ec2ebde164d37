"""What all heads find together, beside the best of them, the best rule and a model with random weights."""

from typing import Any

import altair as alt

from attnprobe.reports.columns import DrawingRequest, label_rows, list_keys, read_cells, read_numbers
from attnprobe.reports.pictures.channels import draw_panels, make_tooltip
from attnprobe.table.cells import format_cell
from attnprobe.table.head_table import HeadTable

#: Standard errors on either side.
_SIDES = 1.96
#: Marks by the column that they show.
_MARKS = {
    "accuracy": "all heads", "best_head_accuracy": "best head", "baseline": "simple rule",
    "control": "random weights",
}  # fmt: skip
_LONGEST = 40


def draw_probes(table: HeadTable, request: DrawingRequest) -> Any:
    """Draw a line a label, in the order of the table: a mark for each of what finds links.

    The 95 % interval is that of all heads together.
    """
    names = [name for name in list_keys(table) if name not in {"model", "dataset"}]
    label = names[0]
    panels = label_rows(table, [name for name in list_keys(table) if name != label])
    named = [format_cell(cell)[:_LONGEST] for cell in read_cells(table, label)]
    shown = {column: mark for column, mark in _MARKS.items() if column in table.data}
    errors = read_numbers(table, "accuracy_se")
    bits, uniform = read_numbers(table, "bits"), read_numbers(table, "bits_uniform")
    data = []
    for column, mark in shown.items():
        for row, value in enumerate(read_numbers(table, column)):
            error = errors[row] if column == "accuracy" else None
            spread = (
                None if value is None or error is None else (value - _SIDES * error, value + _SIDES * error)
            )
            low, high = spread or (None, None)
            data.append({
                "panel": panels[row], "label": named[row], "by": mark, "value": value, "low": low,
                "high": high, "bits": bits[row], "uniform": uniform[row],
            })  # fmt: skip
    labels = list(dict.fromkeys(named))
    room = 12 + request.theme.size * 0.55 * max(map(len, labels))
    width = int(max(140, min(520, request.width - room - 60)))
    palette = request.theme.categories
    colours = [palette[0], palette[1], palette[2], request.theme.muted][: len(_MARKS)]
    order = list(shown.values())
    below = alt.Legend(title=None, orient="bottom", columns=2 if request.width < 420 else 4)
    known_marks = list(_MARKS.values())
    scale = {mark: place for place, mark in enumerate(known_marks)}
    colour = alt.Color(
        "by:N", legend=below, scale=alt.Scale(domain=order, range=[colours[scale[one]] for one in order])
    )
    shapes = ["circle", "diamond", "stroke", "triangle-up"]
    shape = alt.Shape(
        "by:N", legend=below, scale=alt.Scale(domain=order, range=[shapes[scale[one]] for one in order])
    )
    axis = alt.Axis(grid=True, domain=False, ticks=False, labelLimit=220)
    base = alt.Chart().encode(y=alt.Y("label:N", sort=labels, title=None, axis=axis))
    x: dict[str, Any] = {"title": "links found", "scale": alt.Scale(domain=[0, 1], nice=False)}
    percent = alt.Axis(format="%", tickCount=5, grid=False)
    tooltip = make_tooltip({
        "label:N": label.replace("_", " "), "by:N": "found by", "value:Q": "links found",
        "bits:Q": "bits per link", "uniform:Q": "uniform code",
    })  # fmt: skip
    bars = base.transform_filter("isValid(datum.low)").mark_rule(strokeWidth=1.6, clip=True)
    points = base.transform_filter("isValid(datum.value)").mark_point(size=56, strokeWidth=1.6, opacity=1)
    chart = alt.layer(
        bars.encode(x=alt.X("low:Q", axis=percent, **x), x2="high:Q", color=colour),
        points.encode(x=alt.X("value:Q", axis=percent, **x), color=colour, shape=shape, tooltip=tooltip),
    ).properties(width=width, height=alt.Step(17 if len(labels) <= 60 else 14))
    return draw_panels(chart, data, list(dict.fromkeys(panels)), 1, width)
