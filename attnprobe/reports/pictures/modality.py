"""What text and image look at, layer by layer: shares of attention that add up to 1, and every head."""

from collections.abc import Sequence
from typing import Any

import altair as alt
import numpy as np

from attnprobe.reports.columns import DrawingRequest, Record, read_cells, read_numbers
from attnprobe.reports.pictures.channels import draw_panels, make_remark, make_tooltip, thin_labels
from attnprobe.reports.shapes import Grid, lay_out_grid
from attnprobe.table.cells import format_cell
from attnprobe.table.head_table import HeadTable
from attnprobe.table.kinds import MODALITIES

#: What is looked at, with its colour; that of special tokens is the grid's. They differ in lightness.
_COLOURS = {"image": "#0072b2", "text": "#e69f00", "special tokens": None}
_ASKERS = {"text": "what text looks at", "image": "what the image looks at"}
#: Pixels of a layer, of a chart at least, of the gap between two charts, and beside them; and from which
#: width they stand side by side.
_LAYER, _MANY, _LOWEST, _GAP, _BESIDE, _SIDE = 18, 14, 44, 34, 50, 480


def can_draw_modality(table: HeadTable) -> bool:
    """Tell whether a table has what each side looks at, once for each head."""
    grid = lay_out_grid(table)
    columns = [name for name in MODALITIES if any(v is not None for v in read_numbers(table, name))]
    return grid is not None and any(name.startswith(f"{asker}_to_") for asker in _ASKERS for name in columns)


def draw_modality(table: HeadTable, request: DrawingRequest) -> Any:
    """Draw a bar a layer for each side: how much of its attention goes to image, text and special."""
    grid = lay_out_grid(table)
    assert grid is not None  # or the table would not fit
    theme = request.theme
    data = _read_shares(table, grid)
    panels = list(dict.fromkeys(record["panel"] for record in data))
    across = 2 if len(panels) > 1 and request.width >= _SIDE else 1
    width = int(min(420, (request.width - _BESIDE) / across - _GAP * (across > 1)))
    layers = [format_cell(layer) for layer in grid.layers]
    step = max(_LAYER if len(layers) <= _MANY else 12, _LOWEST // len(layers))
    there = {record["part"] for record in data if record.get("mean")}
    shown = [part for part in _COLOURS if part in there]
    hues = [_COLOURS[part] or theme.grid for part in shown]
    below = alt.Legend(title=None, orient="bottom", symbolType="square", symbolStrokeWidth=0)
    colour = alt.Color("part:N", sort=shown, scale=alt.Scale(domain=shown, range=hues), legend=below)
    axis = alt.Axis(ticks=False, domain=False, grid=False, values=thin_labels(layers, step, 0))
    y = alt.Y("layer:N", sort=layers, title="layer", axis=axis)
    x: dict[str, Any] = {"title": "share of attention", "scale": alt.Scale(domain=[0, 1], nice=False)}
    percent = alt.Axis(format="%", tickCount=5, grid=False)
    base = alt.Chart().encode(y=y)
    of_bars = make_tooltip({
        "panel:N": "of", "layer:N": "layer", "part:N": "to", "mean:Q": "mean over heads",
    })  # fmt: skip
    of_heads = make_tooltip({
        "panel:N": "of", "layer:N": "layer", "head:N": "head", "value:Q": "to the image",
        "text:Q": "to text", "special:Q": "to special tokens", "error:Q": "standard error", "n:Q": "n",
    })  # fmt: skip
    bars = base.transform_filter("isValid(datum.mean)").mark_bar(height=alt.RelativeBandSize(0.66))
    heads = base.transform_filter("isValid(datum.value)").mark_point(
        filled=True, size=20, opacity=1, color="#000000", stroke="#ffffff", strokeWidth=0.7
    )
    chart = alt.layer(
        bars.encode(x=alt.X("start:Q", axis=percent, **x), x2="end:Q", color=colour, tooltip=of_bars),
        heads.encode(x=alt.X("value:Q", axis=percent, **x), tooltip=of_heads),
    ).properties(width=width, height=alt.Step(step))
    drawn = draw_panels(chart, data, panels, across, width, "")
    remark = ["bars: mean over the heads of a layer", "points: how much of one head goes to the image"]
    return drawn.properties(
        title=make_remark(remark, theme, request.width), spacing={"column": _GAP, "row": 12}
    )


def _read_shares(table: HeadTable, grid: Grid) -> list[Record]:
    """Read a record for each head, and one for each part of a bar, which begins where the last one ends."""
    layers, heads = read_cells(table, "layer"), read_cells(table, "head")
    n = read_numbers(table, "n")
    data: list[Record] = []
    for place in grid.maps:
        for asker, heading in _ASKERS.items():
            names = [f"{asker}_to_{part}" for part in ("image", "text", "special")]
            shares = [read_numbers(table, name) for name in names]
            error = read_numbers(table, f"{names[0]}_se")
            rows = [row for row in range(len(table)) if grid.places[row] == place]
            if all(shares[0][row] is None for row in rows):
                continue
            panel = ", ".join(filter(None, [place, heading]))
            data += _stack_means(panel, layers, shares, rows)
            data += [
                {
                    "panel": panel, "layer": format_cell(layers[row]), "head": format_cell(heads[row]),
                    "value": shares[0][row], "text": shares[1][row], "special": shares[2][row],
                    "error": error[row], "n": n[row],
                }
                for row in rows
            ]  # fmt: skip
    return data


def _stack_means(
    panel: str, layers: Sequence[Any], shares: Sequence[Sequence[float | int | None]], rows: list[int]
) -> list[Record]:
    data: list[Record] = []
    for layer in dict.fromkeys(layers[row] for row in rows):
        start = 0.0
        for part, values in zip(_COLOURS, shares, strict=True):
            own = [values[row] for row in rows if layers[row] == layer]
            known = [value for value in own if value is not None]
            if not known:
                continue
            mean = float(np.mean(known))
            data.append({
                "panel": panel, "layer": format_cell(layer), "part": part, "mean": mean, "start": start,
                "end": start + mean,
            })  # fmt: skip
            start += mean
    return data
