"""Where a head looks, by position."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from math import nan
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from attnprobe.statistics.statistic import (
    Columns,
    Family,
    Function,
    Statistic,
    mean_and_error,
    mean_over_queries,
    peak,
)
from attnprobe.statistics.tabulation import Tabulation, head_table
from attnprobe.sums.base import Measurement
from attnprobe.sums.clustered import Clustered
from attnprobe.table.builder import Labels, TableBuilder
from attnprobe.table.table import Column, HeadTable

if TYPE_CHECKING:
    from torch import Tensor

    from attnprobe.attention.block import AttentionBlock
    from attnprobe.attention.layout import Layout


FAMILY = Family("positional", "positions heads look at", 1)


def at_offset(block: AttentionBlock, offset: int) -> Tensor:
    """Probability of the token at an offset o, p_{i,i+o}: -1 is the previous token, 0 itself, 1 the next.

    It is averaged over the queries that have such a token. In an image, the previous token is the patch to
    the left.

    Limits: 0 to 1; about 1/n for uniform attention to n keys. In causal attention, that of the token after is
    undefined.

    Source: Clark et al. (2019), section 3.1, and Voita et al. (2019). Clark's script divides by all n queries
    instead of the n - 1 that have a previous token.

    >>> from attnprobe.attention.block import build_uniform_block
    >>> at_offset(build_uniform_block(length=4), -1)[0, 0]
    tensor([   nan, 0.2500, 0.2500, 0.2500])
    """
    return block.at_offset(offset)


def at_row(block: AttentionBlock, down: int) -> Tensor:
    """Probability of the patch above, or of the patch below, averaged over the patches that have one.

    Limits: 0 to 1; 1/n for uniform attention to n keys.

    Source: as for the previous token, with rows.
    """
    return block.at_step(down, 0)


def _define(name: str, function: Function, place: str, order: int, **given: Any) -> Statistic:
    title = f"mean attention to the {place}"
    return Statistic(name, "share", function, family=FAMILY, title=title, order=order, **given)


PREVIOUS = _define("previous", partial(at_offset, offset=-1), "previous token", 0, headline=True)
SELF = _define("self", partial(at_offset, offset=0), "token itself", 1)
NEXT = _define("next", partial(at_offset, offset=1), "next token", 2, headline=True)
ABOVE = _define("above", partial(at_row, down=-1), "patch above", 3, about="patches")
BELOW = _define("below", partial(at_row, down=1), "patch below", 4, about="patches")


Floats = NDArray[np.float64]

#: Offsets further away than this many tokens are not told apart.
FURTHEST = 64
#: Nor patches of an image that are further away than this many rows or columns.
FURTHEST_STEP = 8


def share_at_offsets(peaks: Tensor, layout: Layout) -> Tensor:
    """Share of queries whose most attended key lies at each offset from -64 to 64.

    The share is over the queries for which a key at that offset exists. An offset counts in a
    sequence only where it exists for at least half of the queries; elsewhere it is NaN, so that
    one query at the edge can't make a share of 1. Ties go to the first key. From decoder to encoder, every
    offset is NaN. The table gives the offset with the largest share, and that share.

    Limits: 0 to 1.

    Source: Voita et al. (2019), section 5.1; a head is called positional from a share of 0.9.

    Returns:
        (batch, head, 2 * 64 + 1); of an image (batch, head, (2 * 8 + 1) ** 2), see ``share_at_steps``.
    """
    import torch

    batch, heads, length = peaks.shape
    offsets = torch.arange(-FURTHEST, FURTHEST + 1, device=peaks.device)
    if not layout.comparable:
        places = len(offsets) if layout.grid is None else (2 * FURTHEST_STEP + 1) ** 2
        return peaks.new_full((batch, heads, places), nan)
    if layout.grid is not None:
        return share_at_steps(peaks, layout)
    asking = layout.queries.asking
    queries = torch.arange(length, device=peaks.device)

    distance = peaks - queries
    counted = asking[:, None] & (distance.abs() <= FURTHEST)
    place = torch.where(counted, distance + FURTHEST, len(offsets)).long()
    hits = peaks.new_zeros(batch, heads, len(offsets) + 1)
    hits.scatter_add_(2, place, torch.ones_like(peaks))

    # For each query that has a peak, whether there is a key at each offset from it.
    here = (asking[:, None] & ~peaks.isnan()).to(peaks.dtype)
    around = torch.nn.functional.pad(layout.keys.kept.to(peaks.dtype), (FURTHEST, FURTHEST))
    seen = around.unfold(1, len(offsets), 1)
    if layout.causal:
        mixed = layout.keys.mixed
        seen = seen * (offsets <= (0 if mixed is None else mixed.ahead[..., None]))
    return _share_where_usual(hits[..., :-1], torch.einsum("bhq,bqo->bho", here, seen), here)


def share_at_steps(peaks: Tensor, layout: Layout) -> Tensor:
    """Share of patches whose most attended patch lies some rows below and some columns to the right.

    Both from -8 to 8, row by row; otherwise as for offsets in a text.

    Returns:
        (batch, head, (2 * 8 + 1) ** 2)
    """
    import torch

    grid = layout.grid
    assert grid is not None
    batch, heads, _ = peaks.shape
    steps = 2 * FURTHEST_STEP + 1
    patches = slice(grid.first, grid.first + len(grid))
    peaks, kept = peaks[..., patches], layout.keys.kept[:, patches]
    # A step to a token that is no patch is NaN, and hits nothing.
    steps_taken = layout.places[peaks.nan_to_num(0).long()] - layout.places[patches]
    here = kept[:, None] & ~peaks.isnan()
    counted = here & (steps_taken.abs() <= FURTHEST_STEP).all(-1)
    cell = (steps_taken + FURTHEST_STEP) @ steps_taken.new_tensor([steps, 1])
    hits = peaks.new_zeros(batch, heads, steps**2 + 1)
    hits.scatter_add_(2, torch.where(counted, cell, steps**2).long(), torch.ones_like(peaks))

    # For each patch that has a peak, whether there is a patch at each step from it.
    here = here.to(peaks.dtype)
    around = kept.to(peaks.dtype).view(batch, grid.rows, grid.columns)
    around = torch.nn.functional.pad(around, (FURTHEST_STEP,) * 4)
    seen = around.unfold(1, steps, 1).unfold(2, steps, 1).reshape(batch, len(grid), steps**2)
    return _share_where_usual(hits[..., :-1], here @ seen, here)


def _share_where_usual(hits: Tensor, possible: Tensor, here: Tensor) -> Tensor:
    usable = (possible > 0) & (2 * possible >= here.sum(2, keepdim=True))
    return (hits / possible).where(usable, nan)


def best_offset(statistic: Statistic, sums: Clustered, build: TableBuilder) -> None:
    """Append the offset with the largest share of argmaxes, and that share with its error."""
    best, offset_columns = largest_share(sums.count, sums.average)
    for name, cells in offset_columns.items():
        build.add(Column(name, "tokens" if name == "offset" else "patches", role="count"), cells.ravel())
    layers, heads = best.shape
    rows, columns = np.ogrid[:layers, :heads]
    mean_and_error(statistic, sums[rows, columns, best], build)


def largest_share(count: Floats, average: Floats) -> tuple[NDArray[np.intp], dict[str, NDArray[Any]]]:
    """Choose the offset with the largest share of argmaxes, (layer, head, offset), and give its columns.

    Only offsets that exist in at least half of the sequences compete, so that one long sequence
    can't win with an offset of its own. Of equals, the nearest wins, then the earlier one. Of an image, an
    offset is a number of rows and a number of columns. A head without any is at None.
    """
    competing = 2 * count >= count.max(-1, keepdims=True)
    shares = np.where(competing, average, -1.0)
    steps = _steps(count.shape[-1])
    nearest_first = np.argsort(np.square(list(steps.values())).sum(0), kind="stable")
    best = nearest_first[shares[..., nearest_first].argmax(-1)]
    defined = count.max(-1) > 0
    nothing = np.full(best.shape, None)
    offset_columns = {
        name: np.where(defined, places[best].astype(object), nothing) for name, places in steps.items()
    }
    return best, offset_columns


def _steps(offsets: int) -> dict[str, NDArray[Any]]:
    if offsets == 2 * FURTHEST + 1:
        return {"offset": np.arange(-FURTHEST, FURTHEST + 1)}
    side = np.arange(-FURTHEST_STEP, FURTHEST_STEP + 1)
    return {"offset_rows": np.repeat(side, len(side)), "offset_columns": np.tile(side, len(side))}


OFFSET = Statistic(
    "offset_share", "share of queries with such a key", peak, share_at_offsets, columns=best_offset,
    pick=largest_share, family=FAMILY, title="queries that look most at one offset", order=5,
)  # fmt: skip


def attention_distance(block: AttentionBlock) -> Tensor:
    """Mean distance of every row, sum_j p_j |i - j|, in tokens.

    In an image it is the distance between patches, over the probability that goes to patches.

    Limits: 0 where every token looks at itself; at most n - 1. Uniform attention gives about n / 3, so it
    grows with the length of the text, and the ratio to uniform attention does not.

    Source: Vig and Belinkov (2019), section 4.4; of images, Dosovitskiy et al. (2021), section 4.5.
    """
    return block.distance


def within(values: Tensor, layout: Layout) -> Tensor:
    """Average over the queries of a sequence.

    It is undefined from decoder to encoder, where places do not compare.
    """
    import torch

    mean = mean_over_queries(values, layout)
    return torch.full_like(mean, nan) if not layout.comparable else mean


def over_uniform(values: Tensor, layout: Layout) -> Tensor:
    """Divide the mean over queries by that of uniform attention in the same sequence.

    A ratio of 1 is no preference, below 1 a head that looks nearer than chance.
    """
    mean = within(values, layout)
    if not layout.comparable:
        return mean
    uniform = mean_over_queries(layout.uniform_distance[:, None].to(values.dtype), layout)
    return (mean / uniform).where(uniform > 0, nan)


DISTANCE = Statistic(
    "attention_distance", "tokens", attention_distance, within,
    family=FAMILY, title="mean distance of attention", unit_in_patches="patches", order=6,
)  # fmt: skip
RATIO = Statistic(
    "attention_distance_ratio", "ratio", attention_distance, over_uniform,
    family=FAMILY, title="distance over that of uniform attention", order=7,
)  # fmt: skip


def share_at_the_same_offset(statistic: Statistic, sums: Clustered, build: TableBuilder) -> None:
    """Append the share at the offset that the head has in the text as it is, the column ``offset``.

    Not at the offset that is best now: that would be the largest of many shares again.
    """
    layers, heads, offsets = sums.count.shape
    best: Sequence[int | None] = build.data.get("offset") or [None] * (layers * heads)
    places = np.array([(offset or 0) + FURTHEST for offset in best]).reshape(layers, heads)
    assert offsets == 2 * FURTHEST + 1  # of patches, nothing is shuffled
    rows, columns = np.ogrid[:layers, :heads]
    at = sums[rows, columns, places]
    known = np.array([offset is not None for offset in best])
    average, error = (np.where(known, one.ravel(), np.nan) for one in (at.average, at.standard_error))
    build.measure(statistic.name, statistic.unit, average, error, title=statistic.title)


def _shuffled(measured: Statistic, order: int, columns: Columns = mean_and_error) -> Statistic:
    return replace(
        measured, name=f"{measured.name}_shuffled", title=f"{measured.title}, tokens shuffled",
        columns=columns, headline=False, control="shuffled", order=order,
    )  # fmt: skip


PREVIOUS_SHUFFLED = _shuffled(PREVIOUS, 8)
NEXT_SHUFFLED = _shuffled(NEXT, 9)
OFFSET_SHUFFLED = _shuffled(OFFSET, 10, share_at_the_same_offset)


def controlled_table(
    title: str, measurement: Measurement, statistics: Sequence[Statistic], labels: Labels
) -> HeadTable:
    """Tabulate heads with their controls; a terminal shows the offsets."""
    table = head_table(title, measurement, statistics, labels)
    shown = [
        replace(column, headline=column.role == "measure" and column.name.startswith(OFFSET.name))
        for column in table.columns
    ]
    return replace(table, columns=shown)


CONTROLLED = Tabulation("head, controlled", controlled_table, "positions heads look at, with controls")
