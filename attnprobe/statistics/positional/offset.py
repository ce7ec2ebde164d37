"""Whether a head always looks most at the same relative position."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from attnprobe.attention.layout import Layout
from attnprobe.statistics.peak import peak
from attnprobe.statistics.positional import FAMILY
from attnprobe.statistics.statistic import Statistic, mean_and_error
from attnprobe.sums.clustered import Clustered
from attnprobe.table.builder import TableBuilder
from attnprobe.table.table import Column

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
    batch, heads, length = peaks.shape
    offsets = torch.arange(-FURTHEST, FURTHEST + 1, device=peaks.device)
    if not layout.comparable:
        return peaks.new_full((batch, heads, len(offsets)), torch.nan)
    if layout.grid is not None:
        return share_at_steps(peaks, layout)
    kept = layout.queries.kept
    queries = torch.arange(length, device=peaks.device)

    found = peaks - queries
    counted = kept[:, None] & (found.abs() <= FURTHEST)
    place = torch.where(counted, found + FURTHEST, len(offsets)).long()
    hits = peaks.new_zeros(batch, heads, len(offsets) + 1)
    hits.scatter_add_(2, place, torch.ones_like(peaks))

    # For each query that has a peak, whether there is a key at each offset from it.
    here = (kept[:, None] & ~peaks.isnan()).to(peaks.dtype)
    around = torch.nn.functional.pad(kept.to(peaks.dtype), (FURTHEST, FURTHEST))
    seen = around.unfold(1, len(offsets), 1)
    if layout.causal:
        seen = seen * (offsets <= 0)
    possible = torch.einsum("bhq,bqo->bho", here, seen)
    usable = (possible > 0) & (2 * possible >= here.sum(2, keepdim=True))
    return (hits[..., :-1] / possible).where(usable, torch.nan)


def share_at_steps(peaks: Tensor, layout: Layout) -> Tensor:
    """Share of patches whose most attended patch lies some rows below and some columns to the right.

    Both from -8 to 8, row by row; otherwise as for offsets in a text.

    Returns:
        (batch, head, (2 * 8 + 1) ** 2)
    """
    grid = layout.grid
    assert grid is not None
    batch, heads, _ = peaks.shape
    steps = 2 * FURTHEST_STEP + 1
    patches = slice(grid.first, grid.first + len(grid))
    peaks, kept = peaks[..., patches], layout.keys.kept[:, patches]
    # A step to a token that is no patch is NaN, and hits nothing.
    found = layout.places[peaks.nan_to_num(0).long()] - layout.places[patches]
    here = kept[:, None] & ~peaks.isnan()
    counted = here & (found.abs() <= FURTHEST_STEP).all(-1)
    cell = (found + FURTHEST_STEP) @ found.new_tensor([steps, 1])
    hits = peaks.new_zeros(batch, heads, steps**2 + 1)
    hits.scatter_add_(2, torch.where(counted, cell, steps**2).long(), torch.ones_like(peaks))

    # For each patch that has a peak, whether there is a patch at each step from it.
    here = here.to(peaks.dtype)
    around = kept.to(peaks.dtype).view(batch, grid.rows, grid.columns)
    around = torch.nn.functional.pad(around, (FURTHEST_STEP,) * 4)
    seen = around.unfold(1, steps, 1).unfold(2, steps, 1).reshape(batch, len(grid), steps**2)
    possible = here @ seen
    usable = (possible > 0) & (2 * possible >= here.sum(2, keepdim=True))
    return (hits[..., :-1] / possible).where(usable, torch.nan)


def best_offset(statistic: Statistic, found: Clustered, build: TableBuilder) -> None:
    """Append the offset with the largest share of argmaxes, and that share with its error."""
    best, said = largest_share(found.count, found.average)
    for name, cells in said.items():
        build.add(Column(name, "tokens" if name == "offset" else "patches", role="count"), cells.ravel())
    layers, heads = best.shape
    rows, columns = np.ogrid[:layers, :heads]
    mean_and_error(statistic, found[rows, columns, best], build)


def largest_share(count: Floats, average: Floats) -> tuple[NDArray[np.intp], dict[str, NDArray[Any]]]:
    """Choose the offset with the largest share of argmaxes.

    Of an image, an offset is a number of rows and a number of columns.

    Only offsets that exist in at least half of the sequences compete, so that one long sequence
    can't win with an offset of its own. Of equals, the nearest wins, then the earlier one.

    Args:
        count: (layer, head, offset) sequences in which it exists.
        average: (layer, head, offset) the shares.

    Returns:
        Its place along the last axis, (layer, head); and how far it is along each axis, None for a head
        without any.
    """
    competing = 2 * count >= count.max(-1, keepdims=True)
    shares = np.where(competing, average, -1.0)
    steps = _steps(count.shape[-1])
    nearest_first = np.argsort(np.square(list(steps.values())).sum(0), kind="stable")
    best = nearest_first[shares[..., nearest_first].argmax(-1)]
    defined = count.max(-1) > 0
    said = {name: np.where(defined, places[best].astype(object), None) for name, places in steps.items()}  # type: ignore[call-overload]
    return best, said


def _steps(offsets: int) -> dict[str, NDArray[Any]]:
    """Name the axes of offsets, and say how far each of them is along each."""
    if offsets == 2 * FURTHEST + 1:
        return {"offset": np.arange(-FURTHEST, FURTHEST + 1)}
    side = np.arange(-FURTHEST_STEP, FURTHEST_STEP + 1)
    return {"offset_rows": np.repeat(side, len(side)), "offset_columns": np.tile(side, len(side))}


OFFSET = Statistic(
    "offset_share", "share of queries with such a key", peak, share_at_offsets, columns=best_offset,
    pick=largest_share, family=FAMILY, title="queries that look most at one offset", order=5,
)  # fmt: skip
