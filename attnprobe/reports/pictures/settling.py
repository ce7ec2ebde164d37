"""How the order of heads settles over the steps of training."""

from typing import Any

import altair as alt
import numpy as np

from attnprobe.reports.columns import (
    DrawingRequest,
    Record,
    label_rows,
    read_cells,
    read_numbers,
)
from attnprobe.reports.pictures.channels import choose_across, draw_panels, make_tooltip
from attnprobe.reports.pictures.training import make_step_axis
from attnprobe.table.head_table import HeadTable
from attnprobe.table.kinds import STEP

#: What is drawn.
_LINES = {
    "spearman_last": "Spearman, with the last step",
    "spearman_previous": "Spearman, with the step before",
}
#: Narrower pictures have the legend below; and the room that it takes beside.
_BESIDE, _LEGEND = 480, 200


def draw_settling(table: HeadTable, request: DrawingRequest) -> Any:
    """Draw two lines a measure: the rank correlation with the last step, and that with the step before."""
    columns = request.columns(table) if request.measures else []
    wanted = [column.name for column in columns if column.name in _LINES] or list(_LINES)
    panels = label_rows(table, ["attention", "measure", "dataset"])
    steps = read_cells(table, STEP)
    data: list[Record] = [
        {"panel": panels[row], "line": _LINES[name], "step": steps[row], "value": value}
        for name in wanted
        for row, value in enumerate(read_numbers(table, name))
    ]
    labels = list(dict.fromkeys(panels))
    beside = request.width >= _BESIDE  # in a narrow picture, the legend stands below and leaves its room
    room = request.width - (_LEGEND if beside else 0)
    least = max(180.0, 0.58 * request.theme.size * max(map(len, labels)) + 30)
    across = choose_across(len(labels), int(min(3, room // least)))
    width = int(min(440, room / across - (30 if beside else 66)))
    known = [record["value"] for record in data if record.get("value") is not None]
    domain = [min(0.0, *known), 1.0] if known else [0.0, 1.0]
    names = [_LINES[name] for name in wanted]
    last, before, *_ = request.theme.categories
    hues = [last if name.endswith("_last") else before for name in wanted]
    more: dict[str, Any] = {} if beside else {"orient": "bottom", "direction": "vertical", "columns": 1}
    legend = alt.Legend(title=None, symbolType="stroke", symbolSize=200, **more)
    lines = alt.Chart().mark_line(strokeWidth=1.8, point=alt.OverlayMarkDef(size=26, filled=True))
    scale = alt.Scale(domain=domain)
    chart = lines.encode(
        x=make_step_axis(steps),
        y=alt.Y("value:Q", title="rank correlation", scale=scale),
        color=alt.Color("line:N", scale=alt.Scale(domain=names, range=hues), legend=legend),
        tooltip=make_tooltip({"line:N": "correlation", "step:Q": "step", "value:Q": "value"}),
    )
    chart = chart.properties(width=width, height=int(np.clip(width * 0.6, 110, 220)))
    return draw_panels(chart, data, labels, across, width)
