"""What stands in the cells of a map of heads: numbers, or beside many heads a label for those that matter."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import altair as alt
import numpy as np

from attnprobe.reports.columns import Record
from attnprobe.reports.pairs import name_head
from attnprobe.reports.scales import Scale
from attnprobe.reports.theme import FRAME, SEQUENTIAL, SMALLEST, Theme, choose_ink, mix_colours

#: Most heads of a layer whose cells have numbers, as on a terminal; of more, so many heads have a label.
MOST_NUMBERED, LABELLED = 12, 5
#: Digits of the largest number of a map; more decimals than this are not read in a cell.
_DIGITS, _DECIMALS = 2, 4
#: Widths of characters in sizes of the text, in the font of pictures.
_WIDTHS = {".": 0.278, "+": 0.584, "\u2212": 0.584, " ": 0.278}
_DIGIT, _CAPITAL = 0.556, 0.722
#: Air beside a number, and how much of a cell is not its gap.
_AIR, _FILLED = 2, 0.94
#: Pixels from a map to its labels.
_LEADER = 12


def measure_text(text: str) -> float:
    """Measure how wide a number or the name of a head is, in sizes of its text.

    >>> round(measure_text("0.91"), 3)
    1.946
    """
    return sum(_WIDTHS.get(one, _DIGIT if one.isdigit() else _CAPITAL) for one in text)


@dataclass(frozen=True)
class Numbers:
    """The numbers of cells as they are written.

    Attributes:
        texts: One a value; None for an undefined one.
        wide: How wide the longest is, in sizes of its text.
    """

    texts: Sequence[str | None]
    wide: float

    def fit(self, cell: float, most: int) -> int | None:
        """Choose the size of the text in a cell so wide: none that is smaller than 6 points."""
        room = int((_FILLED * cell - _AIR) / self.wide) if self.wide else 0
        return min(room, most) if min(room, most) >= SMALLEST else None


def write_numbers(values: Sequence[float | int | None], *, signed: bool) -> list[Numbers]:
    r"""Write numbers with two digits of the largest, first with and then without the 0 before a point.

    One with a sign that would read as 0 has its first digit.
    Nothing where all are 0, or so small that they need an exponent.

    >>> [one.texts for one in write_numbers([0.914, 0.05, None], signed=False)]
    [['0.91', '0.05', None], ['.91', '.05', None]]
    >>> write_numbers([-3.21, 0.5], signed=True)[0].texts
    ['\u22123.2', '+0.5']
    >>> write_numbers([-0.018, 0.0004, 2e-7], signed=True)[0].texts
    ['\u22120.018', '+0.0004', '+2e\u22127']
    """
    known = [abs(value) for value in values if value is not None]
    largest = max(known, default=0.0)
    if not largest:
        return []
    decimals = max(0, _DIGITS - 1 - math.floor(math.log10(largest) - 1e-9))
    if decimals > _DECIMALS:
        return []
    full = [None if value is None else _write_number(value, decimals, signed=signed) for value in values]
    if signed:  # or a change would read as none
        full = [text and _write_first_digit(value, text) for text, value in zip(full, values, strict=True)]
    short = [text and text.replace("0.", ".", 1) if _begins_with_0(text) else text for text in full]
    found = [full] if full == short or largest >= 1 else [full, short]
    return [Numbers(texts, max(map(measure_text, filter(None, texts)))) for texts in found]


def _write_first_digit(value: float | int | None, text: str) -> str:
    """Write the first digit of a number that would read as 0."""
    if not value or any(one in "123456789" for one in text):
        return text
    power = math.floor(math.log10(abs(value)))
    if -power <= _DECIMALS:
        return _write_number(value, -power, signed=True)
    digits, _, exponent = f"{abs(value):.0e}".partition("e-")
    return f"{text[0]}{digits}e\u2212{int(exponent)}"


def _begins_with_0(text: str | None) -> bool:
    return text is not None and text.lstrip("+\u2212").startswith("0.")


def _write_number(value: float, decimals: int, *, signed: bool) -> str:
    sign = "\u2212" if value < 0 else "+" if signed and value else ""
    return f"{sign}{abs(value):.{decimals}f}"


def find_fill(value: float, scale: Scale, theme: Theme) -> str:
    """Find the colour of a cell, as Vega mixes it."""
    ramp = theme.diverging if scale.is_of_effects else SEQUENTIAL
    return mix_colours(ramp, scale.place(value), lab=scale.is_of_effects)


def number_cells(
    data: list[Record], texts: Sequence[str | None], scale: Scale, theme: Theme, *, some: bool
) -> None:
    """Put numbers into the data, each with black or white ink; with ``some``, only where there is a sign."""
    for record, text in zip(data, texts, strict=True):
        if text is not None and (record.get("sign") or not some):
            record |= {"text": text, "ink": choose_ink(find_fill(record["value"], scale, theme))}


def draw_numbers(base: Any, size: int) -> Any:
    """Draw the numbers, dark and light ones in layers of their own: the scale of colours is that of cells."""
    numbered = base.encode(text="text:N")
    inks = ("#000000", "#ffffff")
    return alt.layer(*(
        numbered.transform_filter(f"datum.ink === '{ink}'").mark_text(
            baseline="middle", fontSize=size, color=ink
        )
        for ink in inks
    ))  # fmt: skip


def choose_labelled(data: Sequence[Record], *, effect: bool) -> list[int]:
    """Choose the heads that have a label: of effects the largest that are significant, or of any if unknown.

    Of other measures, they are those farthest from the middle of all.
    """
    known = [row for row, record in enumerate(data) if record["value"] is not None]
    if effect:
        known = [row for row in known if not data[row].get("pale")]
    middle = 0.0 if effect or not known else float(np.median([data[row]["value"] for row in known]))
    order = sorted(known, key=lambda row: (-abs(data[row]["value"] - middle), row))
    return order[:LABELLED]


def measure_labels(names: Sequence[str]) -> float:
    """Measure how much room labels take beside a map."""
    return _LEADER + 2 + SMALLEST * max(map(measure_text, names), default=0.0)


def write_labels(data: Sequence[Record], rows: Sequence[int], texts: Sequence[str | None]) -> list[str]:
    """Write the labels of some heads: name and number."""
    return [f"{name_head((data[row]['layer'], data[row]['head']))} {texts[row]}" for row in rows]


def draw_labels(
    data: Sequence[Record], rows: Sequence[int], labels: Sequence[str], layers: Sequence[Any],
    heads: Sequence[Any], cell: int, theme: Theme,
) -> Any:  # fmt: skip
    """Draw labels beside a map, each with a line to its head; none lies on another.

    Their places are pixels of the map, so that their scales are their own.
    """
    wide, high = cell * len(heads), cell * len(layers)
    at = [(heads.index(data[row]["head"]) + 0.5) * cell for row in rows]
    middles = [(layers.index(data[row]["layer"]) + 0.5) * cell for row in rows]
    places = spread_places(middles, 1.15 * SMALLEST)
    order = sorted(range(len(rows)), key=lambda one: (middles[one], at[one]))
    placed = dict(zip(order, places, strict=True))
    points = [
        {"label": label, "text": label if step == 2 else "", "step": step, "x": x, "y": y}
        for one, label in enumerate(labels)
        for step, (x, y) in enumerate((
            (at[one] + 0.5 * cell, middles[one]), (wide, middles[one]), (wide + _LEADER, placed[one]),
        ))
    ]  # fmt: skip
    base = alt.Chart(alt.InlineData(values=points)).encode(
        x=alt.X("x:Q", axis=None, scale=alt.Scale(domain=[0, wide], nice=False, zero=False)),
        y=alt.Y("y:Q", axis=None, scale=alt.Scale(domain=[high, 0], nice=False, zero=False)),
    )
    lines = base.mark_line(strokeWidth=0.9, color=FRAME).encode(detail="label:N", order="step:Q")
    texts = base.transform_filter("datum.text !== ''").mark_text(
        align="left", baseline="middle", dx=2, fontSize=SMALLEST, color=theme.ink
    )
    return alt.layer(lines, texts.encode(text="text:N"))


def spread_places(places: Sequence[float], least: float) -> list[float]:
    """Move places apart, so that neighbours have a least distance, and none moves farther than it must.

    They are given back from the least to the largest.

    >>> spread_places([5, 5, 40], 10)
    [0.0, 10.0, 40.0]
    """
    groups: list[list[float]] = []  # places that touch: they stand around their own middle
    for place in sorted(places):
        groups.append([place])
        while len(groups) > 1 and _find_end(groups[-2], least, 1) > _find_end(groups[-1], least, -1):
            last = groups.pop()
            groups[-1] += last
    return [
        float(np.mean(group)) + least * (number - (len(group) - 1) / 2)
        for group in groups
        for number in range(len(group))
    ]


def _find_end(group: Sequence[float], least: float, side: int) -> float:
    return float(np.mean(group)) + side * least * len(group) / 2
