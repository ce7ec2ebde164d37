"""Pairs of heads of a layer, as a matrix for each layer."""

from typing import Any

import altair as alt

from attnprobe.reports.columns import (
    DrawingRequest,
    has_measures,
    name_measure,
    read_numbers,
    sort_labels,
    title_axis,
    title_tooltip,
)
from attnprobe.reports.pairs import Pairs, find_pairs
from attnprobe.reports.pictures.channels import (
    make_band,
    make_colour_scale,
    make_legend,
    make_records,
    make_tooltip,
    thin_labels,
)
from attnprobe.reports.scales import Scale, fit_scales
from attnprobe.table.cells import format_cell
from attnprobe.table.head_table import HeadTable
from attnprobe.table.table import Column


def can_draw_matrix(table: HeadTable) -> bool:
    pairs = find_pairs(table)
    return pairs is not None and pairs.within and has_measures(table)


def draw_matrix(table: HeadTable, request: DrawingRequest) -> Any:
    """Draw each pair once, below the diagonal; all layers share a scale of colours."""
    pairs = find_pairs(table)
    assert pairs is not None  # or the table would not fit
    columns = request.columns(table, 3)
    scales = fit_scales(table, columns)
    charts = [_draw_matrices(table, column, pairs, scales[column.name], request) for column in columns]
    return charts[0] if len(charts) == 1 else alt.vconcat(*charts).resolve_scale(color="independent")


def _draw_matrices(
    table: HeadTable, column: Column, pairs: Pairs, scale: Scale, request: DrawingRequest
) -> Any:
    values = read_numbers(table, column.name)
    data = make_records({
        "panel": [", ".join(filter(None, [of, f"layer {format_cell(one[0])}"]))
                  for of, one in zip(pairs.of, pairs.one, strict=True)],
        "layer": [layer for layer, _ in pairs.one], "one": [head for _, head in pairs.one],
        "other": [head for _, head in pairs.other], "value": values,
        "error": read_numbers(table, f"{column.name}_se"),
    })  # fmt: skip
    heads = sort_labels([record["one"] for record in data] + [record["other"] for record in data])
    panels = list(dict.fromkeys(record["panel"] for record in data))
    across = next(a for a in range(6, 0, -1) if a == 1 or (request.width - 100) / a - 40 >= 7 * len(heads))
    across = min(across, len(panels))
    cell = int(min(24, max(4, ((request.width - 100) / across - 40) / len(heads))))
    axes = [alt.Axis(labelAngle=0, values=thin_labels(heads, cell, letter)) for letter in (7.5, 0)]
    legend, side = make_legend(column, scale, values, 110), cell * len(heads)
    tooltip = make_tooltip({
        "panel:N": "of", "one:O": "head", "other:O": "other head",
        "value:Q": title_tooltip(title_axis(column)), "error:Q": "standard error",
    })  # fmt: skip
    marks = alt.Chart().mark_rect().transform_filter("isValid(datum.value)")
    chart = marks.encode(
        x=alt.X("one:O", title="head", axis=axes[0], scale=make_band(heads)),
        y=alt.Y("other:O", title="head", axis=axes[1], scale=make_band(heads)),
        color=alt.Color("value:Q", scale=make_colour_scale(scale, request.theme), legend=legend),
        tooltip=tooltip,
    ).properties(width=side, height=side)
    header = alt.Header(title=None, labelAnchor="start", labelLimit=max(side, 60))
    facet = alt.Facet("panel:N", sort=panels, header=header, title=None)
    faceted = chart.facet(facet=facet, columns=across, data=alt.InlineData(values=data))
    return faceted.properties(title=alt.TitleParams(name_measure(column)))
