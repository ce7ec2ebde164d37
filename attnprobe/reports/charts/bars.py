"""How much attention goes to images and to text: one bar per layer, and one point per head."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

import altair as alt

from attnprobe.reports.charts.channels import amend, arrange_panels, draw_panels, make_tooltip
from attnprobe.reports.charts.figure import Drawing, Figure
from attnprobe.reports.charts.places import place_heads
from attnprobe.reports.columns import DrawingRequest, Record, join_labels, read_numbers, sort_labels
from attnprobe.table.kinds import MODALITIES
from attnprobe.table.table import HeadTable

#: What is looked at, with its colour; that of special tokens is the grid's. They differ in lightness.
_PARTS = {"image": "#0072b2", "text": "#e69f00", "special tokens": None}


@dataclass(frozen=True, kw_only=True)
class Bars(Figure):
    """A bar for each layer, in parts: means over its heads; and a point for each head."""

    def draw(self, table: HeadTable, request: DrawingRequest) -> Drawing:
        data = self._read(table)
        panels = list(dict.fromkeys(record["panel"] for record in data))
        across, width, height = arrange_panels(len(panels), request.room, request.high, 20)
        layers = sort_labels(record["layer"] for record in data)
        parts = [part for part in _PARTS if any(record.get("part") == part for record in data)]
        hues = [_PARTS[part] or request.theme.grid for part in parts]
        legend = alt.Legend(title=None, orient="bottom", symbolType="square", symbolStrokeWidth=0)
        colour = alt.Color("part:N", scale=alt.Scale(domain=parts, range=hues), legend=legend)
        x: dict[str, Any] = {
            "title": "share of attention",
            "axis": alt.Axis(format="%", tickCount=5, grid=False),
            "scale": alt.Scale(domain=[0, 1]),
        }
        place = {"panel:N": "of", "layer:O": "layer"}
        of_heads = {**place, "head:O": "head", "value:Q": f"to {parts[0]}", "error:Q": "standard error"}
        of_bars = {**place, "part:N": "to", "mean:Q": "mean"}
        base = alt.Chart().encode(y=alt.Y("layer:O", title="layer", axis=alt.Axis(labelOverlap="greedy")))
        bars = base.transform_filter("isValid(datum.part)").mark_bar(height=alt.RelativeBandSize(0.66))
        heads = base.transform_filter("isValid(datum.value)").mark_point(
            filled=True, size=20, opacity=1, color="#000000", stroke="#ffffff", strokeWidth=0.7
        )
        chart = alt.layer(
            bars.encode(
                x=alt.X("mean:Q", stack="zero", **x),
                order=alt.Order("order:Q"),
                color=colour,
                tooltip=make_tooltip(of_bars),
            ),
            heads.encode(x=alt.X("value:Q", **x), tooltip=make_tooltip(of_heads)),
        )
        amend(chart, width=width, height=max(44, min(18 * len(layers), height)))
        drawn = draw_panels(chart, data, panels, across)
        return Drawing(amend(drawn, spacing=20) if len(panels) > 1 else drawn, self.caption)

    def _read(self, table: HeadTable) -> list[Record]:
        """Read records of text and images as queries: of each head, and of each part of a layer, a mean."""
        places = place_heads(table)
        assert places is not None  # or the table would not fit
        data: list[Record] = []
        for asker, name in (("text", "text"), ("image", "the image")):
            shares = [read_numbers(table, f"{asker}_to_{part.split()[0]}") for part in _PARTS]
            errors = read_numbers(table, f"{asker}_to_image_se")
            of_layers: dict[tuple[str, Any], list[int]] = {}
            if not _has_numbers(shares[0]):
                continue
            for row, layer in enumerate(places.y):
                panel = join_labels(places.panel[row], f"what {name} looks at")
                of_layers.setdefault((panel, layer), []).append(row)
                head = {"panel": panel, "layer": layer, "head": places.x[row]}
                data.append({**head, "value": shares[0][row], "error": errors[row]})
            for (panel, layer), rows in of_layers.items():
                for order, (part, values) in enumerate(zip(_PARTS, shares, strict=True)):
                    if known := [value for row in rows if (value := values[row]) is not None]:
                        bar = {"panel": panel, "layer": layer, "part": part, "order": order}
                        data.append({**bar, "mean": fmean(known)})
        return data


def _has_numbers(values: Sequence[float | None]) -> bool:
    return any(value is not None for value in values)


def has_shares(table: HeadTable) -> bool:
    """Tell whether a table of heads has some shares."""
    return place_heads(table) is not None and any(
        _has_numbers(read_numbers(table, name)) for name in MODALITIES
    )
