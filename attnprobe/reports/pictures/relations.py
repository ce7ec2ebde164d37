"""What heads find: a line a relation with its best head, the best simple rule, and what the head gains."""

import re
from collections import Counter
from collections.abc import Sequence
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
from attnprobe.reports.headline import label_row, write_number
from attnprobe.reports.pairs import name_head
from attnprobe.reports.pictures.channels import make_remark, make_tooltip, tell_marks_apart
from attnprobe.reports.scales import BEYOND
from attnprobe.sums.resampling import SIGNIFICANT
from attnprobe.table.cells import Cell, clean, format_cell
from attnprobe.table.head_table import HeadTable
from attnprobe.table.kinds import RULES
from attnprobe.table.relation_names import name_relation
from attnprobe.table.table import Column

#: Most characters of a label, of the name of a relation in a narrow picture, and of the name of a rule.
_LONGEST, _SHORTER, _RULE_NAME = 36, 28, 20
#: What a point is, by whether it finds significantly more than what it is compared with.
MORE, SAME, LESS = 1, 0, -1
_MARKS = {
    MORE: "attention head finds more",
    SAME: "attention head: no significant difference",
    LESS: "attention head finds less",
}
RULE = "best simple rule"
#: The mark of a rule: a tick across the interval, which would hide one along it.
TICK = "M0,-1L0,1"
#: What stands behind a gain that is significant.
_STAR = " *"
#: The column whose labels are relations of a treebank, and that whose labels are kinds of mention.
RELATION, MENTION = "relation", "mention"
#: Pixels: of a line, between columns of text, of the axis that is narrowest, and of the widest one; and of
#: the one that leaves room for the names of rules.
_LINE, _GAP, _LEAST, _MOST, _ROOMY = 17, 7, 64, 380, 170
#: Narrower pictures have no interval in figures, and their legend in one column.
_NARROW = 420
#: The label of all links, which stands first.
ALL = "all"
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

    A point is the head: filled where the adjusted p is below 0.05, a triangle where its bar ends below the
    rule, and empty otherwise. A tick is the rule, in front of it. A bar about the point is the 95 % interval
    of the gain, so that it covers the rule where they do not differ significantly. Beside it stand the number
    of links, the head, and the gain with the same interval; where there is room, the name of the rule.
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
    across = len(sides) if request.width >= len(sides) * (taken + 110) else 1
    width = int(max(_LEAST, min(_MOST, request.width / across - taken)))
    ends = [int(width + sum(rooms[: place + 1])) for place in range(len(rooms))]
    columns = [(name, title, end) for (name, title), end in zip(texts, ends, strict=True)]
    looks = _make_looks(_list_marks(data), request)
    charts = []
    ranks = _rank_labels(data, sides)
    for side in sides:
        rows = [one for one, panel in zip(data, panels, strict=True) if panel == side]
        rows.sort(key=lambda one: ranks[one["said"]])
        chart = _draw_side(rows, (width, columns), label, looks, request)
        said = _ENDS.get(side, side) if label == RELATION else side
        above: dict[str, Any] = {} if wide else {"frame": "bounds"}
        charts.append(chart.properties(title=alt.TitleParams(said, offset=4, **above)) if side else chart)
    remark = make_remark(_explain_marks(data, label), theme, request.width)
    return alt.concat(*charts, columns=across, spacing=26, title=remark)


def _rank_labels(data: Sequence[Record], sides: Sequence[str]) -> dict[str, int]:
    """Rank labels: all links, then by the gain on the first side, then on others that have more."""
    rows = sorted(
        data,
        key=lambda one: (
            one["said"] != ALL, sides.index(one["panel"]), one["gain"] is None, -(one["gain"] or 0.0)
        ),
    )  # fmt: skip
    return {said: rank for rank, said in enumerate(dict.fromkeys(one["said"] for one in rows))}


def compare(gain: float | None, spread: float | None, p: float | None) -> int:
    """Tell whether one finds significantly more than another: by an adjusted one-sided p, or less.

    No p value says that it finds less; half the interval of the gain, ``spread``, says so, where all of it
    lies below 0.
    """
    if gain is None:
        return SAME
    if p is not None and p < SIGNIFICANT and gain > 0:
        return MORE
    return LESS if spread is not None and gain + spread < 0 else SAME


def compare_rows(table: HeadTable, gains: Sequence[float | None], errors: Sequence[str]) -> list[int]:
    """Compare in each row, as ``compare`` does; the error is that of the first column that has one."""
    known = [read_numbers(table, name) for name in errors]
    p = read_numbers(table, "p_adjusted")
    compared = []
    for row, gain in enumerate(gains):
        error = next((column[row] for column in known if column[row] is not None), None)
        compared.append(compare(gain, None if error is None else BEYOND * error, p[row]))
    return compared


