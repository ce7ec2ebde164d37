"""A line a row: correlations, shares of variance, checks."""

from typing import Any

import altair as alt

from attnprobe.reports.columns import (
    DrawingRequest,
    Record,
    label_rows,
    list_keys,
    read_cells,
    read_numbers,
    read_with_errors,
)
from attnprobe.reports.pictures.channels import draw_panels, make_records, make_tooltip
from attnprobe.reports.theme import choose_ink
from attnprobe.table.cells import format_cell
from attnprobe.table.head_table import HeadTable

_COEFFICIENTS = {
    "pearson": "Pearson",
    "pearson_true": "Pearson, without noise",
    "spearman": "Spearman",
    "spearman_true": "Spearman, without noise",
    "kendall": "Kendall",
}


def draw_intervals(table: HeadTable, request: DrawingRequest) -> Any:
    """Draw each coefficient on the scale from -1 to 1, with its 95 % interval where the table has one."""
    panels = label_rows(table, list_keys(table))
    data: list[Record] = []
    for name, shown in _COEFFICIENTS.items():
        ends = (read_numbers(table, f"{name}{end}") for end in ("", "_low", "_high"))
        data += [
            {"panel": panel, "name": shown, "value": value, "low": low, "high": high}
            for panel, value, low, high in zip(panels, *ends, strict=True)
        ]
    width = int(min(420, request.width - 190))
    scale = alt.Scale(domain=[-1, 1], nice=False)
    x: dict[str, Any] = {"title": "correlation over heads", "scale": scale}
    x["axis"] = alt.Axis(values=[-1, -0.5, 0, 0.5, 1])
    y_axis = alt.Axis(ticks=False, domain=False)
    y = alt.Y("name:N", sort=list(_COEFFICIENTS.values()), title=None, axis=y_axis)
    base = alt.Chart().encode(y=y)
    bars = base.transform_filter("isValid(datum.low) && isValid(datum.high)").mark_rule(strokeWidth=1.6)
    points = base.transform_filter("isValid(datum.value)").mark_point(filled=True, size=60, opacity=1)
    tooltip = make_tooltip({"name:N": "coefficient", **{f"{end}:Q": end for end in ("value", "low", "high")}})
    zero = alt.Chart().mark_rule(strokeDash=[3, 3], color=request.theme.muted)
    chart = alt.layer(
        zero.encode(x=alt.datum(0, scale=scale)),
        bars.encode(x=alt.X("low:Q", **x), x2="high:Q"),
        points.encode(x=alt.X("value:Q", **x), tooltip=tooltip),
    ).properties(width=width, height=alt.Step(26))
    return draw_panels(chart, data, list(dict.fromkeys(panels)), 1, width)


#: The columns in their order, what they are called, and their colours: of place blue, of checkpoints orange
#: and purple, of texts green. Neighbours differ in lightness, so that grey print keeps their border, and each
#: part has a number, which stands in it where there is room.
SHARES = {
    "layers": ("layers", "#08519c"),
    "heads": ("heads of a layer", "#9ecae1"),
    "seeds": ("checkpoints", "#7f2704"),
    "layers_by_seed": ("layers, by checkpoint", "#fec44f"),
    "heads_by_seed": ("heads, by checkpoint", "#bf4703"),
    "texts": ("texts", "#c7e9c0"),
    "layers_by_text": ("layers, by text", "#006d2c"),
    "heads_by_text": ("heads, by text", "#a1d99b"),
    "seeds_by_text": ("checkpoints, by text", "#54278f"),
    "rest": ("rest", "#d9d9d9"),
}
#: Pixels of a bar, of the names beside them, of the legend, and of the narrowest part that has a number.
_STEP, _NAMES, _LEGEND, _NUMBERED = 26, 170, 190, 13
#: Narrower pictures have the legend below.
_BESIDE = 600


