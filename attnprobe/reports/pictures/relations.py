"""What heads find: a line a relation with its best head, the best simple rule, and what the head gains."""

import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import altair as alt

from attnprobe.reports.columns import (
    DrawingRequest,
    Record,
    label_by_others,
    list_keys,
    read_cells,
    read_numbers,
)
from attnprobe.reports.pairs import name_head
from attnprobe.reports.pictures.channels import make_remark, make_tooltip, tell_marks_apart
from attnprobe.reports.pictures.gains import (
    ALL,
    LESS,
    MENTION,
    MORE,
    RELATION,
    SAME,
    compare,
    have_common_links,
)
from attnprobe.reports.scales import BEYOND
from attnprobe.sums.resampling import SIGNIFICANT
from attnprobe.table.cells import Cell, clean, format_cell
from attnprobe.table.head_table import HeadTable
from attnprobe.table.kinds import RULES
from attnprobe.table.relation_names import name_relation

#: Most characters of a label, of the name of a relation in a narrow picture, and of the name of a rule.
_LONGEST, _SHORTER, _RULE_NAME = 36, 28, 20
#: What a point is, by how it compares with the rule.
_MARKS = {
    MORE: "attention head finds more",
    SAME: "attention head: no significant difference",
    LESS: "attention head finds less",
}
RULE = "best simple rule"
#: The mark of a rule: a tick across the line to the head, which would hide one along it.
TICK = "M0,-1L0,1"
#: What stands behind a gain that is significant.
_STAR = " *"
#: Pixels: of a line, between columns of text, of the axis that is narrowest, and of the widest one; of both
#: axes where there is room for the names of rules; and between them.
_LINE, _GAP, _LEAST, _MOST, _ROOMY, _BETWEEN = 17, 7, 64, 260, 220, 16
#: Narrower axes have shorter titles.
_WORDED = 130
#: Narrower pictures have no interval in figures, and their legend in one column.
_NARROW = 420
#: How wide a letter is on average, as a share of its size.
_LETTER = 0.5
#: What both ends of a dependency are called where "head" alone would be one of attention.
_ENDS = {
    "dependent to head": "from the dependent to its syntactic head",
    "head to dependent": "from the syntactic head to its dependent",
}
#: Where the nearest word of a part of speech stands.
_SIDES = {"before": "previous", "after": "next"}
_OFFSET = re.compile(r"(?:offset )?([+-]?\d+)")


def draw_relations(table: HeadTable, request: DrawingRequest) -> Any:
    """Draw a line a label, those first whose head gains most over the rule; a chart for each direction.

    All directions have the order of the first, so that a relation stands at one height.

    On the left a line joins what the head finds with what the rule finds: a tick, in front of it. On the
    right is the gain, the one less the other, with its 95 % interval about it. A point is filled where the
    adjusted p is below 0.05, a triangle where its interval ends below 0, and empty otherwise. A table without
    errors of gains has the intervals of what heads find, on the left. Beside it stand the number of links,
    the head, and the gain with its interval; where there is room, the name of the rule. A narrow picture has
    the gains alone.
    """
    names = [name for name in list_keys(table) if name not in {"model", "dataset"}]
    label = names[0]
    panels = label_by_others(table, {label})
    wide, theme = request.width >= _NARROW, request.theme
    data = _read_relations(table, label, wide=wide)
    paired = any(record["paired"] for record in data)
    labels = max(len(record["label"]) for record in data) * _LETTER * theme.small(2) + 4
    head, gain = ("attention head", "gain [95 %]" if paired else "gain") if wide else ("head", "gain")
    texts = [("n", "links"), ("name", head), ("gained", gain), ("rule", "simple rule")]
    rooms = [_measure_column([title, *(one[f"{name}_text"] for one in data)], theme.small(2))
             for name, title in texts]  # fmt: skip
    rooms[-1] += _GAP  # capitals of parts of speech are wide
    if request.width < labels + sum(rooms) + 2 * _GAP + _ROOMY:  # rules have no names here
        texts, rooms = texts[:-1], rooms[:-1]
    sides = list(dict.fromkeys(panels))
    taken = labels + sum(rooms) + 2 * _GAP
    across = len(sides) if request.width >= len(sides) * (taken + _ROOMY) else 1
    room = request.width / across - taken
    both = room >= 2 * _LEAST + _BETWEEN
    width = int(max(_LEAST, min(_MOST, (room - _BETWEEN) / 2 if both else room)))
    ends = [int(width + sum(rooms[: place + 1])) for place in range(len(rooms))]
    columns = [(name, title, end) for (name, title), end in zip(texts, ends, strict=True)]
    sizes = _Sizes(width, columns, _find_gains(data), both)
    looks = _make_looks(_list_marks(data, both=both), request)
    charts = []
    ranks = _rank_labels(data, sides)
    for side in sides:
        rows = [one for one, panel in zip(data, panels, strict=True) if panel == side]
        rows.sort(key=lambda one: ranks[one["said"]])
        chart = _draw_side(rows, sizes, label, looks, request)
        said = _ENDS.get(side, side) if label == RELATION else side
        above: dict[str, Any] = {} if wide else {"frame": "bounds"}
        charts.append(chart.properties(title=alt.TitleParams(said, offset=4, **above)) if side else chart)
    remark = make_remark(_explain_marks(data, label, both=both), theme, request.width)
    return alt.concat(*charts, columns=across, spacing=26, title=remark)


