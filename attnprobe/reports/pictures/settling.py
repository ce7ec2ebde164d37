"""How the order of heads settles: rank correlations with the last step and the step before."""

from typing import Any

import altair as alt
import numpy as np

from attnprobe.findings.dynamics import STEP
from attnprobe.reports.pictures.asked import Asked
from attnprobe.reports.pictures.dynamics import step_axis
from attnprobe.reports.pictures.rows import Record, cells, labelled, numbers, ordered
from attnprobe.table.head_table import HeadTable

#: What is drawn by default; Kendall's says the same in other numbers.
_LINES = {
    "spearman_last": "Spearman, with the last step",
    "spearman_previous": "Spearman, with the step before",
    "kendall_last": "Kendall, with the last step",
    "kendall_previous": "Kendall, with the step before",
}
#: Narrower pictures have the legend below; and the room that it takes beside.
_BESIDE, _LEGEND = 480, 200


def fits(table: HeadTable) -> bool:
    """Tell whether rows are steps of training, each with the rank correlation of the order of heads."""
    return {STEP, "measure", *_LINES} <= table.data.keys() and len(table) > 0


def draw(table: HeadTable, asked: Asked) -> Any:
    """Draw four lines a measure: Spearman solid, Kendall dashed; with the last step, and the one before."""
    columns = asked.columns(table) if asked.measures else []
    wanted = [column.name for column in columns if column.name in _LINES] or list(_LINES)
    panels = labelled(table, ["attention", "measure", "dataset"])
    steps = cells(table, STEP)
    data: list[Record] = [
        {"panel": panels[row], "line": _LINES[name], "step": steps[row], "value": value}
        for name in wanted
        for row, value in enumerate(numbers(table, name))
    ]
    labels = list(dict.fromkeys(panels))
    beside = asked.width >= _BESIDE  # in a narrow picture, the legend stands below and leaves its room
    room = asked.width - (_LEGEND if beside else 0)
    least = max(180.0, 0.58 * asked.theme.size * max(map(len, labels)) + 30)
    across = int(max(1, min(len(labels), 3, room // least)))
    width = int(min(440, room / across - (30 if beside else 66)))
    known = [record["value"] for record in data if record["value"] is not None]
    domain = [min(0.0, *known), 1.0] if known else [0.0, 1.0]
    names = [_LINES[name] for name in wanted]
    last, before, *_ = asked.theme.categories
    hues = [last if name.endswith("_last") else before for name in wanted]
    dashes = [[1, 0] if name.startswith("spearman") else [4, 3] for name in wanted]
    more: dict[str, Any] = {} if beside else {"orient": "bottom", "direction": "vertical", "columns": 1}
    legend = alt.Legend(title=None, symbolType="stroke", symbolSize=200, **more)
    chart = (
        alt.Chart()
        .mark_line(strokeWidth=1.8, point=alt.OverlayMarkDef(size=26, filled=True))
        .encode(
            x=step_axis(ordered(steps), width, asked.theme),
            y=alt.Y("value:Q", title="rank correlation", scale=alt.Scale(domain=domain)),
            color=alt.Color("line:N", scale=alt.Scale(domain=names, range=hues), legend=legend),
            strokeDash=alt.StrokeDash("line:N", scale=alt.Scale(domain=names, range=dashes), legend=legend),
            tooltip=[
                alt.Tooltip("line:N", title="correlation"),
                alt.Tooltip("step:Q", title="step", format=","),
                alt.Tooltip("value:Q", title="value", format=".4~g"),
            ],
        )
        .properties(width=width, height=int(np.clip(width * 0.6, 110, 220)))
    )
    if len(labels) == 1:
        return chart.properties(data=alt.InlineData(values=data))
    facet = alt.Facet(
        "panel:N",
        sort=labels,
        title=None,
        header=alt.Header(title=None, labelAnchor="start", labelLimit=max(width, 80)),
    )
    return chart.facet(facet=facet, columns=across, data=alt.InlineData(values=data))
