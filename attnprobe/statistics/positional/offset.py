"""Whether a head always looks most at the same relative position."""

import torch
from torch import Tensor

from attnprobe.attention.layout import Layout
from attnprobe.statistics.peak import peak
from attnprobe.statistics.registry import Statistic

#: Offsets further away than this many tokens are not told apart.
FURTHEST = 64
#: Nor patches of an image that are further away than this many rows or columns.
FURTHEST_STEP = 8


def share_at_offsets(peaks: Tensor, layout: Layout) -> Tensor:
    """Share of queries whose most attended key lies at each offset from -64 to 64.

    The share is over the queries for which a key at that offset exists. An offset counts in a
    sequence only where it exists for at least half of the queries; elsewhere it is NaN, so that
    one query at the edge can't make a share of 1. Ties go to the first key. In attention across sequences,
    every offset is NaN.

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


OFFSET = Statistic("offset_share", "share", "positional", peak, share_at_offsets, over="offset", order=5)
