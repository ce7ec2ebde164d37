"""What heads find: a line a relation with its best head, the best simple rule, and what the head gains."""

from collections.abc import Sequence
from typing import Any

import altair as alt

from attnprobe.reports.columns import DrawingRequest, Record, label_rows, list_keys, read_cells, read_numbers
from attnprobe.reports.pairs import name_head
from attnprobe.reports.pictures.channels import make_tooltip
from attnprobe.reports.scales import BEYOND
from attnprobe.sums.resampling import SIGNIFICANT
from attnprobe.table.cells import Cell, format_cell
from attnprobe.table.head_table import HeadTable
from attnprobe.table.kinds import RULES
from attnprobe.table.relation_names import name_relation

#: Most characters of a label, and of the name of a relation in a narrow picture.
_LONGEST, _SHORTER = 36, 28
#: What a filled and an empty point are.
_MARKS = (
    f"best head, adjusted p < {SIGNIFICANT}",
    "best head, not significant",
)
_RULE = "simple rule"
#: What stands before the gain of a head that ties with its rule.
_NEARLY = "\u2248 "
#: The column whose labels are relations of a treebank.
RELATION = "relation"
#: Pixels: of a line, between columns of text, of the axis that is narrowest, and of the widest one.
_LINE, _GAP, _LEAST, _MOST = 17, 7, 64, 380
#: Narrower pictures have no errors in figures, and their legend in one column.
_NARROW = 420
#: The label of all links, which stands first.
ALL = "all"
#: How wide a letter is on average, as a share of its size.
_LETTER = 0.5


def draw_relations(table: HeadTable, request: DrawingRequest) -> Any:
    """Draw a line a label, those first whose head gains most over the rule; a chart for each direction.

    A point is the head, filled where the adjusted p is below 0.05, and a tick the rule, in front of it. A bar
    about the point is the 95 % interval of the gain, so that it covers the rule where both tie. Beside it
    stand the number of links, the head and the gain with its standard error; a star says that p is adjusted
    and below 0.05, and a sign of near equality that head and rule tie.
    """
    names = [name for name in list_keys(table) if name not in {"model", "dataset"}]
    label = names[0]
    panels = label_rows(table, [name for name in list_keys(table) if name != label])
    data = _read_relations(table, label, wide=request.width >= _NARROW)
    theme = request.theme
    labels = max(len(record["label"]) for record in data) * _LETTER * theme.small(2) + 4
    texts = [("n", "links"), ("name", "head"), ("gained", "gain")]
    rooms = [_measure_column([head, *(one[f"{name}_text"] for one in data)], theme.small(2))
             for name, head in texts]  # fmt: skip
    sides = list(dict.fromkeys(panels))
    taken = labels + sum(rooms) + 2 * _GAP
    across = len(sides) if request.width >= len(sides) * (taken + 110) else 1
    width = int(max(_LEAST, min(_MOST, request.width / across - taken)))
    ends = [int(width + sum(rooms[: place + 1])) for place in range(len(rooms))]
    columns = [(name, head, end) for (name, head), end in zip(texts, ends, strict=True)]
    charts = []
    for side in sides:
        rows = [one for one, panel in zip(data, panels, strict=True) if panel == side]
        rows.sort(key=lambda one: (one["said"] != ALL, one["gain"] is None, -(one["gain"] or 0.0)))
        chart = _draw_side(rows, width, columns, label, request)
        charts.append(chart.properties(title=alt.TitleParams(side, offset=4)) if side else chart)
    paired = any(record["paired"] for record in data)
    remark = [
        f"bars: 95 % intervals of the {'gain' if paired else 'accuracy'}; * adjusted p < {SIGNIFICANT}",
        f"{_NEARLY}head and rule tie: the interval covers the rule",
    ]
    look: dict[str, Any] = {"fontWeight": "normal", "fontSize": theme.small(2), "frame": "bounds"}
    title = alt.TitleParams(remark, color=theme.muted, **look)
    return alt.concat(*charts, columns=across, spacing=26, title=title)


def _measure_column(texts: Sequence[str], size: int) -> float:
    """Give the pixels of a column of texts, with the gap before it."""
    return max(map(len, texts)) * _LETTER * size + _GAP


