"""Attention by offset as a table of heads holds it: what the head atlas shows."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from attnprobe.errors import AttnprobeError
from attnprobe.reports.charts.places import place_heads
from attnprobe.reports.columns import read_floats
from attnprobe.table.naming import list_offsets
from attnprobe.table.table import HeadTable


@dataclass(frozen=True)
class Profile:
    """What a table says of attention by offset, by the part of a cell that shows it.

    Attributes:
        first: To the first token, (row,).
        special: To other special tokens, (row,).
        single: To each offset, (row, offset), or of patches (row, rows and columns).
        beyond: Further away, (row, 2) on either side, or of patches (row, 1).
        side: How many steps of patches go in each direction and back; 0 for tokens.
    """

    first: np.ndarray
    special: np.ndarray
    single: np.ndarray
    beyond: np.ndarray
    side: int = 0

    @cached_property
    def top(self) -> float:
        """What full height stands for."""
        every = (self.first, self.special, self.beyond, *(() if self.side else (self.single,)))
        return _round_up(np.concatenate([np.ravel(one) for one in every]))

    @cached_property
    def darkest(self) -> float:
        """What black stands for, of patches."""
        return _round_up(self.single)


def _round_up(values: np.ndarray) -> float:
    """Give the end of a scale that no value exceeds."""
    highest = float(np.nanmax(values)) if np.isfinite(values).any() else 1.0
    return next((top for top in (0.01, 0.02, 0.05, 0.1, 0.2, 0.5) if top >= highest), 1.0)


def read_profile(table: HeadTable) -> Profile | None:
    """Read attention by offset from a table of heads; None where it has none."""
    for suffix in ("", "_norm"):
        for patches in (False, True):
            names = [f"profile_{name}{suffix}" for name, _ in list_offsets(patches=patches)]
            columns = [read_floats(table, name) for name in names]
            found = [one for one in columns if one is not None]
            if len(found) == len(names):
                profile = _sort_cells(np.stack(found, 1), patches=patches)
                if np.isfinite(profile.single).any():
                    return profile
    return None


def _sort_cells(cells: np.ndarray, *, patches: bool) -> Profile:
    first, special = cells[:, 0], cells[:, 1]
    if patches:
        single = cells[:, 2:-1]
        return Profile(first, special, single, cells[:, -1:], math.isqrt(single.shape[1]))
    single, beyond = cells[:, 3:-1], cells[:, [2, -1]]
    if np.isnan(single[:, single.shape[1] // 2 + 1 :]).all() and np.isfinite(single).any():
        single, beyond = single[:, : single.shape[1] // 2 + 1], beyond[:, :1]  # a decoder sees nothing behind
    return Profile(first, special, single, beyond)


def join_beside_profile(tables: Sequence[HeadTable]) -> HeadTable:
    """Put what other tables say of the same heads, such as roles, beside the one with attention by offset."""
    own = [table for table in tables if read_profile(table) is not None]
    if len(own) != 1:
        many = "none of these tables has it" if not own else f"{len(own)} of these tables have it"
        raise AttnprobeError(
            "--kind atlas takes one table with attention by offset (--statistics census,profile), and "
            f"tables of the same heads beside it; {many}"
        )
    joined = own[0]
    for other in tables:
        if other is not own[0]:
            joined = joined.join(other)
    return replace(joined, title=own[0].title)


def can_draw_atlas(table: HeadTable) -> bool:
    """Tell whether each head is there once, with its attention by offset."""
    return place_heads(table) is not None and read_profile(table) is not None
