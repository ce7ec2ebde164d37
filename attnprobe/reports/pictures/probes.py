"""What all heads find together, beside the best of them, the best rule and a model with random weights."""

from typing import Any

import altair as alt

from attnprobe.reports.columns import DrawingRequest, Record, label_rows, list_keys, read_cells, read_numbers
from attnprobe.reports.pictures.channels import draw_panels, make_tooltip
from attnprobe.reports.pictures.relations import ALL, RELATION
from attnprobe.reports.pictures.training import make_step_axis
from attnprobe.reports.scales import BEYOND
from attnprobe.sums.resampling import SIGNIFICANT
from attnprobe.table.cells import format_cell
from attnprobe.table.head_table import HeadTable
from attnprobe.table.relation_names import name_relation

#: Marks by the column that they show.
_MARKS = {
    "accuracy": "all heads", "best_head_accuracy": "best head", "baseline": "simple rule",
    "control": "random weights",
}  # fmt: skip
#: A tick across the interval, which would hide one along it.
_TICK = "M0,-1L0,1"
_LONGEST = 40
#: Narrower pictures have the legend in two rows.
_NARROW = 420


def draw_probes(table: HeadTable, request: DrawingRequest) -> Any:
    """Draw a line a label, those first of which most is found: a mark for each of what finds links.

    The 95 % interval is that of all heads together; a star says that they find significantly more than the
    best head, by the adjusted p. Below stands what a link takes in the online code after so many links, where
    the table's record has it.
    """
    names = [name for name in list_keys(table) if name not in {"model", "dataset"}]
    label = names[0]
    panels = label_rows(table, [name for name in list_keys(table) if name != label])
    listed = _draw_list(_read_probes(table, label, panels), list(dict.fromkeys(panels)), label, request)
    code = _read_code(table)
    return listed if not code else alt.vconcat(listed, _draw_code(code, request), spacing=20)


def _read_probes(table: HeadTable, label: str, panels: list[str]) -> list[Record]:
    """Read a record for each mark; ``order`` sorts lines by what all heads find, all links first."""
    said = [format_cell(cell) for cell in read_cells(table, label)]
    named = [(name_relation(one) if label == RELATION else one)[:_LONGEST] for one in said]
    errors, p = read_numbers(table, "accuracy_se"), read_numbers(table, "p_adjusted")
    sure = [one is not None and one < SIGNIFICANT for one in p]
    more = {name: read_numbers(table, name) for name in ("n", "bits", "bits_uniform", "accuracy")}
    data: list[Record] = []
    for column, mark in _MARKS.items():
        if column not in table.data:
            continue
        for row, value in enumerate(read_numbers(table, column)):
            error = errors[row] if column == "accuracy" else None
            low = high = None
            if value is not None and error is not None:
                low, high = value - BEYOND * error, value + BEYOND * error
            first = (said[row] != ALL, more["accuracy"][row] is None, -(more["accuracy"][row] or 0.0))
            n = more["n"][row]
            data.append({
                "panel": panels[row], "label": named[row], "by": mark, "value": value, "low": low,
                "high": high, "bits": more["bits"][row], "uniform": more["bits_uniform"][row],
                "p": p[row], "n": n, "first": first,
                "text": f"{'' if n is None else f'{n:,}'}{' *' if sure[row] else ''}",
            })  # fmt: skip
    return data