def _draw_side(
    data: list[Record], width: int, columns: Sequence[tuple[str, str, int]], label: str,
    request: DrawingRequest,
) -> Any:  # fmt: skip
    """Draw the lines of one direction, with columns of text that end at some pixels."""
    theme = request.theme
    best, base, *_ = theme.categories
    axis = alt.Axis(
        grid=True, domain=False, ticks=False, labelLimit=240, labelFontSize=theme.small(2), labelOverlap=False
    )
    order = list(dict.fromkeys(record["label"] for record in data))
    chart = alt.Chart(alt.InlineData(values=data)).encode(
        y=alt.Y("label:N", sort=order, title=None, axis=axis)
    )
    ticks = [0, 0.5, 1] if width < 160 else [0, 0.25, 0.5, 0.75, 1]
    percent = alt.Axis(format="%", values=ticks, grid=False, labelFontSize=theme.small(2))
    x: dict[str, Any] = {"title": "links found", "scale": alt.Scale(domain=[0, 1], nice=False)}
    tooltip = make_tooltip({
        "label:N": label.replace("_", " "), "panel:N": "of", "n:Q": "links", "name:N": "head",
        "accuracy:Q": "accuracy", "error:Q": "standard error", "baseline:Q": "simple rule finds",
        "rule:N": "simple rule", "gain:Q": "gain", "gain_error:Q": "standard error of the gain",
        "p:Q": "adjusted p",
    })  # fmt: skip
    columns_of_legend = 3 if request.width >= _NARROW else 1
    legend = alt.Legend(title=None, orient="bottom", columns=columns_of_legend, labelLimit=400)
    looks: dict[str, Any] = {
        name: channel("mark:N", scale=alt.Scale(domain=[*_MARKS, _RULE], range=values), legend=legend)
        for name, channel, values in (
            ("shape", alt.Shape, ["circle", "circle", "stroke"]),
            ("fill", alt.Fill, [best, theme.background, base]),
            ("stroke", alt.Stroke, [best, best, base]),
        )
    }
    known = chart.transform_filter("isValid(datum.accuracy)")
    bars = known.transform_filter("isValid(datum.low)").mark_rule(strokeWidth=1.4, color=best, clip=True)
    points = known.mark_point(size=40, strokeWidth=1.5, opacity=1)
    rules = chart.transform_filter("isValid(datum.baseline)").transform_calculate(mark=f"'{_RULE}'")
    marks = rules.mark_point(angle=90, size=110, strokeWidth=2, opacity=1)
    parts = [
        bars.encode(x=alt.X("low:Q", axis=percent, **x), x2="high:Q"),
        points.encode(x=alt.X("accuracy:Q", axis=percent, **x), tooltip=tooltip, **looks),
        marks.encode(x=alt.X("baseline:Q", axis=percent, **x), tooltip=tooltip, **looks),
    ]
    heads = alt.Chart(alt.InlineData(values=[{}]))
    for name, title, end in columns:
        text: dict[str, Any] = {"align": "right", "fontSize": theme.small(2)}
        column = chart.mark_text(**text, color=theme.ink).encode(x=alt.value(end), text=f"{name}_text:N")
        parts.append(column)
        parts.append(
            heads.mark_text(**text, color=theme.muted, baseline="bottom").encode(
                x=alt.value(end), y=alt.value(-3), text=alt.value(title)
            )
        )
    return alt.layer(*parts).properties(width=width, height=alt.Step(_LINE if len(order) <= 60 else 14))


def _read_relations(table: HeadTable, label: str, *, wide: bool) -> list[Record]:
    rule = next(name for name in RULES if name in table.data)
    panels = label_rows(table, [name for name in list_keys(table) if name != label])
    places = zip(*(read_cells(table, name) for name in ("layer", "head", "position")), strict=True)
    numbers = {
        field: read_numbers(table, name)
        for field, name in (
            ("n", "n"), ("accuracy", "accuracy"), ("error", "accuracy_se"), ("baseline", "baseline"),
            ("gain", "gain"), ("gain_error", "gain_se"), ("p", "p_adjusted"),
        )
    }  # fmt: skip
    named = [_name_place(*place) for place in places]
    said = [format_cell(cell) for cell in read_cells(table, label)]
    # In a narrow picture, what has a long name goes by its label alone.
    most = _LONGEST if wide else _SHORTER
    named_so = [name_relation(one) if label == RELATION else one for one in said]
    shown = [name if len(name) <= most else one for name, one in zip(named_so, said, strict=True)]
    rules = read_cells(table, rule)
    data = []
    for row in range(len(table)):
        record: Record = {name: cells[row] for name, cells in numbers.items()}
        record |= {"said": said[row], "label": shown[row][:_LONGEST], "panel": panels[row]}
        record |= {"name": named[row], "rule": format_cell(rules[row])}
        data.append(record | _say_gain(record, errors=wide))
    return data


def _name_place(layer: Cell, head: Cell, position: Cell) -> str | None:
    if layer is None:
        return None
    return name_head((layer, head)) + (f" {position}" if position else "")


def _say_gain(record: Record, *, errors: bool) -> Record:
    """Say what a line shows: the ends of its bar, whether head and rule tie, and its texts."""
    accuracy, gain, p = record["accuracy"], record["gain"], record["p"]
    paired = record["gain_error"] is not None
    error = record["gain_error"] if paired else record["error"]
    spread = None if accuracy is None or error is None else BEYOND * error
    sure = p is not None and p < SIGNIFICANT
    tie = gain is not None and (gain == 0 or (spread is not None and abs(gain) <= spread)) and not sure
    gained = ""
    if gain is not None:
        gained = (_NEARLY if tie else "") + f"{gain:+.2f}".replace("-", "\u2212")
        gained += f" \u00b1 {error:.2f}" if paired and errors else ""
        gained += " *" if sure else ""
    n = record["n"]
    return {
        "mark": _MARKS[not sure], "tie": tie, "paired": paired,
        "low": None if spread is None else accuracy - spread,
        "high": None if spread is None else accuracy + spread,
        "n_text": "" if n is None else f"{n:,}", "name_text": record["name"] or "", "gained_text": gained,
    }  # fmt: skip