def _explain_marks(data: Sequence[Record], label: str) -> list[str]:
    """Say what bars and marks are; of marks and signs, only of those that there are."""
    of = "gain over the rule" if any(record["paired"] for record in data) else "accuracy"
    lines = [f"bars: 95 % intervals of the {of}, drawn about the head"] if _have(data, "low") else []
    rules = Counter(record["rule"] for record in data if record["rule"])
    such = f", such as: {rules.most_common(1)[0][0]}" if rules else ""
    lines.append(f"simple rule: a guess without a model{such}")
    if any(record["compared"] == MORE for record in data):
        lines.append(f"finds more, *: adjusted p < {SIGNIFICANT}")
    if any(record["compared"] == LESS for record in data):
        lines.append("finds less: the whole bar lies below the rule")
    if any(record["covers"] for record in data):
        lines.append("no significant difference: the bar covers the rule")
    if any(record["unsure"] for record in data):
        lines.append(f"a bar above the rule without *: adjusted p is {SIGNIFICANT} or more")
    if share_links(label, [record["said"] for record in data]):
        lines.append("each row chooses a head and a rule of its own; rows share links, and don't add up")
    return lines


def _list_marks(data: Sequence[Record]) -> set[str]:
    marks = {record["mark"] for record in data if record["accuracy"] is not None}
    return marks | ({RULE} if _have(data, "baseline") else set())


def _have(data: Sequence[Record], field: str) -> bool:
    return any(record[field] is not None for record in data)


def share_links(label: str, said: Sequence[str]) -> bool:
    """Tell whether rows are about the same links: all of them stand beside some, or a mention has kinds."""
    return len(set(said)) > 1 and (label == MENTION or ALL in said)


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
    longest = max(map(len, shown)) * _LETTER * request.theme.size + 34
    return max(1, min(len(shown), int(request.width / longest)))


def _measure_column(texts: Sequence[str], size: int) -> float:
    """Give the pixels of a column of texts, with the gap before it."""
    return max(map(len, texts)) * _LETTER * size + _GAP


def _draw_side(
    data: list[Record], sizes: tuple[int, Sequence[tuple[str, str, int]]], label: str,
    looks: dict[str, Any], request: DrawingRequest,
) -> Any:  # fmt: skip
    """Draw the lines of one direction on an axis so wide, with columns of text that end at some pixels."""
    theme, (width, columns) = request.theme, sizes
    axis = alt.Axis(
        grid=True, domain=False, ticks=False, labelLimit=240, labelFontSize=theme.small(2), labelOverlap=False
    )
    order = list(dict.fromkeys(record["label"] for record in data))
    chart = alt.Chart(alt.InlineData(values=data)).encode(
        y=alt.Y("label:N", sort=order, title=None, axis=axis)
    )
    shares, x = make_share_axis(width, labelFontSize=theme.small(2))
    tooltip = make_tooltip({
        "label:N": label.replace("_", " "), "panel:N": "of", "n:Q": "links", "name:N": "head",
        "mark:N": "mark", "accuracy:Q": "accuracy", "error:Q": "standard error",
        "baseline:Q": "simple rule finds", "rule:N": "simple rule", "gain:Q": "gain",
        "gain_error:Q": "standard error of the gain", "p:Q": "adjusted p",
    })  # fmt: skip
    known = chart.transform_filter("isValid(datum.accuracy)")
    bars = known.transform_filter("isValid(datum.low)").mark_rule(strokeWidth=1.4, clip=True)
    points = known.mark_point(size=40, strokeWidth=1.5, opacity=1)
    rules = chart.transform_filter("isValid(datum.baseline)").transform_calculate(mark=f"'{RULE}'")
    marks = rules.mark_point(size=110, strokeWidth=2, opacity=1)
    parts = [
        bars.encode(x=alt.X("low:Q", axis=shares, **x), x2="high:Q", stroke=looks["stroke"]),
        points.encode(x=alt.X("accuracy:Q", axis=shares, **x), tooltip=tooltip, **looks),
        marks.encode(x=alt.X("baseline:Q", axis=shares, **x), tooltip=tooltip, **looks),
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


def make_share_axis(width: int, **look: Any) -> tuple[Any, dict[str, Any]]:
    """Make the axis of the share of links that are found, and the rest of its channel."""
    ticks = [0, 0.5, 1] if width < 160 else [0, 0.25, 0.5, 0.75, 1]
    axis = alt.Axis(format=".2~f", values=ticks, grid=False, **look)
    return axis, {"title": "share of links found", "scale": alt.Scale(domain=[0, 1], nice=False)}


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
    """Say what a line shows: the ends of its bar, whether it covers the rule, and its texts."""
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
        "low": None if spread is None else accuracy - spread,
        "high": None if spread is None else accuracy + spread,
        "n_text": "" if n is None else f"{n:,}", "name_text": record["name"] or "", "gained_text": gained,
    }  # fmt: skip


