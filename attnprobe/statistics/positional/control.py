"""The same measured again with the tokens shuffled, or with all positions alike: places, or what stood there.

A head that keeps its share looks at places. One that loses it looked at what stood there.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from attnprobe.attention.block import AttentionBlock
from attnprobe.statistics.controls import Control
from attnprobe.statistics.positional.neighbours import NEXT, PREVIOUS
from attnprobe.statistics.positional.offset import FURTHEST, OFFSET
from attnprobe.statistics.statistic import Columns, Statistic, mean_and_error
from attnprobe.statistics.tabulation import Tabulation, head_table
from attnprobe.sums.clustered import Clustered
from attnprobe.sums.intervals import reach
from attnprobe.sums.measurement import Measurement
from attnprobe.table.builder import Labels, TableBuilder
from attnprobe.table.head_table import HeadTable
from attnprobe.table.naming import head_names, listed

#: Heads that look most at one offset for more than this share of their queries are spoken of.
MOSTLY = 0.5
#: A head keeps its share if it loses significantly less than this; it loses it if significantly more than
#: half is gone.
KEPT, LOST = 0.1, 0.5
#: Probabilities that differ by less than this part of the larger one may differ by rounding alone.
NEAR = 1e-3


def share_at_the_same_offset(statistic: Statistic, found: Clustered, build: TableBuilder) -> None:
    """Append the share at the offset that the head has in the text as it is, the column ``offset``.

    Not at the offset that is best now: that would be the largest of many shares again.
    """
    layers, heads, offsets = found.count.shape
    best: Sequence[int | None] = build.data.get("offset") or [None] * (layers * heads)
    places = np.array([(offset or 0) + FURTHEST for offset in best]).reshape(layers, heads)
    assert offsets == 2 * FURTHEST + 1  # of patches, nothing is shuffled
    rows, columns = np.ogrid[:layers, :heads]
    at = found[rows, columns, places]
    known = np.array([offset is not None for offset in best])
    average, error = (np.where(known, one.ravel(), np.nan) for one in (at.average, at.standard_error))
    build.measure(statistic.name, statistic.unit, average, error, title=statistic.title)


def peak_of_equals(block: AttentionBlock) -> Tensor:
    """Position of the most attended key of every row; the first of those that are within 0.1 % of it.

    Where positions are alike, so are equal tokens, and which of them is largest is a matter of rounding.
    """
    largest = block.summary.maximum
    near = block.probabilities >= (1 - NEAR) * largest[..., None]
    return near.byte().argmax(-1).to(largest.dtype).where(~largest.isnan(), torch.nan)


def _under(
    control: Control, title: str, measured: Statistic, order: int, columns: Columns = mean_and_error
) -> Statistic:
    """Give a statistic as it is measured under a control."""
    return replace(
        measured,
        name=f"{measured.name}_{control}",
        title=f"{measured.title}, {title}",
        columns=columns,
        headline=False,
        control=control,
        order=order,
    )


PREVIOUS_SHUFFLED = _under("shuffled", "tokens shuffled", PREVIOUS, 8)
NEXT_SHUFFLED = _under("shuffled", "tokens shuffled", NEXT, 9)
OFFSET_SHUFFLED = _under("shuffled", "tokens shuffled", OFFSET, 10, share_at_the_same_offset)
PREVIOUS_ALIKE = _under("alike", "positions equal", PREVIOUS, 11)
NEXT_ALIKE = _under("alike", "positions equal", NEXT, 12)
OFFSET_ALIKE = replace(
    _under("alike", "positions equal", OFFSET, 13, share_at_the_same_offset), function=peak_of_equals
)

#: How a control begins a sentence, and what it shows where a share stays, and where it is lost.
_SAID: dict[Control, tuple[str, str, str]] = {
    "shuffled": (
        "With the tokens shuffled",
        "stays, and these heads look at places",
        "is lost, and these heads looked at what stood there",
    ),
    "alike": (
        "With all positions equal",
        "stays without the table of positions",
        "is lost, and came from the table of positions",
    ),
}


def controlled_table(
    title: str, measurement: Measurement, statistics: Sequence[Statistic], labels: Labels
) -> HeadTable:
    """Tabulate heads with their controls; the notes say who keeps its share, who loses it.

    A head of which more than half of the queries look most at one offset (its interval lies above 0.5) keeps
    its share if the interval of what is lost lies below 0.1, and loses it if the interval lies above half of
    the share. The error of what is lost is that of two independent samples, which is too large rather than
    too small here. Intervals hold for all heads together with 95 % (Bonferroni).
    """
    table = head_table(title, measurement, statistics, labels)
    shown = [
        replace(column, headline=column.role == "measure" and column.name.startswith(OFFSET.name))
        for column in table.columns
    ]
    return HeadTable(table.title, shown, table.data, [*_notes(table), *table.notes], table.provenance)


def _notes(table: HeadTable) -> list[str]:
    share, error = _column(table, OFFSET.name)
    mostly = np.flatnonzero(share - reach(error) > MOSTLY)
    if not len(mostly):
        return ["No head looks most at one offset for more than half of its queries, by its interval."]
    number = "1 head looks" if len(mostly) == 1 else f"{len(mostly)} heads look"
    said = [
        _sentence(table, control, mostly) for control in _SAID if f"{OFFSET.name}_{control}" in table.data
    ]
    return [f"{number} most at one offset for more than half of the queries. {said[0]}", *said[1:]]


def _sentence(table: HeadTable, control: Control, mostly: NDArray[np.intp]) -> str:
    """Say which of some heads keep their share under a control, lose it, or lie between."""
    begin, stays, is_lost = _SAID[control]
    (share, error), (then, error_then) = (
        _column(table, name) for name in (OFFSET.name, f"{OFFSET.name}_{control}")
    )
    gone, sure = share - then, reach(np.hypot(error, error_then))
    names, offsets = head_names(table), table.data["offset"]

    def named(heads: NDArray[np.bool_]) -> str:
        rows = (int(row) for row in mostly if heads[row])
        return listed(
            [f"{names[row]} ({offsets[row]:+d}: {share[row]:.2f} to {then[row]:.2f})" for row in rows]
        )

    kept, lost = gone + sure < KEPT, gone - sure > LOST * share
    parts = {
        f"the share {stays}": kept,
        f"more than half of the share {is_lost}": lost,
        "in between": ~(kept | lost),
    }
    said = [f"{what}: {named(which)}" for what, which in parts.items() if which[mostly].any()]
    return f"{begin}, {'; '.join(said)}."


def _column(table: HeadTable, name: str) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Give a measure and its error; NaN where there is none."""
    return np.array(table.data[name], float), np.array(table.data[f"{name}_se"], float)


CONTROLLED = Tabulation("head, controlled", controlled_table, "positions heads look at, with controls")
