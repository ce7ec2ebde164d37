"""Scales of colours, and which effects are significant: one rule for pictures, the terminal and pages.

A scale from the smallest to the largest number would show even noise at full strength. So a scale starts at
0, goes at least as far as standard errors could push a true 0, and is shared by measures of one unit.
Divergences between heads are at most ln 2. They have their own scale, or all would be dark beside an entropy.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from attnprobe.reports.columns import read_numbers
from attnprobe.sums.inference import SIGNIFICANT, half_width
from attnprobe.table.table import Column, HeadTable

Numbers = Sequence[float | int | None]
#: Half the width of a 95 % interval of a normal distribution, in standard errors.
Z_95 = 1.96
#: Effects whose adjusted p values are in the column ``p_adjusted``; and all effects, for which 0 means none.
_TESTED = ("delta", "gain", "effect", "interaction")
_EFFECTS = ("delta", "gain", "effect", "disagreement", "delta_random")


@dataclass(frozen=True)
class Scale:
    """The numbers at which the colours of a measure begin and end."""

    low: float  # 0, or for effects ``-high``
    high: float

    @property
    def is_of_effects(self) -> bool:
        """Whether colours go both ways from 0."""
        return self.low < 0

    @property
    def ends(self) -> list[float]:
        """The numbers in a legend: both ends, and the middle."""
        return [self.low, (self.low + self.high) / 2, self.high]

    def place(self, value: float) -> float:
        """Give the place of a number between the ends, from 0 to 1; 0.5 if the ends are equal."""
        # Halved, so that the length stays finite for the largest of floats.
        length = self.high / 2 - self.low / 2
        return min(max((value / 2 - self.low / 2) / length, 0.0), 1.0) if length > 0 else 0.5


@dataclass(frozen=True)
class Significance:
    """Which effects differ significantly from 0."""

    signs: Sequence[str]  # for each value ``+`` or a minus sign; empty where it is not significant
    rule: str  # how that was decided, in words; empty where the table has neither p values nor errors

    @property
    def pale(self) -> list[bool]:
        """Whether each value is drawn pale, as it is not significant."""
        return [bool(self.rule) and not sign for sign in self.signs]


def fit_scale(sides: Iterable[tuple[Numbers, Numbers]], *, effect: bool, most: float = math.inf) -> Scale:
    """Fit a scale to measures, each given by its values and their standard errors.

    Its end is the largest |value| or 1.96 standard errors, whichever is larger, rounded up to two digits. A
    scale of effects goes as far below 0; any other starts at 0. An error never takes the end beyond ``most``.

    >>> fit_scale([([0.1, 0.873], [0.01, None])], effect=False)
    Scale(low=0.0, high=0.88)
    >>> fit_scale([([0.0167, 0.0], [0.0166, 0.02])], effect=True)
    Scale(low=-0.04, high=0.04)
    """
    known = [
        (abs(value), Z_95 * (error or 0.0))
        for values, errors in sides
        for value, error in zip(values, errors, strict=True)
        if value is not None
    ]
    largest = max((value for value, _ in known), default=0.0)
    reach = max([largest, *(error for _, error in known)])
    high = min(_round_up(reach), max(most, _round_up(largest))) if reach else 1.0
    return Scale(-high if effect else 0.0, high)


def fit_scales(table: HeadTable, columns: Iterable[Column]) -> dict[str, Scale]:
    """Fit scales to columns of one picture, by name: one for each unit, and another for its effects."""
    sides: dict[tuple[str, bool], list[tuple[Numbers, Numbers]]] = {}
    kinds = {}
    for column in columns:
        values, errors = (read_numbers(table, name) for name in (column.name, f"{column.name}_se"))
        divergence = " divergence" if column.name.startswith(("jsd", "odd_jsd")) else ""
        unit = f"{column.unit}{divergence}" if column.unit else f" {column.name}"
        kinds[column.name] = unit, is_effect(column.name, values)
        sides.setdefault(kinds[column.name], []).append((values, errors))
    scales = {}
    for name, (unit, effect) in kinds.items():
        most = 1.0 if unit.startswith("share") else math.inf  # a share is 1 at most
        scales[name] = fit_scale(sides[unit, effect], effect=effect, most=most)
    return scales


def is_effect(name: str, values: Numbers) -> bool:
    """Tell whether a measure is an effect, by its name or because it has negative values."""
    if name in _EFFECTS or name.endswith(tuple(f"_{effect}" for effect in _EFFECTS)):
        return True
    return any(value is not None and value < 0 for value in values)


def find_significant(table: HeadTable, column: Column) -> Significance:
    """Find the effects of a column that differ significantly from 0; see ``judge_effects``."""
    values, name = read_numbers(table, column.name), find_p_column(table, column.name)
    p = None if name is None else read_numbers(table, name)
    documents = table.count_documents(column.name).tolist()
    return judge_effects(values, read_numbers(table, f"{column.name}_se"), documents, p)


def judge_effects(
    values: Numbers, errors: Numbers, documents: Sequence[float], p: Numbers | None
) -> Significance:
    """Judge effects by their adjusted p values, or without p by simultaneous 95 % intervals.

    Tables, pictures and sentences all use this rule.
    """
    if p is not None:
        passing = [chance is not None and chance < SIGNIFICANT for chance in p]
        rule = f"adjusted p < {SIGNIFICANT}"
    elif any(error is not None for error in errors):
        known = [row for row, value in enumerate(values) if value is not None and errors[row] is not None]
        halves = half_width([errors[row] or 0.0 for row in known], [documents[row] for row in known])
        widths = dict(zip(known, halves.tolist(), strict=True))
        passing = [abs(value or 0.0) > widths.get(row, math.inf) for row, value in enumerate(values)]
        rule = "an interval without 0 (95 %, all together)"
    else:
        return Significance([""] * len(values), "")
    signs = [
        "" if not passes or value is None or value == 0 else "+" if value > 0 else "\u2212"
        for value, passes in zip(values, passing, strict=True)
    ]
    return Significance(signs, rule)


def read_intervals(table: HeadTable, name: str) -> tuple[list[float | None], list[float | None]]:
    """Read the ends of the 95 % interval of each number of a column, by Student's t.

    Each interval holds by itself. That of a share is cut at 0 and 1. None stands where there is no error.
    """
    values, errors = read_numbers(table, name), read_numbers(table, f"{name}_se")
    widths = half_width([error or 0.0 for error in errors], table.count_documents(name), together=1)
    share = table.column(name).unit.startswith("share") and not is_effect(name, values)
    share = share and max((value for value in values if value is not None), default=2.0) <= 1
    least, most = (0.0, 1.0) if share else (-math.inf, math.inf)
    low, high = (
        [
            None
            if value is None or error is None or not math.isfinite(width)
            else min(max(value + sign * width, least), most)
            for value, error, width in zip(values, errors, widths.tolist(), strict=True)
        ]
        for sign in (-1, 1)
    )
    return low, high


def find_p_column(table: HeadTable, name: str) -> str | None:
    """Find the column of the adjusted p values of an effect; None without one that has numbers."""
    names = [f"{name}_p_adjusted", f"{name.removesuffix('_delta')}_p_adjusted"]
    names += ["p_adjusted"] if name in _TESTED else []
    return next((one for one in names if any(p is not None for p in read_numbers(table, one))), None)


def _round_up(value: float) -> float:
    """Round up to two significant digits.

    >>> _round_up(0.873), _round_up(1.0), _round_up(0.00012)
    (0.88, 1.0, 0.00012)
    """
    power = math.floor(math.log10(value)) - 1 if value else 0
    return float(f"{math.ceil(value / 10.0**power - 1e-9)}e{power}") if power > -300 else value
