"""Whether the same heads matter: correlations with their intervals."""

from typing import Any

import altair as alt

from attnprobe.reports.pictures.asked import Asked
from attnprobe.reports.pictures.rows import Record, keys, labelled, numbers
from attnprobe.table.head_table import HeadTable

_NAMES = {
    "pearson": "Pearson",
    "pearson_true": "Pearson, without noise",
    "spearman": "Spearman",
    "kendall": "Kendall",
}


def fits(table: HeadTable) -> bool:
    """Tell whether rows are correlations over heads."""
    return {"pearson", "pearson_low", "pearson_high", "spearman"} <= table.data.keys() and len(table) > 0


def draw(table: HeadTable, asked: Asked) -> Any:
    """Draw each coefficient on the scale from -1 to 1, with its 95 % interval where the table has one."""
    panels = labelled(table, keys(table))
    data: list[Record] = []
    for name, shown in _NAMES.items():
        ends = [numbers(table, f"{name}_{end}") for end in ("low", "high")]
        for row, value in enumerate(numbers(table, name)):
            data.append(
                {
                    "panel": panels[row],
                    "name": shown,
                    "value": value,
                    "low": ends[0][row],
                    "high": ends[1][row],
                }
            )
    width = int(min(420, asked.width - 190))
    scale = alt.Scale(domain=[-1, 1], nice=False)
    base = alt.Chart().encode(
        y=alt.Y("name:N", sort=list(_NAMES.values()), title=None, axis=alt.Axis(ticks=False, domain=False))
    )
    axis = alt.Axis(values=[-1, -0.5, 0, 0.5, 1])
    title = "correlation over heads"
    tooltip = [
        alt.Tooltip("name:N", title="coefficient"),
        *(alt.Tooltip(f"{end}:Q", title=end, format=".4~g") for end in ("value", "low", "high")),
    ]
    zero = (
        alt.Chart().mark_rule(strokeDash=[3, 3], color=asked.theme.muted).encode(x=alt.datum(0, scale=scale))
    )
    parts = [
        zero,
        base.transform_filter("isValid(datum.low) && isValid(datum.high)")
        .mark_rule(strokeWidth=1.6)
        .encode(x=alt.X("low:Q", title=title, scale=scale, axis=axis), x2="high:Q"),
        base.transform_filter("isValid(datum.value)")
        .mark_point(filled=True, size=60, opacity=1)
        .encode(x=alt.X("value:Q", title=title, scale=scale, axis=axis), tooltip=tooltip),
    ]
    chart = alt.layer(*parts).properties(width=width, height=alt.Step(26))
    labels = list(dict.fromkeys(panels))
    if len(labels) == 1:
        return chart.properties(data=alt.InlineData(values=data))
    facet = alt.Facet(
        "panel:N",
        sort=labels,
        title=None,
        header=alt.Header(title=None, labelAnchor="start", labelLimit=max(width, 80)),
    )
    return chart.facet(facet=facet, columns=1, data=alt.InlineData(values=data))
