"""Pairs of heads within each layer: head by head, one small matrix a layer."""

from typing import Any

import altair as alt

from attnprobe.reports.pictures.asked import Asked, has_measures
from attnprobe.reports.pictures.grid import thinned
from attnprobe.reports.pictures.heatmap import colours, legend_of
from attnprobe.reports.pictures.pairs import Pairs, pairs_of
from attnprobe.reports.pictures.rows import Record, axis_of, name_of, numbers, ordered, tip
from attnprobe.reports.scales import Scale, scales_of
from attnprobe.table.cells import written
from attnprobe.table.head_table import HeadTable
from attnprobe.table.table import Column


def fits(table: HeadTable) -> bool:
    """Tell whether rows are pairs of heads of the same layer."""
    pairs = pairs_of(table)
    return pairs is not None and pairs.within and has_measures(table)


def draw(table: HeadTable, asked: Asked) -> Any:
    """Draw each pair once, below the diagonal; all layers share a scale of colours."""
    pairs = pairs_of(table)
    assert pairs is not None  # or the table would not fit
    columns = asked.columns(table, 3)
    scales = scales_of(table, columns)
    charts = [_matrices(table, column, pairs, scales[column.name], asked) for column in columns]
    return charts[0] if len(charts) == 1 else alt.vconcat(*charts).resolve_scale(color="independent")


def _matrices(table: HeadTable, column: Column, pairs: Pairs, scale: Scale, asked: Asked) -> Any:
    values, errors = numbers(table, column.name), numbers(table, f"{column.name}_se")
    data: list[Record] = []
    for row, (of, one, other) in enumerate(zip(pairs.of, pairs.one, pairs.other, strict=True)):
        panel = ", ".join(filter(None, [of, f"layer {written(one[0])}"]))
        data.append({"panel": panel, "layer": one[0], "one": one[1], "other": other[1], "value": values[row],
                     "error": errors[row]})  # fmt: skip
    heads = ordered([record["one"] for record in data] + [record["other"] for record in data])
    panels = list(dict.fromkeys(record["panel"] for record in data))
    across = next(a for a in range(6, 0, -1) if a == 1 or (asked.width - 100) / a - 40 >= 7 * len(heads))
    across = min(across, len(panels))
    cell = int(min(24, max(4, ((asked.width - 100) / across - 40) / len(heads))))
    axes = [alt.Axis(labelAngle=0, values=thinned(heads, cell, letter)) for letter in (7.5, 0)]
    legend = legend_of(column, scale, values, 110)
    chart = (
        alt.Chart()
        .mark_rect()
        .transform_filter("isValid(datum.value)")
        .encode(
            x=alt.X("one:O", title="head", axis=axes[0], scale=_band(heads)),
            y=alt.Y("other:O", title="head", axis=axes[1], scale=_band(heads)),
            color=alt.Color("value:Q", scale=colours(scale, asked.theme), legend=legend),
            tooltip=[
                alt.Tooltip("panel:N", title="of"),
                alt.Tooltip("one:O", title="head"),
                alt.Tooltip("other:O", title="other head"),
                alt.Tooltip("value:Q", title=tip(axis_of(column)), format=".4~g"),
                alt.Tooltip("error:Q", title="standard error", format=".2~g"),
            ],
        )
        .properties(width=cell * len(heads), height=cell * len(heads))
    )
    header = alt.Header(title=None, labelAnchor="start", labelLimit=max(cell * len(heads), 60))
    facet = alt.Facet("panel:N", sort=panels, header=header, title=None)
    return chart.facet(facet=facet, columns=across, data=alt.InlineData(values=data)).properties(
        title=alt.TitleParams(name_of(column))
    )


def _band(labels: list[Any]) -> alt.Scale:
    return alt.Scale(domain=labels, paddingInner=0.06, paddingOuter=0.03)