@dataclass(frozen=True)
class _Sizes:
    """Sizes of the charts of a direction."""

    width: int  # pixels of each axis
    columns: Sequence[tuple[str, str, int]]  # of text: name, title, and where they end beside the gains
    gains: tuple[float, float]  # the ends of the axis of gains
    both: bool  # whether there is room for what is found beside the gains


def _find_gains(data: Sequence[Record]) -> tuple[float, float]:
    """Find the ends of the axis of gains: tenths that hold 0 and all intervals; of shares, from -1 to 1."""
    known = [one[name] for one in data for name in ("gain", "low", "high") if one[name] is not None]
    low, high = (
        round(round_up(10 * side) / 10, 1)
        for side, round_up in (
            (max(-1.0, min(known, default=0.0)), math.floor),
            (min(1.0, max(known, default=0.0)), math.ceil),
        )
    )
    return min(low, -0.1), max(high, 0.1)


def _rank_labels(data: Sequence[Record], sides: Sequence[str]) -> dict[str, int]:
    """Rank labels: all links, then by the gain on the first side, then on others that have more."""
    rows = sorted(
        data,
        key=lambda one: (
            one["said"] != ALL, sides.index(one["panel"]), one["gain"] is None, -(one["gain"] or 0.0)
        ),
    )  # fmt: skip
    return {said: rank for rank, said in enumerate(dict.fromkeys(one["said"] for one in rows))}


def _explain_marks(data: Sequence[Record], label: str, *, both: bool) -> list[str]:
    """Say what bars and marks are; of marks and signs, only of those that there are."""
    paired = any(record["paired"] for record in data)
    rules = Counter(record["rule"] for record in data if record["rule"])
    such = f", such as: {rules.most_common(1)[0][0]}" if rules else ""
    lines = [
        f"simple rule: a guess without a model{such}",
        "gain: what the head finds minus what the rule finds",
    ]
    if _have(data, "low"):
        lines[-1] += "; bars: its 95 % interval"
    elif both and _have(data, "own_low"):
        lines.append("bars: 95 % intervals of what heads find")
    bar, none = ("bar", "0") if paired else ("95 % interval", "the rule")
    if any(record["compared"] == MORE for record in data):
        lines.append(f"finds more, *: adjusted p < {SIGNIFICANT}")
    if any(record["compared"] == LESS for record in data):
        lines.append(f"finds less: the whole {bar} lies below {none}")
    if any(record["covers"] for record in data):
        lines.append(f"no significant difference: the {bar} covers {none}")
    if any(record["unsure"] for record in data):
        lines.append(f"the {bar} lies above {none} without *: adjusted p is {SIGNIFICANT} or more")
    if have_common_links(label, [record["said"] for record in data]):
        lines.append("each row chooses a head and a rule of its own; rows share links, and don't add up")
    return lines


def _list_marks(data: Sequence[Record], *, both: bool) -> set[str]:
    marks = {record["mark"] for record in data if record["accuracy"] is not None}
    return marks | ({RULE} if both and _have(data, "baseline") else set())


def _have(data: Sequence[Record], field: str) -> bool:
    return any(record[field] is not None for record in data)


def name_rule(rule: str, label: str) -> str:
    """Name a rule for a reader, of the rows that a label names: an offset by the word at it.

    >>> [name_rule(one, "relation") for one in ("offset -1", "2", "nearest VERB", "NOUN after")]
    ['previous word', '2 words after', 'nearest VERB', 'next NOUN']
    >>> name_rule("nearest", "mention")
    'nearest mention'
    """
    found = _OFFSET.fullmatch(rule)
    if found is None:
        kind, _, side = clean(rule).partition(" ")
        if label == MENTION and kind and not side:
            return f"{kind} mention"
        return f"{_SIDES[side]} {kind}" if side in _SIDES else clean(rule)
    offset = int(found[1])
    if abs(offset) == 1:
        return "next word" if offset > 0 else "previous word"
    return f"{abs(offset)} words {'after' if offset > 0 else 'before'}"


