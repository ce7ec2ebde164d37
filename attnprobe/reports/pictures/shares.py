"""Shares of variance: a bar a measure, in parts that add up to 1."""

from collections.abc import Sequence
from textwrap import wrap
from typing import Any

import altair as alt
import numpy as np

from attnprobe.errors import AttnprobeError
from attnprobe.reports.columns import (
    DrawingRequest,
    Record,
    label_rows,
    list_keys,
    read_cells,
    read_numbers,
    read_with_errors,
)
from attnprobe.reports.headline import write_number
from attnprobe.reports.pictures.channels import make_remark, make_tooltip
from attnprobe.reports.theme import choose_ink
from attnprobe.statistics.registry import find_statistic
from attnprobe.sums.resampling import half_width
from attnprobe.table.cells import clean, format_cell
from attnprobe.table.documents import count_documents
from attnprobe.table.head_table import HeadTable
from attnprobe.table.naming import join_names
from attnprobe.table.table import Column

#: The columns in their order, what they are called, and their colours: of place blue, of checkpoints orange
#: and purple, of texts green. Neighbours differ in lightness, so that grey print keeps their border, and each
#: part has a letter, which stands in it where there is room. A product is an interaction.
SHARES = {
    "layers": ("layers", "#08519c"),
    "heads": ("heads of a layer", "#9ecae1"),
    "seeds": ("checkpoints", "#7f2704"),
    "layers_by_seed": ("layers \u00d7 checkpoints", "#fec44f"),
    "heads_by_seed": ("heads \u00d7 checkpoints", "#bf4703"),
    "texts": ("texts", "#c7e9c0"),
    "layers_by_text": ("layers \u00d7 texts", "#006d2c"),
    "heads_by_text": ("heads \u00d7 texts", "#a1d99b"),
    "seeds_by_text": ("checkpoints \u00d7 texts", "#54278f"),
    "rest": ("rest", "#d9d9d9"),
}
REST = "rest"
#: A part that is smaller in every measure belongs to the rest.
LEAST = 0.02
#: Pixels of a bar, of the names beside them, of the legend, and of the narrowest part that has a letter.
_STEP, _NAMES, _LEGEND, _NUMBERED = 26, 210, 190, 13
#: Narrower pictures have the legend below, and names of so many pixels, in lines of so many letters.
_BESIDE, _SHORT, _SHORTEST = 600, 110, 18
#: How wide a letter is on average, as a share of its size.
_LETTER = 0.56


def draw_shares(table: HeadTable, request: DrawingRequest) -> Any:
    """Draw a bar from 0 to 1 for each measure, in parts that add up to it, with their standard errors.

    Parts that are below 2 % in every measure are drawn with the rest.
    """
    beside = request.width >= _BESIDE
    names, most = name_measures(table), _NAMES if beside else _SHORT
    if not beside:
        names = ["\n".join(wrap(name, _SHORTEST, max_lines=2, placeholder=" ...")) for name in names]
    letters = max(len(line) for name in names for line in name.split("\n"))
    longest = min(most, 0.55 * request.theme.size * letters + 10)
    width = max(120, int(request.width - longest - (_LEGEND if beside else 20)))
    parts = merge_parts(table)
    said = {
        part: f"{chr(ord('A') + place)}  {_name_part(part, table, parts)}" for place, part in enumerate(parts)
    }
    data = _stack_shares(table, names, parts, said, width, request)
    below: dict[str, Any] = {} if beside else {"orient": "bottom", "columns": 1}
    lines = "split(datum.value, '\\n')"
    axis = alt.Axis(ticks=False, domain=False, labelLimit=most, labelExpr=lines)
    y = alt.Y("row:N", sort=list(dict.fromkeys(names)), title=None, axis=axis)
    base = alt.Chart(alt.InlineData(values=data)).encode(y=y)
    legend = alt.Legend(title="differences between", symbolType="square", symbolStrokeWidth=0, **below)
    domain = list(said.values())
    scale = alt.Scale(domain=domain, range=[SHARES[part][1] for part in parts])
    titles = {"row:N": "measure", "part:N": "between", "share:Q": "share", "error:Q": "standard error"}
    bars = base.mark_bar(stroke=request.theme.background, strokeWidth=0.8).encode(
        x=alt.X("start:Q", title="share of the variance", scale=alt.Scale(domain=[0, 1], nice=False)),
        x2="end:Q",
        color=alt.Color("part:N", sort=domain, scale=scale, legend=legend),
        tooltip=make_tooltip(titles),
    )
    text = base.mark_text(baseline="middle", fontSize=request.theme.small(2))
    x, ink = alt.X("middle:Q", title="share of the variance"), alt.Color("ink:N", scale=None)
    numbered = text.encode(x=x, text="label:N", color=ink)
    remark = make_remark(_explain(table, data), request.theme, request.width)
    return alt.layer(bars, numbered).properties(width=width, height=alt.Step(_STEP), title=remark)


def name_measures(table: HeadTable) -> list[str]:
    """Name the measure of each row by its title, if this package or another one knows it, with other keys."""
    beside = label_rows(table, [name for name in list_keys(table) if name != "measure"])
    named = [_find_title(format_cell(cell)) for cell in read_cells(table, "measure")]
    return [", ".join(filter(None, both)) for both in zip(beside, named, strict=True)]