def draw_shares(table: HeadTable, request: DrawingRequest) -> Any:
    """Draw a bar from 0 to 1 for each measure, in parts that add up to it; errors stand in the tooltip."""
    names = label_rows(table, list_keys(table))
    beside = request.width >= _BESIDE
    longest = min(_NAMES, 0.55 * request.theme.size * max(map(len, names)) + 10)
    width = max(120, int(request.width - longest - (_LEGEND if beside else 20)))
    said = [f"{number}  {name}" for number, (name, _) in enumerate(SHARES.values(), start=1)]
    colours = [colour for _, colour in SHARES.values()]
    data = _stack_shares(table, names, said, width)
    labels = list(dict.fromkeys(names))
    below: dict[str, Any] = {} if beside else {"orient": "bottom", "columns": 2}
    axis = alt.Axis(ticks=False, domain=False, labelLimit=_NAMES)
    y = alt.Y("row:N", sort=labels, title=None, axis=axis)
    base = alt.Chart(alt.InlineData(values=data)).encode(y=y)
    legend = alt.Legend(title="between", symbolType="square", symbolStrokeWidth=0, **below)
    scale = alt.Scale(domain=said, range=colours)
    titles = {"row:N": "measure", "part:N": "between", "share:Q": "share", "error:Q": "standard error"}
    bars = base.mark_bar(stroke=request.theme.background, strokeWidth=0.8).encode(
        x=alt.X("start:Q", title="share of the variance", scale=alt.Scale(domain=[0, 1], nice=False)),
        x2="end:Q",
        color=alt.Color("part:N", sort=said, scale=scale, legend=legend),
        tooltip=make_tooltip(titles),
    )
    text = base.mark_text(baseline="middle", fontSize=request.theme.small(2))
    x, ink = alt.X("middle:Q", title="share of the variance"), alt.Color("ink:N", scale=None)
    numbered = text.encode(x=x, text="number:N", color=ink)
    return alt.layer(bars, numbered).properties(width=width, height=alt.Step(_STEP))


def _stack_shares(table: HeadTable, names: list[str], said: list[str], width: int) -> list[Record]:
    """Place the parts of each bar one behind the other."""
    data: list[Record] = []
    ends = [0.0] * len(names)
    for number, (column, (_, colour)) in enumerate(SHARES.items(), start=1):
        rows = zip(*read_with_errors(table, column), strict=True)
        for row, (share, error) in enumerate(rows):
            start, wide = ends[row], max(share or 0.0, 0.0)
            ends[row] = start + wide
            label = str(number) if wide * width >= _NUMBERED else ""
            data.append({
                "row": names[row], "part": said[number - 1], "share": share, "error": error, "start": start,
                "end": ends[row], "middle": start + wide / 2, "number": label, "ink": choose_ink(colour),
            })  # fmt: skip
    return data


#: Places in the colours of a theme.
_COLOURS = {"ok": 2, "warning": 1, "failed": 5}


def draw_checks(table: HeadTable, request: DrawingRequest) -> Any:
    """Draw a line a check: its name, how it came out, and what was found."""
    of = label_rows(table, ["model", "dataset"])
    checks, outcomes, details = (
        [format_cell(cell) for cell in read_cells(table, name)] for name in ("check", "status", "detail")
    )
    names = [", ".join(filter(None, parts)) for parts in zip(of, checks, strict=True)]
    data = make_records({"row": range(len(table)), "name": names, "status": outcomes, "detail": details})
    left = 12 + max(map(len, names)) * request.theme.size * 0.55
    statuses = list(dict.fromkeys(outcomes))
    palette, blank = request.theme.categories, request.theme.muted
    hues = [palette[_COLOURS[status]] if status in _COLOURS else blank for status in statuses]
    scale = alt.Scale(domain=statuses, range=hues)
    y = alt.Y("row:O", axis=None)
    tooltip = make_tooltip({f"{name}:N": name for name in ("name", "status", "detail")})
    base = alt.Chart(alt.InlineData(values=data)).encode(y=y, tooltip=tooltip)
    text: dict[str, Any] = {"align": "left", "fontSize": request.theme.small(1)}
    room = max(80, request.width - left - 56)  # a longer detail ends in dots, and the tooltip has all of it
    colour = alt.Color("status:N", scale=scale, legend=None)
    status = base.mark_text(**text, fontWeight="bold")
    detail = base.mark_text(**text, color=request.theme.muted, limit=room)
    return alt.layer(
        base.mark_text(**text).encode(x=alt.value(0), text="name:N"),
        status.encode(x=alt.value(left), text="status:N", color=colour),
        detail.encode(x=alt.value(left + 56), text="detail:N"),
    ).properties(width=request.width, height=alt.Step(18))