def _make_looks(marks: set[str], request: DrawingRequest) -> dict[str, Any]:
    """Make the channels by which marks differ: shape, fill and stroke; the legend has those that occur."""
    theme = request.theme
    best, base, _, less, *_ = theme.categories
    looks = {
        _MARKS[MORE]: ("circle", best, best),
        _MARKS[SAME]: ("circle", theme.background, best),
        _MARKS[LESS]: ("triangle-down", theme.background, less),
        RULE: (TICK, base, base),
    }
    shown = [mark for mark in looks if mark in marks]
    legend = alt.Legend(title=None, orient="bottom", columns=_count_columns(shown, request), labelLimit=400)
    return tell_marks_apart({mark: looks[mark] for mark in shown}, legend)


def _count_columns(shown: Sequence[str], request: DrawingRequest) -> int:
    """Count the columns of a legend that find room, each as wide as the longest text."""
    longest = max(map(len, shown), default=0) * _LETTER * request.theme.size + 34
    return max(1, min(len(shown), int(request.width / longest)))


def _measure_column(texts: Sequence[str], size: int) -> float:
    """Give the pixels of a column of texts, with the gap before it."""
    return max(map(len, texts)) * _LETTER * size + _GAP


def _draw_side(
    data: list[Record], sizes: _Sizes, label: str, looks: dict[str, Any], request: DrawingRequest
) -> Any:
    """Draw the lines of one direction: what is found, the gain, and columns of text."""
    theme = request.theme
    order = list(dict.fromkeys(record["label"] for record in data))
    axis = alt.Axis(
        grid=True, domain=False, ticks=False, labelLimit=240, labelFontSize=theme.small(2), labelOverlap=False
    )
    bare = alt.Axis(grid=True, domain=False, ticks=False, labels=False)
    chart = alt.Chart(alt.InlineData(values=data)).properties(
        width=sizes.width, height=alt.Step(_LINE if len(order) <= 60 else 14)
    )
    labelled, plain = (
        chart.encode(y=alt.Y("label:N", sort=order, title=None, axis=one)) for one in (axis, bare)
    )
    tooltip = make_tooltip({
        "label:N": label.replace("_", " "), "panel:N": "of", "n:Q": "links", "name:N": "head",
        "mark:N": "mark", "accuracy:Q": "accuracy", "error:Q": "standard error",
        "baseline:Q": "simple rule finds", "rule:N": "simple rule", "gain:Q": "gain",
        "gain_error:Q": "standard error of the gain", "p:Q": "adjusted p",
    })  # fmt: skip
    gains = _draw_gains(plain if sizes.both else labelled, sizes, looks, tooltip, request)
    if not sizes.both:
        return gains
    return alt.hconcat(_draw_shares(labelled, sizes.width, looks, tooltip, request), gains, spacing=_BETWEEN)


def _draw_shares(
    chart: Any, width: int, looks: dict[str, Any], tooltip: list[alt.Tooltip], request: DrawingRequest
) -> Any:
    """Draw what a head and the rule find, and a line from the one to the other."""
    theme = request.theme
    shares, x = make_share_axis(width, labelFontSize=theme.small(2))
    known = chart.transform_filter("isValid(datum.accuracy)")
    apart = known.transform_filter("isValid(datum.baseline)").mark_rule(strokeWidth=1, color=theme.muted)
    bars = known.transform_filter("isValid(datum.own_low)").mark_rule(strokeWidth=1.4, clip=True)
    points = known.mark_point(size=40, strokeWidth=1.5, opacity=1)
    rules = chart.transform_filter("isValid(datum.baseline)").transform_calculate(mark=f"'{RULE}'")
    marks = rules.mark_point(size=110, strokeWidth=2, opacity=1)
    return alt.layer(
        apart.encode(x=alt.X("accuracy:Q", axis=shares, **x), x2="baseline:Q"),
        bars.encode(x=alt.X("own_low:Q", axis=shares, **x), x2="own_high:Q", stroke=looks["stroke"]),
        points.encode(x=alt.X("accuracy:Q", axis=shares, **x), tooltip=tooltip, **looks),
        marks.encode(x=alt.X("baseline:Q", axis=shares, **x), tooltip=tooltip, **looks),
    )