def _find_title(name: str) -> str:
    try:
        title = find_statistic(name).title
    except (KeyError, AttnprobeError):  # a column of one's own, or of what is no longer installed
        title = ""
    return clean(title) or clean(name).replace("_", " ")


def merge_parts(table: HeadTable) -> dict[str, list[str]]:
    """Find the parts that are drawn, each with the columns that it is made of.

    Those below 2 % in every measure, and those that the data can't tell, are of the rest.
    """
    small = [name for name in SHARES if name != REST and _find_largest(table, name) < LEAST]
    drawn = {name: [name] for name in SHARES if name not in small and name != REST}
    return {**drawn, REST: [*small, REST]}


def _find_largest(table: HeadTable, name: str) -> float:
    return max((share for share in read_numbers(table, name) if share is not None), default=0.0)


def _name_part(part: str, table: HeadTable, parts: dict[str, list[str]]) -> str:
    merged = any(_find_largest(table, name) for name in parts[part] if name != part)
    return f"{SHARES[part][0]}, and parts below {LEAST:.0%}".replace("%", " %") if merged else SHARES[part][0]


def _stack_shares(
    table: HeadTable, names: list[str], parts: dict[str, list[str]], said: dict[str, str], width: int,
    request: DrawingRequest,
) -> list[Record]:  # fmt: skip
    """Place the parts of each bar one behind the other."""
    data: list[Record] = []
    ends = [0.0] * len(names)
    for part, columns in parts.items():
        colour = SHARES[part][1]
        rows = [read_with_errors(table, column) for column in columns]
        for row, name in enumerate(names):
            shares = [share for values, _ in rows if (share := values[row]) is not None]
            share = sum(shares) if shares else None
            # The error of a sum of several parts is not known.
            error = rows[0][1][row] if len(columns) == 1 else None
            start, wide = ends[row], max(share or 0.0, 0.0)
            ends[row] = start + wide
            data.append({
                "row": name, "part": said[part], "share": share, "error": error, "start": start,
                "end": ends[row], "middle": start + wide / 2, "ink": choose_ink(colour),
                "label": _write_label(said[part][0], share, error, wide * width, request.theme.small(2)),
            })  # fmt: skip
    return data


def _write_label(letter: str, share: float | None, error: float | None, room: float, size: int) -> str:
    """Write as much as finds room in a part: its letter, its share in percent, and the standard error."""
    percent = f"{letter} {100 * (share or 0.0):.0f}"
    full = percent if error is None else f"{percent} \u00b1 {100 * error:.0f}"
    for text in (f"{full} %", f"{percent} %"):
        if _LETTER * size * len(text) + 4 <= room:
            return text
    return letter if room >= _NUMBERED else ""


def _explain(table: HeadTable, data: Sequence[Record]) -> list[str]:
    """Say what a product is, what the figures are, and how few checkpoints there are."""
    lines = []
    if any("\u00d7" in record["part"] for record in data):
        lines.append("\u00d7: interaction, such as other heads being high in other checkpoints")
    if any("\u00b1" in record["label"] for record in data):
        lines.append("\u00b1: standard error, where there is room")
    numbers = {number for number in read_numbers(table, "checkpoints") if number is not None}
    if len(numbers) == 1 and min(numbers) < _MANY:
        lines.append(f"{min(numbers):g} checkpoints are few, and shares that depend on them are rough")
    return lines


#: Fewer checkpoints are few.
_MANY = 10


def state_shares(table: HeadTable, columns: Sequence[Column]) -> str:
    """State which part of the variance is the largest, of each measure of which it surely is.

    Errors of two parts add up at most, however they depend on each other.
    """
    parts, names = list(SHARES), name_measures(table)
    shares, errors = (
        np.array(
            [
                [np.nan if one is None else one for one in read_numbers(table, f"{name}{end}")]
                for name in parts
            ]
        )
        for end in ("", "_se")
    )
    known = np.isfinite(shares) & np.isfinite(errors)
    half = np.full(shares.shape, np.nan)
    documents = np.array([count_documents(table, name) for name in parts])
    half[known] = half_width(errors[known], documents[known])
    found: dict[str, list[int]] = {}
    for row in range(len(table)):
        if not known[:, row].all():
            continue
        part = int(shares[:, row].argmax())
        beyond = shares[part, row] - half[part, row] > shares[:, row] + half[:, row]
        if beyond.sum() == len(parts) - 1:
            found.setdefault(parts[part], []).append(row)
    if not found:
        return ""
    if len(table) > 1 and [len(rows) for rows in found.values()] == [len(table)]:
        return f"all {len(table)} measures vary {_say_where(next(iter(found)))}"
    said = []
    for part, rows in found.items():
        size = f" ({write_number(float(shares[parts.index(part), rows[0]]))})" if len(rows) == 1 else ""
        verb = "varies" if len(rows) == 1 else "vary"
        some = join_names([names[row] for row in rows], 2)
        said.append(f"{some} {verb if not said else ''} {_say_where(part)}{size}".replace("  ", " "))
    return ", ".join(said)


def _say_where(part: str) -> str:
    name = SHARES[part][0] if part != REST else ""
    if "\u00d7" in name:
        return f"most by the interaction {name}"
    return f"most between {name}" if name else "most in the rest"
