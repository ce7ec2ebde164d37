"""What all heads find together, beside the best of them, the best rule and a model with random weights."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import altair as alt

from attnprobe.reports.columns import (
    DrawingRequest,
    Record,
    label_by_others,
    label_rows,
    list_keys,
    read_cells,
    read_numbers,
)
from attnprobe.reports.pictures.channels import draw_panels, make_remark, make_tooltip, tell_marks_apart
from attnprobe.reports.pictures.gains import (
    ALL,
    LESS,
    MORE,
    RELATION,
    SAME,
    Gains,
    compare_rows,
    have_common_links,
)
from attnprobe.reports.pictures.relations import RULE, TICK, make_share_axis, name_rule
from attnprobe.reports.pictures.training import make_step_axis
from attnprobe.reports.scales import BEYOND
from attnprobe.sums.resampling import SIGNIFICANT
from attnprobe.table.cells import format_cell
from attnprobe.table.head_table import HeadTable
from attnprobe.table.relation_names import name_relation
from attnprobe.table.table import Column

#: Marks by the column that they show.
_MARKS = {
    "accuracy": "all heads together", "best_head_accuracy": "best attention head",
    "baseline": RULE, "control": "a model with random weights",
}  # fmt: skip
#: What all heads together are, by whether they find significantly more than the best of them.
_TOGETHER = {
    MORE: "all heads together: more than the best head",
    SAME: "all heads together: no significant difference",
    LESS: "all heads together: less than the best head",
}
#: The rule where it lies above the whole interval of all heads together.
_AHEAD = f"{RULE}: above the interval of all heads"
_LONGEST = 40
#: A tick that is broad.
_BAR = "M-0.3,-1L0.3,-1L0.3,1L-0.3,1Z"
#: What the numbers at the right are.
_COUNT = "links"
#: What a link takes without a probe.
_UNIFORM = "uniform code: every word alike"
#: How wide a letter of the legend is, as a share of its size, and a symbol.
_LETTER, _SYMBOL = 0.5, 30


def draw_probes(table: HeadTable, request: DrawingRequest) -> Any:
    """Draw a line a label, those first of which most is found: a mark for each of what finds links.

    The 95 % interval is that of all heads together. Their point is filled where they find significantly more
    than the best head, by the adjusted p; it is a triangle where the 95 % interval of the gain lies below 0,
    and empty otherwise. The rule's mark is broad where it lies above their whole interval. Below stands what
    a link takes in the online code after so many links, where the table's record has it.
    """
    names = [name for name in list_keys(table) if name not in {"model", "dataset"}]
    label = names[0]
    panels = label_by_others(table, {label})
    rules = [name_rule(format_cell(cell), label) for cell in read_cells(table, "baseline_rule") if cell]
    data = _read_probes(table, label, panels)
    listed = _draw_list(data, list(dict.fromkeys(panels)), label, rules, request)
    code = _read_code(table)
    if not code:
        return listed
    own: Any = dict.fromkeys(("shape", "stroke", "fill", "color", "strokeDash"), "independent")
    return alt.vconcat(
        listed, _draw_code(code, _measure_names(data, request), request), spacing=20
    ).resolve_scale(**own)


def _read_probes(table: HeadTable, label: str, panels: list[str]) -> list[Record]:
    """Read a record for each mark; ``first`` sorts lines by what all heads find, all links first."""
    said = [format_cell(cell) for cell in read_cells(table, label)]
    named = [(name_relation(one) if label == RELATION else one)[:_LONGEST] for one in said]
    errors, p = read_numbers(table, "accuracy_se"), read_numbers(table, "p_adjusted")
    compared = compare_rows(table, _read_gains(table), ["gain_se"])
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
            shown = _TOGETHER[compared[row]] if column == "accuracy" else mark
            if mark == RULE and _lies_below_rule(table, row):
                shown = _AHEAD
            first = (said[row] != ALL, more["accuracy"][row] is None, -(more["accuracy"][row] or 0.0))
            n = more["n"][row]
            data.append({
                "panel": panels[row], "label": named[row], "said": said[row], "by": mark, "value": value,
                "mark": shown, "low": low, "high": high, "bits": more["bits"][row],
                "uniform": more["bits_uniform"][row], "p": p[row], "n": n, "first": first,
                "text": "" if n is None else f"{n:,}",
            })  # fmt: skip
    return data


def _read_gains(table: HeadTable) -> list[float | None]:
    """Read by how much all heads together find more than the best of them."""
    pairs = zip(*(read_numbers(table, name) for name in ("accuracy", "best_head_accuracy")), strict=True)
    return [None if one is None or other is None else one - other for one, other in pairs]


def _draw_list(
    data: list[Record], panels: list[str], label: str, rules: list[str], request: DrawingRequest
) -> Any:
    theme = request.theme
    labels = list(dict.fromkeys(one["label"] for one in sorted(data, key=lambda one: one["first"])))
    # All links are no row among others: a line without a name is between.
    whole = [one["label"] for one in data if one["said"] == ALL][:1] if len(labels) > 1 else []
    lines = [*whole, *[" "] * len(whole), *(one for one in labels if one not in whole)]
    for one in data:
        del one["first"]
    room = _measure_names(data, request)
    beside = 10 + theme.small(2) * 0.55 * max(len(text) for text in (_COUNT, *(one["text"] for one in data)))
    width = int(max(100, min(520, request.width - room - beside)))
    step = 17 if len(labels) <= 60 else 14
    # A legend of one chart begins at the left edge, and not where names of rows end.
    left = {"orient": "none", "legendX": 4 - room, "legendY": step * len(lines) + 46, "direction": "vertical"}
    channels = _make_looks(_list_marks(data), request, left if len(panels) == 1 else {"orient": "bottom"})
    axis = alt.Axis(grid=True, domain=False, ticks=False, labelLimit=240, values=labels)
    scale = alt.Scale(domain=lines)
    base = alt.Chart().encode(y=alt.Y("label:N", sort=labels, scale=scale, title=None, axis=axis))
    shares, x = make_share_axis(width)
    tooltip = make_tooltip({
        "label:N": label.replace("_", " "), "by:N": "found by", "value:Q": "links found", "n:Q": "links",
        "p:Q": "adjusted p", "bits:Q": "bits per link", "uniform:Q": "uniform code",
    })  # fmt: skip
    bars = base.transform_filter("isValid(datum.low)").mark_rule(strokeWidth=1.6, clip=True)
    points = base.transform_filter("isValid(datum.value)").mark_point(size=52, strokeWidth=1.6, opacity=1)
    text: dict[str, Any] = {"align": "right", "fontSize": theme.small(2)}
    counts = base.transform_filter(f"datum.by === '{_MARKS['accuracy']}'").mark_text(**text, color=theme.ink)
    end = alt.value(width + beside)
    # One line a chart, whatever the panels are.
    above = (
        alt.Chart()
        .transform_aggregate(rows="count()")
        .mark_text(**text, color=theme.muted, baseline="bottom")
    )
    chart = alt.layer(
        bars.encode(x=alt.X("low:Q", axis=shares, **x), x2="high:Q", stroke=channels["stroke"]),
        points.encode(x=alt.X("value:Q", axis=shares, **x), tooltip=tooltip, **channels),
        counts.encode(x=end, text="text:N"),
        above.encode(x=end, y=alt.value(-3), text=alt.value(_COUNT)),
    ).properties(width=width, height=alt.Step(step))
    drawn = draw_panels(chart, data, panels, 1, width)
    return drawn.properties(title=make_remark(_explain_marks(data, label, rules), theme, request.width))


def _measure_names(data: list[Record], request: DrawingRequest) -> float:
    return 12 + request.theme.small(1) * 0.5 * max(len(one["label"]) for one in data)


def _explain_marks(data: list[Record], label: str, rules: list[str]) -> list[str]:
    """Say what bars, numbers and marks are; of marks, only of those that there are."""
    lines = []
    if _have(data, "low"):
        lines.append("bars: 95 % intervals of all heads together, not of what they find more")
    such = f", such as: {Counter(rules).most_common(1)[0][0]}" if rules else ""
    lines.append(f"simple rule: a guess without a model{such}")
    marks = _list_marks(data)
    if _TOGETHER[MORE] in marks:
        lines.append(f"more than the best head: adjusted p < {SIGNIFICANT}")
    if _TOGETHER[LESS] in marks:
        lines.append("less than the best head: the 95 % interval of the difference lies below 0")
    if have_common_links(label, [one["said"] for one in data]):
        lines.append("each row chooses a best head and rule of its own; rows share links, and don't add up")
    return lines


def _list_marks(data: list[Record]) -> set[str]:
    return {one["mark"] for one in data if one["value"] is not None}


def _have(data: list[Record], field: str) -> bool:
    return any(one[field] is not None for one in data)


def _make_looks(marks: set[str], request: DrawingRequest, place: dict[str, Any]) -> dict[str, Any]:
    """Make the channels by which marks differ: shape, fill and stroke; the legend has those that occur."""
    theme = request.theme
    own, rule, best, less, *_ = theme.categories
    best_head, simple, random = list(_MARKS.values())[1:]
    looks = {
        _TOGETHER[MORE]: ("circle", own, own), _TOGETHER[SAME]: ("circle", theme.background, own),
        _TOGETHER[LESS]: ("triangle-down", theme.background, less),
        best_head: ("diamond", theme.background, best), simple: (TICK, rule, rule),
        _AHEAD: (_BAR, rule, rule),
        random: ("triangle-up", theme.background, theme.muted),
    }  # fmt: skip
    shown = [mark for mark in looks if mark in marks]
    longest = _SYMBOL + _LETTER * theme.size * max(map(len, shown))
    columns = max(1, int(request.width / longest))
    below = alt.Legend(title=None, columns=columns, symbolStrokeWidth=1.6, labelLimit=400, **place)
    return tell_marks_apart({mark: looks[mark] for mark in shown}, below)


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
        for name, by in (("bits", "probe"), ("uniform", _UNIFORM))
        for one in code
    ]


def _draw_code(data: list[Record], room: float, request: DrawingRequest) -> Any:
    """Draw what a link takes in the online code after so many others; ``room`` is left of it."""
    theme = request.theme
    width = int(max(100, min(420, request.width - room - 30)))
    x = make_step_axis([one["step"] for one in data], width, theme, "links learnt from")
    names = list(dict.fromkeys(one["by"] for one in data))
    hues, dashes = [theme.categories[0], theme.muted], [[1, 0], [4, 3]]
    tooltip = make_tooltip({
        "by:N": "sent by", "step:Q": "links before", "links:Q": "links", "value:Q": "bits per link",
    })  # fmt: skip
    y = alt.Y("value:Q", title="bits", axis=alt.Axis(tickCount=4))
    below = alt.Legend(
        title=None,
        orient="bottom",
        symbolType="stroke",
        symbolStrokeWidth=1.8,
        labelLimit=400,
        columns=2 if width > 300 else 1,
    )
    colour = alt.Color("by:N", scale=alt.Scale(domain=names, range=hues), legend=below)
    dash = alt.StrokeDash("by:N", scale=alt.Scale(domain=names, range=dashes), legend=below)
    line = alt.Chart(alt.InlineData(values=data)).mark_line(
        strokeWidth=1.8, point=alt.OverlayMarkDef(size=28, filled=True)
    )
    chart = line.encode(x=x, y=y, color=colour, strokeDash=dash, tooltip=tooltip)
    title = alt.TitleParams("bits per link of the online code", frame="bounds")
    return chart.properties(width=width, height=int(max(100, min(150, width * 0.5))), title=title)


def _beats_rule(table: HeadTable, row: int, beyond: float = 0.0) -> bool:
    """Tell whether all heads together find more than the rule, so much beyond; and where there is no rule."""
    accuracy, rule = (read_numbers(table, name)[row] for name in ("accuracy", "baseline"))
    return accuracy is None or rule is None or accuracy + beyond > rule


def _lies_below_rule(table: HeadTable, row: int) -> bool:
    """Tell whether the whole interval of all heads together lies below the rule."""
    error = read_numbers(table, "accuracy_se")[row]
    return error is not None and not _beats_rule(table, row, BEYOND * error)


def state_probes(table: HeadTable, columns: Sequence[Column]) -> str:
    """State in how many rows all heads together find significantly more than the best of them.

    And in how many the simple rule lies above all of their interval. No row is an example in which the rule
    finds as much as they do.
    """
    found = Gains(table, _read_gains(table), ("accuracy", "best_head_accuracy"), "best head")
    who, than, said = "all heads together find", "than the best head", ""
    if found.own:
        clear = found.own if len(found.rows) == 1 else [row for row in found.own if _beats_rule(table, row)]
        said = f"{who} more {than} in {len(found.own)} of {found.number}"
        if clear and len(found.own) == 1:
            said = f"{who} more of {found.name(clear[0])} {than}: {found.write(clear[0])}"
        elif clear:
            said += f", such as {found.name(clear[0])}: {found.write(clear[0])}"
    elif found.whole is not None:
        said = f"{who} more of all links {than} ({found.write(found.whole)})"
        said += f", but not {found.none}" if found.none else ""
    elif found.none:
        said = f"all heads together do not find significantly more {than} {found.none} (adjusted p)"
    beaten = [row for row in found.rows if _lies_below_rule(table, row)]
    if not said or not beaten:
        return said
    return " ".join(
        filter(None, (f"{said}; the simple rule lies above their 95 % interval", found.count(beaten, said)))
    )
