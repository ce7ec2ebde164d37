"""How the order of heads settles over the steps of training, and from which step on it has settled."""

from collections.abc import Sequence
from typing import Any

import altair as alt
import numpy as np

from attnprobe.reports.columns import (
    DrawingRequest,
    Record,
    label_rows,
    read_cells,
    read_numbers,
    sort_labels,
)
from attnprobe.reports.pictures.channels import choose_across, draw_panels, make_remark, make_tooltip
from attnprobe.reports.pictures.training import make_step_axis
from attnprobe.table.cells import Cell, clean, format_cell
from attnprobe.table.head_table import HeadTable
from attnprobe.table.kinds import STEP
from attnprobe.table.table import Column

#: What is drawn by default; Kendall's says the same in other numbers.
_LINES = {
    "spearman_last": "Spearman, with the last step",
    "spearman_previous": "Spearman, with the step before",
    "kendall_last": "Kendall, with the last step",
    "kendall_previous": "Kendall, with the step before",
}
#: What a band and a grey field are.
_OF_NOISE = "band: 95 % interval of Spearman with the last step, without the noise of a sample of texts"
_SETTLED = "grey field: from the earliest to the latest step from which on the order may be settled"
#: Narrower pictures have the legend below; and the room that it takes beside.
_BESIDE, _LEGEND = 480, 200


def draw_settling(table: HeadTable, request: DrawingRequest) -> Any:
    """Draw four lines a measure: Spearman solid, Kendall dashed; with the last step, and the one before.

    Where the table has them, a band is the 95 % interval of Spearman with the last step without noise, and a
    grey field lies between the earliest and the latest step from which on the order may be settled.
    """
    columns = request.columns(table) if request.measures else []
    wanted = [column.name for column in columns if column.name in _LINES] or list(_LINES)
    panels = label_rows(table, ["attention", "measure", "dataset"])
    steps = read_cells(table, STEP)
    data: list[Record] = [
        {"panel": panels[row], "line": _LINES[name], "step": steps[row], "value": value}
        for name in wanted
        for row, value in enumerate(read_numbers(table, name))
    ]
    bands = _read_bands(table, panels, steps) if "spearman_last" in wanted else []
    data += bands
    labels = list(dict.fromkeys(panels))
    beside = request.width >= _BESIDE  # in a narrow picture, the legend stands below and leaves its room
    room = request.width - (_LEGEND if beside else 0)
    least = max(180.0, 0.58 * request.theme.size * max(map(len, labels)) + 30)
    across = choose_across(len(labels), int(min(3, room // least)))
    width = int(min(440, room / across - (30 if beside else 66)))
    known = [record["value"] for record in data if record.get("value") is not None]
    known += [record["low"] for record in bands if record["low"] is not None]
    domain = [min(0.0, *known), 1.0] if known else [0.0, 1.0]
    names = [_LINES[name] for name in wanted]
    last, before, *_ = request.theme.categories
    hues = [last if name.endswith("_last") else before for name in wanted]
    dashes = [[1, 0] if name.startswith("spearman") else [4, 3] for name in wanted]
    more: dict[str, Any] = {} if beside else {"orient": "bottom", "direction": "vertical", "columns": 1}
    legend = alt.Legend(title=None, symbolType="stroke", symbolSize=200, **more)
    lines = alt.Chart().mark_line(strokeWidth=1.8, point=alt.OverlayMarkDef(size=26, filled=True))
    if bands:
        lines = lines.transform_filter("isValid(datum.line)")
    scale = alt.Scale(domain=domain)
    x = make_step_axis(sort_labels(steps), width, request.theme)
    chart = lines.encode(
        x=x,
        y=alt.Y("value:Q", title="rank correlation", scale=scale),
        color=alt.Color("line:N", scale=alt.Scale(domain=names, range=hues), legend=legend),
        strokeDash=alt.StrokeDash("line:N", scale=alt.Scale(domain=names, range=dashes), legend=legend),
        tooltip=make_tooltip({"line:N": "correlation", "step:Q": "step", "value:Q": "value"}),
    )
    if bands:
        field = alt.Chart().transform_filter("isValid(datum.settled_low)").mark_rect(opacity=0.16)
        band = alt.Chart().transform_filter("isValid(datum.low)").mark_area(opacity=0.25, color=last)
        tooltip = make_tooltip({"settled_low:Q": "settled from", "settled_high:Q": "at the latest from"})
        chart = alt.layer(
            field.encode(
                x=alt.X("settled_low:Q", axis=x["axis"], scale=x["scale"], title=x["title"]),
                x2="settled_high:Q", color=alt.value(request.theme.muted), tooltip=tooltip,
            ),
            band.encode(x=x, y=alt.Y("low:Q", title="rank correlation", scale=scale), y2="high:Q"),
            chart,
        )  # fmt: skip
    chart = chart.properties(width=width, height=int(np.clip(width * 0.6, 110, 220)))
    drawn = draw_panels(chart, data, labels, across, width)
    remarks = [_OF_NOISE] if any(record["low"] is not None for record in bands) else []
    fields = [(record["settled_low"], record["settled_high"]) for record in bands if "settled_low" in record]
    remarks += [_SETTLED] if any(low != high for low, high in fields) else []
    return drawn.properties(title=make_remark(remarks, request.theme, request.width)) if remarks else drawn


def _read_bands(table: HeadTable, panels: Sequence[str], steps: Sequence[Cell]) -> list[Record]:
    """Read the ends of the intervals of every step, and those of the step of settling once a panel."""
    names = ("spearman_last_true_low", "spearman_last_true_high", "settled_low", "settled_high")
    if any(name not in table.data for name in names):
        return []
    low, high, first, latest = (read_numbers(table, name) for name in names)
    found: list[Record] = [
        {"panel": panels[row], "step": steps[row], "low": low[row], "high": high[row]}
        for row in range(len(panels))
        if low[row] is not None
    ]
    seen: set[str] = set()
    for row, panel in enumerate(panels):
        if first[row] is not None and panel not in seen:
            seen.add(panel)
            ends = {"settled_low": first[row], "settled_high": latest[row]}
            found.append({"panel": panel, "low": None, **ends})
    return found


def state_settling(table: HeadTable, columns: Sequence[Column]) -> str:
    measures = {format_cell(cell) for cell in read_cells(table, "measure")}
    ends = [read_numbers(table, f"settled_{end}") for end in ("low", "high")]
    if len(measures) != 1 or len(set(zip(*ends, strict=True))) != 1:
        return ""
    low, high = (one[0] for one in ends)
    if low is None or high is None:
        return ""
    when = f"step {low:,}" if low == high else f"a step between {low:,} and {high:,}"
    return f"the order of heads by {clean(measures.pop()).replace('_', ' ')} is settled from {when} on"