def _draw_gains(
    chart: Any, sizes: _Sizes, looks: dict[str, Any], tooltip: list[alt.Tooltip], request: DrawingRequest
) -> Any:
    """Draw gains about a line at 0, with columns of text that end at some pixels."""
    theme = request.theme
    axis = alt.Axis(
        grid=False, tickCount=max(2, sizes.width // 45), labelFontSize=theme.small(2), labelOverlap=True,
        labelFlush=False,
        labelExpr="datum.value === 0 ? '0' : format(datum.value, '+.1~f')",
    )  # fmt: skip
    title = "gain over the rule" if sizes.width >= _WORDED else "gain"
    x: dict[str, Any] = {"title": title, "scale": alt.Scale(domain=list(sizes.gains), nice=False)}
    known = chart.transform_filter("isValid(datum.gain)")
    bars = known.transform_filter("isValid(datum.low)").mark_rule(strokeWidth=1.4, clip=True)
    points = known.mark_point(size=40, strokeWidth=1.5, opacity=1)
    once = alt.Chart(alt.InlineData(values=[{"zero": 0}]))
    parts = [
        once.mark_rule(color=theme.muted, strokeDash=[3, 3]).encode(x=alt.X("zero:Q", axis=axis, **x)),
        bars.encode(x=alt.X("low:Q", axis=axis, **x), x2="high:Q", stroke=looks["stroke"]),
        points.encode(x=alt.X("gain:Q", axis=axis, **x), tooltip=tooltip, **looks),
    ]
    for name, title, end in sizes.columns:
        text: dict[str, Any] = {"align": "right", "fontSize": theme.small(2)}
        column = chart.mark_text(**text, color=theme.ink).encode(x=alt.value(end), text=f"{name}_text:N")
        parts.append(column)
        parts.append(
            once.mark_text(**text, color=theme.muted, baseline="bottom").encode(
                x=alt.value(end), y=alt.value(-3), text=alt.value(title)
            )
        )
    return alt.layer(*parts)


def make_share_axis(width: int, **look: Any) -> tuple[Any, dict[str, Any]]:
    """Make the axis of the share of links that are found, and the rest of its channel."""
    ticks = [0, 0.5, 1] if width < 160 else [0, 0.25, 0.5, 0.75, 1]
    axis = alt.Axis(format=".2~f", values=ticks, grid=False, **look)
    title = "share of links found" if width >= _WORDED else "share found"
    return axis, {"title": title, "scale": alt.Scale(domain=[0, 1], nice=False)}


def _read_relations(table: HeadTable, label: str, *, wide: bool) -> list[Record]:
    rule = next(name for name in RULES if name in table.data)
    panels = label_by_others(table, {label})
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
        record |= {"name": named[row], "rule": name_rule(format_cell(rules[row]), label)}
        record |= {"rule_text": record["rule"][:_RULE_NAME]}
        data.append(record | _say_gain(record, errors=wide))
    return data


def _name_place(layer: Cell, head: Cell, position: Cell) -> str | None:
    if layer is None:
        return None
    return name_head((layer, head)) + (f" {position}" if position else "")


def _say_gain(record: Record, *, errors: bool) -> Record:
    """Say what a line shows: the ends of its interval, whether it covers the rule, and its texts.

    It is that of the gain, or else that of what the head finds.
    """
    accuracy, gain = record["accuracy"], record["gain"]
    paired = record["gain_error"] is not None
    error = record["gain_error"] if paired else record["error"]
    spread = None if accuracy is None or error is None else BEYOND * error
    compared = compare(gain, spread, record["p"])
    apart = gain is not None and spread is not None and abs(gain) > spread
    gained = ""
    if gain is not None:
        gained = _write_signed(gain)
        if paired and errors and spread is not None:
            gained += f" [{_write_signed(gain - spread)}, {_write_signed(gain + spread)}]"
        gained += _STAR if compared == MORE else ""
    n = record["n"]
    return {
        "mark": _MARKS[compared], "compared": compared, "paired": paired,
        "covers": compared == SAME and gain is not None and spread is not None and not apart,
        "unsure": compared == SAME and apart and record["p"] is not None,
        **_find_ends(("low", "high"), gain, spread if paired else None),
        **_find_ends(("own_low", "own_high"), accuracy, None if paired else spread),
        "n_text": "" if n is None else f"{n:,}", "name_text": record["name"] or "", "gained_text": gained,
    }  # fmt: skip


def _find_ends(names: Sequence[str], value: float | None, spread: float | None) -> Record:
    """Find both ends of an interval about a value; None where one is undefined."""
    if value is None or spread is None:
        return dict.fromkeys(names)
    return {name: value + sign * spread for name, sign in zip(names, (-1, 1), strict=True)}


def _write_signed(value: float) -> str:
    return f"{value:+.2f}".replace("-", "\u2212") if abs(value) >= 0.005 else "0.00"
