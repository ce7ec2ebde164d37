"""The numbers in the cells of a map of heads."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import altair as alt

from attnprobe.reports.columns import Record
from attnprobe.reports.scales import Scale
from attnprobe.reports.theme import SEQUENTIAL, SMALLEST, Theme, choose_ink, mix_colours

#: Most heads of a layer whose cells have numbers, as on a terminal.
MOST_NUMBERED = 12
#: Digits of the largest number of a map; more decimals than this are not read in a cell.
_DIGITS, _DECIMALS = 2, 4
#: Widths of characters in sizes of the text, in the font of pictures.
_WIDTHS = {".": 0.278, "+": 0.584, "\u2212": 0.584, " ": 0.278}
_DIGIT, _CAPITAL = 0.556, 0.722
#: Air beside a number, and how much of a cell is not its gap.
_AIR, _FILLED = 2, 0.94


def measure_text(text: str) -> float:
    """Measure how wide a number or the name of a head is, in sizes of its text.

    >>> round(measure_text("0.91"), 3)
    1.946
    """
    return sum(_WIDTHS.get(one, _DIGIT if one.isdigit() else _CAPITAL) for one in text)


@dataclass(frozen=True)
class Numbers:
    """The numbers of cells as they are written."""

    texts: Sequence[str | None]
    wide: float

    def fit(self, cell: float, most: int) -> int | None:
        """Choose the size of the text in a cell so wide: none that is smaller than 6 points."""
        room = int((_FILLED * cell - _AIR) / self.wide) if self.wide else 0
        return min(room, most) if min(room, most) >= SMALLEST else None


def write_numbers(values: Sequence[float | int | None], *, signed: bool) -> list[Numbers]:
    r"""Write numbers with two digits of the largest, first with and then without the 0 before a point.

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
    return mix_colours(ramp, scale.place(value))


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
