"""What heads find: for each label the best head with its error, beside the best simple rule."""

from typing import Any

import altair as alt

from attnprobe.reports.pictures.asked import Asked
from attnprobe.reports.pictures.pairs import head_name
from attnprobe.reports.pictures.rows import Record, cells, keys, labelled, numbers
from attnprobe.sums.resampling import SIGNIFICANT
from attnprobe.table.cells import written
from attnprobe.table.head_table import HeadTable

_NEEDED = ("n", "layer", "head", "accuracy", "accuracy_se", "baseline", "gain", "p_adjusted")
#: The columns that name the rule that a head is compared with; of two, the first says more.
_RULES = ("baseline_rule", "baseline_offset")
_LONGEST = 28
#: What a filled and an empty point are.
_MARKS = (
    f"best head, adjusted p < {SIGNIFICANT}",
    f"best head, not significant (adjusted p \u2265 {SIGNIFICANT})",
)


def fits(table: HeadTable) -> bool:
    """Tell whether rows are labels, each with the head that finds it best."""
    named = [name for name in keys(table) if name not in {"model", "dataset"}]
    return (
        set(_NEEDED) <= table.data.keys()
        and "layer" not in named
        and "head" not in named
        and any(name in table.data for name in _RULES)
        and bool(named)
        and len(table) > 0
    )


def draw(table: HeadTable, asked: Asked) -> Any:
    """Draw a line a label, in the order of the table; directions stand side by side.

    A point is the head with its 95 % interval, filled where the adjusted p is below 0.05; a tick is the rule.
    """
    names = [name for name in keys(table) if name not in {"model", "dataset"}]
    label = names[0]
    rule = next(name for name in _RULES if name in table.data)
    panels = labelled(table, [name for name in keys(table) if name != label])
    data = _records(table, label, rule, panels)
    sides = list(dict.fromkeys(panels))
    labels = list(dict.fromkeys(record["label"] for record in data))
    across = max(1, min(len(sides), asked.width // 250))
    room = 12 + asked.theme.size * 0.55 * min(_LONGEST, max(map(len, labels)))
    width = int(max(120, (asked.width - 130 - room) / across - 24))
    high = 17 if len(labels) <= 60 else 14
    best, base, *_ = asked.theme.categories
    shown = alt.Scale(
        domain=[*_MARKS, "simple rule"],
        range=[best, best, base],
    )
    y = alt.Y(
        "label:N",
        sort=labels,
        title=None,
        axis=alt.Axis(grid=True, domain=False, ticks=False, labelLimit=220),
    )
    x_scale = alt.Scale(domain=[0, 1], nice=False)
    x_axis = alt.Axis(format="%", tickCount=5, grid=False)
    chart = alt.Chart().encode(y=y)
    tooltip = [
        alt.Tooltip("label:N", title=label.replace("_", " ")),
        alt.Tooltip("panel:N", title="of"),
        alt.Tooltip("n:Q", title="links"),
        alt.Tooltip("name:N", title="head"),
        alt.Tooltip("accuracy:Q", title="accuracy", format=".4~g"),
        alt.Tooltip("error:Q", title="standard error", format=".2~g"),
        alt.Tooltip("baseline:Q", title="simple rule finds", format=".4~g"),
        alt.Tooltip("rule:N", title="simple rule"),
        alt.Tooltip("p:Q", title="adjusted p", format=".2~g"),
    ]
    x = alt.X("accuracy:Q", title="links found", scale=x_scale, axis=x_axis)
    known = chart.transform_filter("isValid(datum.accuracy)")
    legend = alt.Legend(
        title=None, orient="bottom", direction="horizontal", columns=3 if asked.width >= 420 else 1
    )
    shape = alt.Shape(
        "mark:N", scale=alt.Scale(domain=shown.domain, range=["circle", "circle", "stroke"]), legend=legend
    )
    fill = alt.Fill(
        "mark:N",
        scale=alt.Scale(domain=shown.domain, range=[best, asked.theme.background, base]),
        legend=legend,
    )
    stroke = alt.Stroke("mark:N", scale=shown, legend=legend)
    ticks = (
        chart.transform_filter("isValid(datum.baseline)")
        .transform_calculate(mark="'simple rule'")
        .mark_point(angle=90, size=90, strokeWidth=2, opacity=1)
        .encode(
            x=alt.X("baseline:Q", title="links found", scale=x_scale, axis=x_axis),
            shape=shape,
            fill=fill,
            stroke=stroke,
            tooltip=tooltip,
        )
    )
    bars = known.transform_filter("isValid(datum.error)").mark_rule(strokeWidth=1.4, color=best, clip=True)
    drawn = bars.transform_calculate(
        low="datum.accuracy - 1.96 * datum.error", high="datum.accuracy + 1.96 * datum.error"
    ).encode(x=alt.X("low:Q", title="links found", scale=x_scale), x2="high:Q")
    points = known.mark_point(size=44, strokeWidth=1.5, opacity=1).encode(
        x=x, shape=shape, fill=fill, stroke=stroke, tooltip=tooltip
    )
    names_ = known.mark_text(
        align="left", dx=4, fontSize=asked.theme.size - 2, color=asked.theme.muted
    ).encode(x=alt.value(width), text="name:N")
    whole = alt.layer(ticks, drawn, points, names_).properties(width=width, height=alt.Step(high))
    if len(sides) == 1:
        return whole.properties(data=alt.InlineData(values=data))
    facet = alt.Facet(
        "panel:N",
        sort=sides,
        title=None,
        header=alt.Header(title=None, labelAnchor="start", labelLimit=max(width, 80)),
    )
    return whole.facet(facet=facet, columns=across, spacing={"column": 64}, data=alt.InlineData(values=data))


def _records(table: HeadTable, label: str, rule: str, panels: list[str]) -> list[Record]:
    layers, heads = cells(table, "layer"), cells(table, "head")
    columns = {
        "label": [written(cell)[:_LONGEST] for cell in cells(table, label)],
        "panel": panels,
        "name": [
            None
            if layer is None
            else " ".join([head_name((layer, head)), *([str(position)] if position else [])])
            for layer, head, position in zip(layers, heads, cells(table, "position"), strict=True)
        ],
        "n": numbers(table, "n"),
        "accuracy": numbers(table, "accuracy"),
        "error": numbers(table, "accuracy_se"),
        "baseline": numbers(table, "baseline"),
        "rule": [written(cell) for cell in cells(table, rule)],
        "p": numbers(table, "p_adjusted"),
    }
    data = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    for record in data:
        record["mark"] = _MARKS[record["p"] is None or record["p"] >= SIGNIFICANT]
    return data
