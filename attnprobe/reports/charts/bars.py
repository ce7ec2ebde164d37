"""Shares that add up to 1: a bar a layer, and how much of each head is of the first share."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

import altair as alt

from attnprobe.reports.charts.figure import Drawing, Figure
from attnprobe.reports.charts.marks import amend, arrange_panels, draw_panels, make_tooltip
from attnprobe.reports.charts.places import place_heads
from attnprobe.reports.columns import DrawingRequest, Record, read_numbers, sort_labels
from attnprobe.table.table import HeadTable


@dataclass(frozen=True, kw_only=True)
class Bars(Figure):
    """A bar for each layer, in parts: means over its heads; and a point for each head."""

    #: Panels by their names, each with columns of shares by the names of parts.
    panels: Mapping[str, Mapping[str, str]]
    colours: Mapping[str, str | None]  # of parts; None for that of the theme's grid

    def draw(self, table: HeadTable, request: DrawingRequest) -> Drawing:
        data = self._read(table)
        panels = list(dict.fromkeys(record["panel"] for record in data))
        across, width, height = arrange_panels(len(panels), request.room, request.high, 20)
        layers = sort_labels(record["layer"] for record in data)
        height = max(44, min(18 * len(layers), height))
        parts = [part for part in self.colours if any(record.get("part") == part for record in data)]
        hues = [self.colours[part] or request.theme.grid for part in parts]
        legend = alt.Legend(title=None, orient="bottom", symbolType="square", symbolStrokeWidth=0)
        colour = alt.Color("part:N", scale=alt.Scale(domain=parts, range=hues), legend=legend)
        axis = alt.Axis(format="%", tickCount=5, grid=False)
        x = alt.X("value:Q", title="share of attention", axis=axis, scale=alt.Scale(domain=[0, 1]))
        base = alt.Chart().encode(y=alt.Y("layer:O", title="layer", axis=alt.Axis(labelOverlap="greedy")))
        of_heads = {
            "panel:N": "of",
            "layer:O": "layer",
            "head:O": "head",
            "value:Q": f"to {parts[0]}" if parts else "share",
            "error:Q": "standard error",
        }
        bars = base.transform_filter("isValid(datum.part)").mark_bar(height=alt.RelativeBandSize(0.66))
        heads = base.transform_filter("isValid(datum.value) && !isValid(datum.part)").mark_point(
            filled=True, size=20, opacity=1, color="#000000", stroke="#ffffff", strokeWidth=0.7
        )
        chart = alt.layer(
            bars.encode(
                x=alt.X("mean:Q", title="share of attention", stack="zero", axis=axis),
                order=alt.Order("order:Q"),
                color=colour,
                tooltip=make_tooltip({"panel:N": "of", "layer:O": "layer", "part:N": "to", "mean:Q": "mean"}),
            ),
            heads.encode(x=x, tooltip=make_tooltip(of_heads)),
        )
        drawn = draw_panels(amend(chart, width=width, height=height), data, panels, across)
        return Drawing(amend(drawn, spacing=20) if len(panels) > 1 else drawn, self.caption)

    def _read(self, table: HeadTable) -> list[Record]:
        """Read a record for each head, and one for each part of a layer: the mean over its heads."""
        places = place_heads(table)
        assert places is not None  # or the table would not fit
        data: list[Record] = []
        for name, columns in self.panels.items():
            shares = {part: read_numbers(table, column) for part, column in columns.items()}
            first = next(iter(columns.values()))
            errors = read_numbers(table, f"{first}_se")
            if all(value is None for value in read_numbers(table, first)):
                continue
            means: dict[tuple[str, Any, str], list[float]] = {}
            for row, place in enumerate(places.records()):
                panel = ", ".join(filter(None, [place["panel"], name]))
                known: dict[str, Any] = {"panel": panel, "layer": place["y"], "head": place["x"]}
                data.append({**known, "value": shares[next(iter(columns))][row], "error": errors[row]})
                for part, values in shares.items():
                    if (value := values[row]) is not None:
                        means.setdefault((panel, place["y"], part), []).append(value)
            order = list(columns)
            data += [
                {
                    "panel": panel,
                    "layer": layer,
                    "part": part,
                    "order": order.index(part),
                    "mean": fmean(values),
                }
                for (panel, layer, part), values in means.items()
            ]
        return data


def has_shares(table: HeadTable, columns: Sequence[str]) -> bool:
    """Tell whether a table of heads has some shares."""
    known = (value is not None for name in columns for value in read_numbers(table, name))
    return place_heads(table) is not None and any(known)