def _write_signed(value: float) -> str:
    return f"{value:+.2f}".replace("-", "\u2212") if abs(value) >= 0.005 else "0.00"


def state_relations(table: HeadTable, columns: Sequence[Column]) -> str:
    """State in how many rows a head finds significantly more than the best simple rule, and where less."""

    def name(row: int) -> str:
        return name_head((read_cells(table, "layer")[row], read_cells(table, "head")[row]))

    gains = read_numbers(table, "gain")
    found = Found(table, gains, ("accuracy", "baseline"), "rule")
    compared = compare_rows(table, gains, ["gain_se", "accuracy_se"])
    less = [row for row in found.rows if compared[row] == LESS]
    than, said = "than the best simple rule", ""
    if found.own:
        row = found.own[0]
        said = f"{name(row)} finds more of {found.name(row)} {than}: {found.write(row)}"
        if len(found.own) > 1:
            said = (
                f"heads find more {than} in {len(found.own)} of {found.number}, such as {found.name(row)}: "
                f"{name(row)} {found.write(row)}"
            )
    elif found.whole is not None:
        said = f"{name(found.whole)} finds more of all links {than} ({found.write(found.whole)})"
        said += f"; no head does {found.none}" if found.none else ""
    elif found.none:
        said = f"no head finds significantly more {than} {found.none}"
    if not said or not less:
        return said
    where = found.count(less, said)
    return f"{said}; {where}{', ' * bool(where)}the best head finds less"


class Found:
    """Which rows of what is found have a significant gain; the row of all links counts apart from others.

    Attributes:
        own: Those of a label of their own, the largest gain first.
        whole: The row of all links that has one, with the largest gain; None where there is none.
        rows: All of labels of their own, and those of all links where there are no others.
        number: How many these are, with what they are.
        none: Where nothing is significant, if that is so: "in any of 12 cases"; empty where a row has no p.
    """

    def __init__(
        self, table: HeadTable, gain: Sequence[float | None], columns: tuple[str, str], other: str
    ) -> None:
        self.table, self.columns, self.other = table, columns, other
        self.key = next(name for name in list_keys(table) if name not in {"model", "dataset"})
        self.labels = [format_cell(cell) for cell in read_cells(table, self.key)]
        some = find_passing(table, gain)
        several = set(self.labels) != {ALL}
        self.rows = [row for row, label in enumerate(self.labels) if not several or label != ALL]
        rows = self.rows
        self.own = [row for row in some if row in rows]
        self.whole = next((row for row in some if row not in rows), None)
        single = len({self.labels[row] for row in rows}) == len(rows)
        noun = {"relation": "relations", "mention": "kinds of mention"}.get(
            self.key, f"{clean(self.key).replace('_', ' ')}s"
        )
        self.number = f"{len(rows)} {noun if single else 'cases'}"
        p = read_numbers(table, "p_adjusted")
        tested = all(p[row] is not None for row in rows)
        where = f"in any of {self.number}" if len(rows) > 1 else f"for {self.name(rows[0])}"
        self.none = where if tested else ""

    def name(self, row: int) -> str:
        """Name what is looked for in a row."""
        label = self.labels[row]
        if label == ALL:
            return "all links"
        return name_relation(label) if self.key == RELATION else label_row(self.table, row, [self.key])

    def count(self, some: Sequence[int], said: str) -> str:
        """Count some of the rows: "in 8", or "in 8 of 12 cases" where nothing said yet has their number."""
        if len(self.rows) == 1:
            return ""
        return f"in {len(some)}" + ("" if self.number in said else f" of {self.number}")

    def write(self, row: int) -> str:
        """Write what both sides find: "0.42, rule 0.36"."""
        one, other = (write_number(read_numbers(self.table, name)[row] or 0.0) for name in self.columns)
        return f"{one}, {self.other} {other}"


def find_passing(table: HeadTable, gain: Sequence[float | None]) -> list[int]:
    """Find the rows whose gain is above 0 with an adjusted p below 0.05, the largest first."""
    p = read_numbers(table, "p_adjusted")
    some = [
        (-one, row)
        for row, (one, chance) in enumerate(zip(gain, p, strict=True))
        if one is not None and one > 0 and chance is not None and chance < SIGNIFICANT
    ]
    return [row for _, row in sorted(some)]
