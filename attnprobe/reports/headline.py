"""What a measure of heads shows, in a sentence that is said only where its numbers bear it out.

This is the one place that words a finding of heads: titles of pictures, and what is read aloud of them.
Intervals hold for all heads together with 95 % (Bonferroni), p values are the adjusted ones of the table.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from attnprobe.reports.columns import is_probability, list_keys, name_measure, read_cells, read_numbers
from attnprobe.reports.pairs import name_head
from attnprobe.reports.scales import is_effect, mark_column
from attnprobe.reports.shapes import lay_out_grid
from attnprobe.sums.resampling import half_width
from attnprobe.table.cells import clean, format_cell
from attnprobe.table.documents import count_documents
from attnprobe.table.head_table import HeadTable
from attnprobe.table.naming import join_names
from attnprobe.table.table import Column

#: A head looks at what has more than this of its attention; and is said to do so, if most of its queries do.
MAJORITY = 0.5
#: So many heads a sentence names with their numbers; of more it gives one.
_NAMED = 2
#: Of more maps, or with longer names of them, no sentence would say which head it means.
_MAPS, _LONGEST = 4, 16
#: Longer units stand at the legend alone, and so do those that a reader knows of any number.
_UNIT, _BARE = 8, ("share", "ratio", "probability")
#: Powers of ten below this have an exponent.
_SMALL = -4
_LOOKS, _QUERIES, _CHANGE = "attention to ", "queries that look most at ", "change of "
#: What is said of shares of a head's width.
_WIDTHS = {
    "logit_rank_share": ("attention logits use", "of the dimensions that they could"),
    "qk_top_half": ("the larger half of singular values holds", "of the squared norm of W_Q W_K^T"),
}


@dataclass(frozen=True)
class _Rows:
    """A measure of heads, a row each."""

    names: Sequence[str]
    values: np.ndarray  # NaN for an undefined one
    errors: np.ndarray
    documents: np.ndarray  # of how many each number is
    places: Sequence[str]  # which map a head is on

    @property
    def known(self) -> np.ndarray:
        return np.flatnonzero(np.isfinite(self.values))

    def sort(self, rows: Sequence[int]) -> list[int]:
        """Sort rows by the size of their numbers, the largest first."""
        return sorted(rows, key=lambda row: -abs(self.values[row]))


def write_number(value: float) -> str:
    """Write a number of a sentence with two digits, or three where two would make it a power of ten.

    >>> [write_number(one) for one in (0.914, 0.997, 0.9998, 3.21, 123.4, 0.0853, 2.5e-7)]
    ['0.91', '0.997', '1.00', '3.2', '123', '0.085', '2.5e-07']
    """
    size = abs(value)
    if not size:
        return "0"
    power = math.floor(math.log10(size))
    if power < _SMALL:
        text = f"{size:.1e}"
    else:
        decimals = max(0, 1 - power)
        text = f"{size:.{decimals}f}"
        if float(text) >= 10.0 ** (power + 1) and power < 1:
            text = f"{size:.{decimals + 1}f}"
            text = text if float(text) < 10.0 ** (power + 1) else text[:-1]
    return f"\u2212{text}" if value < 0 else text


def state_measure(table: HeadTable, column: Column) -> str:
    """State what a measure of heads shows; empty where nothing is significant, or rows are no heads.

    - Of effects, how many are significantly above 0 and below: by their adjusted p, or else by intervals.
    - Of attention, and of queries, which heads have more than half of it, their whole interval.
    - Of importance, which head or two have most: their intervals lie above those of all others.
    - Of shares of the width of a head, which head has least and which most; and of logits, how many use less
      than half, their whole interval.
    """
    rows = _read_rows(table, column)
    if rows is None or not len(rows.known) or is_probability(column):
        return ""
    if is_effect(column.name, read_numbers(table, column.name)):
        return _state_effects(table, column, rows)
    title = name_measure(column)
    sure = half_of(rows)
    if sure is not None and column.unit.startswith("share") and "," not in title:
        above = [row for row in rows.sort(rows.known.tolist()) if rows.values[row] - sure[row] > MAJORITY]
        if above and title.startswith(_LOOKS):
            return _name_heads(rows, above, f"looks at {title.removeprefix(_LOOKS)}")
        if above and title.startswith(_QUERIES):
            return _name_heads(rows, above, f"looks most at {title.removeprefix(_QUERIES)}", " of queries")
    if column.name == "importance" and (first := _find_foremost(rows, _NAMED)):
        return _name_heads(rows, first, "matters most")
    return _state_width(rows, column.name) if column.name in _WIDTHS else ""


def _state_width(rows: _Rows, name: str) -> str:
    order, (does, of) = rows.sort(rows.known.tolist()), _WIDTHS[name]
    ends = [f"{write_number(rows.values[row])} ({rows.names[row]})" for row in (order[-1], order[0])]
    said = f"{does} {ends[0]} {of}" if len(order) == 1 else f"{does} from {' to '.join(ends)} {of}"
    sure = half_of(rows)
    if name != "logit_rank_share" or sure is None or len(order) == 1:
        return said
    less = sum(rows.values[row] + sure[row] < MAJORITY for row in order)
    heads = f"all {less}" if less == len(order) else f"{less} of {len(order)}"
    return f"{said}, {heads} heads less than half" if less else said


def explain_width(table: HeadTable, column: Column) -> str:
    """Explain what the width is of which a measure is a share, or where its scale begins."""
    if column.name == "qk_top_half":
        return "0.5, the least possible: all singular values alike"
    if column.name != "logit_rank_share":
        return ""
    widths = sorted({one for one in read_numbers(table, "head_width") if one is not None})
    here = (
        f" ({' to '.join(f'{one:.0f}' for one in dict.fromkeys((widths[0], widths[-1])))})" if widths else ""
    )
    return f"participation rank over the dimensions of a head{here}, or over what a shorter text allows"


def _find_foremost(rows: _Rows, most: int) -> list[int]:
    """Find the head, or the few, whose intervals lie above those of all others; none if there are no such."""
    sure, order = half_of(rows), rows.sort(rows.known.tolist())
    if sure is None:
        return []
    for number in range(1, min(most, len(order) - 1) + 1):
        lowest = min(rows.values[row] - sure[row] for row in order[:number])
        if all(lowest > rows.values[row] + sure[row] for row in order[number:]):
            return order[:number]
    return []


def find_highest(table: HeadTable, column: Column) -> tuple[str, float] | None:
    """Find the head whose number is the largest, its interval above those of all others."""
    rows = _read_rows(table, column)
    first = [] if rows is None else _find_foremost(rows, 1)
    return None if rows is None or not first else (rows.names[first[0]], float(rows.values[first[0]]))


def half_of(rows: _Rows) -> np.ndarray | None:
    """Give half the width of the interval of each head; None where there are no errors."""
    if not np.isfinite(rows.errors[rows.known]).all():
        return None
    found = np.full(len(rows.values), np.nan)
    found[rows.known] = half_width(rows.errors[rows.known], rows.documents[rows.known])
    return found


def _read_rows(table: HeadTable, column: Column) -> _Rows | None:
    grid = lay_out_grid(table)
    if grid is None or len(grid.maps) > _MAPS or max(map(len, grid.maps)) > _LONGEST:
        return None
    heads = zip(read_cells(table, "layer"), read_cells(table, "head"), strict=True)
    names = [
        f"{clean(place)} {name_head(head)}".strip() for place, head in zip(grid.places, heads, strict=True)
    ]
    values, errors = (
        np.array([np.nan if one is None else one for one in read_numbers(table, name)], float)
        for name in (column.name, f"{column.name}_se")
    )
    return _Rows(names, values, errors, count_documents(table, column.name), grid.places)


def _name_heads(rows: _Rows, some: Sequence[int], does: str, more: str = "") -> str:
    """Say which heads do something: "L0 H2 looks at the next token: 0.91"; of many, how many and one."""
    numbers = [f"{write_number(rows.values[row])}{more}" for row in some]
    if len(some) == 1:
        return f"{rows.names[some[0]]} {does}: {numbers[0]}"
    verb, _, rest = does.partition(" ")
    does = f"{verb.removesuffix('s')} {rest}"
    if len(some) <= _NAMED:
        return f"{join_names([rows.names[row] for row in some])} {does}: {join_names(numbers)}"
    return f"{len(some)} of {len(rows.known)} heads {does}, such as {rows.names[some[0]]}: {numbers[0]}"


def name_unit(column: Column) -> str:
    """Name the unit of a number in a sentence, with the blank before it; nothing for one that needs none."""
    unit = clean(column.unit)
    return "" if not unit or len(unit) > _UNIT or unit.startswith(_BARE) else f" {unit}"


def find_significant(table: HeadTable, column: Column) -> list[int]:
    """Find the rows whose effect is significant, as maps mark it."""
    return [row for row, sign in enumerate(mark_column(table, column).signs) if sign]


def _state_effects(table: HeadTable, column: Column, rows: _Rows) -> str:
    some = rows.sort(find_significant(table, column))
    if not some:
        return ""
    title, unit = name_measure(column), name_unit(column)
    up, down = ([row for row in some if bool(rows.values[row] > 0) is above] for above in (True, False))
    size = f"{write_number(abs(rows.values[some[0]]))}{unit}"
    rises = rows.values[some[0]] > 0
    if title.startswith(_CHANGE):
        what = title.removeprefix(_CHANGE)
        words = ("rises", "falls")
        if _is_without_the_head(table):
            return _state_ablation(rows, what, some, up, down, size)
        if len(some) == 1:
            return f"{what} {words[not rises]} in {rows.names[some[0]]}: by {size}"
        return f"{what} {count_sides(words, up, down, f'{len(rows.known)} heads')}"
    if len(some) == 1:
        side, number = "above" if rises else "below", write_number(rows.values[some[0]])
        return f"{title} of {rows.names[some[0]]} is {side} 0: {number}{unit}"
    return f"{title} is {count_sides(('above 0', 'below 0'), up, down, f'{len(rows.known)} heads')}"


def count_sides(words: Sequence[str], up: Sequence[object], down: Sequence[object], of: str) -> str:
    """Count both sides: "rises in 12 of 72 heads and falls in 30"."""
    said = [f"{word} in {len(some)}" for word, some in zip(words, (up, down), strict=True) if some]
    said[0] += f" of {of}"
    return " and ".join(said)


def _is_without_the_head(table: HeadTable) -> bool:
    """Tell whether the effects are those of masking a head, and not of all others in its layer."""
    ablated = "replaced_by" in list_keys(table) and "score" in table.data
    return ablated and table.column("score").title.endswith("without the head")


def _state_ablation(
    rows: _Rows, what: str, some: Sequence[int], up: Sequence[int], down: Sequence[int], size: str
) -> str:
    first, of = rows.names[some[0]], len(rows.known)
    if len(some) == 1:
        return f"without {first}, {what} {'rises' if up else 'falls'} by {size}"
    if up and down:
        return f"{what} falls without any of {len(down)} of {of} heads, and rises without any of {len(up)}"
    side = "rises" if up else "falls"
    return f"{what} {side} without any of {len(some)} of {of} heads, such as {first}: by {size}"


def capitalise(sentence: str) -> str:
    """Begin with a capital letter.

    >>> capitalise("entropy rises")
    'Entropy rises'
    """
    return f"{sentence[:1].upper()}{sentence[1:]}"


def label_row(table: HeadTable, row: int, names: Sequence[str]) -> str:
    """Name a row by some of its columns.

    >>> from attnprobe.table.table import Column
    >>> table = HeadTable("t", [Column("relation", role="key")], {"relation": ["noun_phrase"]})
    >>> label_row(table, 0, ["relation"])
    'noun phrase'
    """
    said = (format_cell(read_cells(table, name)[row]).replace("_", " ") for name in names)
    return clean(", ".join(filter(None, said)))