def _draw_list(data: list[Record], panels: list[str], label: str, request: DrawingRequest) -> Any:
    theme = request.theme
    labels = list(dict.fromkeys(one["label"] for one in sorted(data, key=lambda one: one["first"])))
    for one in data:
        del one["first"]
    room = 12 + theme.small(1) * 0.5 * max(map(len, labels))
    beside = 10 + theme.small(2) * 0.55 * max(len(one["text"]) for one in data)
    width = int(max(100, min(520, request.width - room - beside)))
    palette = theme.categories
    shown = dict.fromkeys(one["by"] for one in data)
    looks = dict(
        zip(
            _MARKS.values(),
            [
                ("circle", palette[0], palette[0]),
                ("diamond", palette[1], theme.background),
                (_TICK, palette[2], palette[2]),
                ("triangle-up", theme.muted, theme.background),
            ],
            strict=True,
        )
    )
    below = alt.Legend(
        title=None, orient="bottom", columns=2 if request.width < _NARROW else 4, symbolStrokeWidth=1.6
    )
    channels: dict[str, Any] = {
        name: channel(
            "by:N", legend=below,
            scale=alt.Scale(domain=list(shown), range=[looks[one][place] for one in shown]),
        )
        for place, (name, channel) in enumerate(
            (("shape", alt.Shape), ("stroke", alt.Stroke), ("fill", alt.Fill))
        )
    }  # fmt: skip
    axis = alt.Axis(grid=True, domain=False, ticks=False, labelLimit=240)
    base = alt.Chart().encode(y=alt.Y("label:N", sort=labels, title=None, axis=axis))
    x: dict[str, Any] = {"title": "links found", "scale": alt.Scale(domain=[0, 1], nice=False)}
    ticks = [0, 0.5, 1] if width < 160 else [0, 0.25, 0.5, 0.75, 1]
    percent = alt.Axis(format="%", values=ticks, grid=False)
    tooltip = make_tooltip({
        "label:N": label.replace("_", " "), "by:N": "found by", "value:Q": "links found", "n:Q": "links",
        "p:Q": "adjusted p", "bits:Q": "bits per link", "uniform:Q": "uniform code",
    })  # fmt: skip
    bars = base.transform_filter("isValid(datum.low)").mark_rule(strokeWidth=1.6, clip=True, color=palette[0])
    points = base.transform_filter("isValid(datum.value)").mark_point(size=52, strokeWidth=1.6, opacity=1)
    text: dict[str, Any] = {"align": "right", "fontSize": theme.small(2)}
    counts = base.transform_filter(f"datum.by === '{_MARKS['accuracy']}'").mark_text(**text, color=theme.ink)
    end = alt.value(width + beside)
    chart = alt.layer(
        bars.encode(x=alt.X("low:Q", axis=percent, **x), x2="high:Q"),
        points.encode(x=alt.X("value:Q", axis=percent, **x), tooltip=tooltip, **channels),
        counts.encode(x=end, text="text:N"),
    ).properties(width=width, height=alt.Step(17 if len(labels) <= 60 else 14))
    drawn = draw_panels(chart, data, panels, 1, width)
    remark = [
        "bars: 95 % intervals; on the right: number of links",
        f"*: all find more than the best (adjusted p < {SIGNIFICANT})",
    ]
    look: dict[str, Any] = {
        "fontWeight": "normal",
        "fontSize": theme.small(2),
        "color": theme.muted,
        "frame": "bounds",
    }
    return drawn.properties(title=alt.TitleParams(remark, **look))


def _read_code(table: HeadTable) -> list[Record]:
    """Read the blocks of the online code off the table's record; nothing where it has none."""
    code = table.provenance.get("code")
    names = ("before", "links", "bits", "uniform")
    if not isinstance(code, list) or len(code) < 2 or len({*label_rows(table, ["model", "dataset"])}) > 1:
        return []
    if not all(isinstance(one, dict) and all(isinstance(one.get(name), int | float) for name in names)
               for one in code):  # fmt: skip
        return []
    return [
        {"step": one["before"], "links": one["links"], "by": by, "value": one[name]}
        for name, by in (("bits", "probe"), ("uniform", "uniform code"))
        for one in code
    ]


def _draw_code(data: list[Record], request: DrawingRequest) -> Any:
    """Draw what a link takes in the online code after so many others."""
    theme = request.theme
    width = int(min(420, request.width - 60))
    x = make_step_axis([one["step"] for one in data], width, theme, "links that it has learnt from")
    names = list(dict.fromkeys(one["by"] for one in data))
    hues, dashes = [theme.categories[0], theme.muted], [[1, 0], [4, 3]]
    last = max(one["step"] for one in data)
    named = [{**one, "name": one["by"]} for one in data if one["step"] == last]
    tooltip = make_tooltip({
        "by:N": "sent by", "step:Q": "links before", "links:Q": "links", "value:Q": "bits per link",
    })  # fmt: skip
    y = alt.Y("value:Q", title="bits per link", axis=alt.Axis(tickCount=4))
    colour = alt.Color("by:N", scale=alt.Scale(domain=names, range=hues), legend=None)
    dash = alt.StrokeDash("by:N", scale=alt.Scale(domain=names, range=dashes), legend=None)
    line = alt.Chart(alt.InlineData(values=data)).mark_line(
        strokeWidth=1.8, point=alt.OverlayMarkDef(size=28, filled=True)
    )
    label = alt.Chart(alt.InlineData(values=named)).mark_text(align="right", dy=-9, fontSize=theme.small(2))
    chart = alt.layer(
        line.encode(x=x, y=y, color=colour, strokeDash=dash, tooltip=tooltip),
        label.encode(x=x, y=y, text="name:N", color=colour),
    )
    title = alt.TitleParams("online code: what the next links take")
    return chart.properties(width=width, height=int(min(150, width * 0.5)), title=title)
