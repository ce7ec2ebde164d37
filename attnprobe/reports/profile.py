"""Attention by offset as a table of heads holds it: what the head atlas shows."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from attnprobe.errors import UsageError
from attnprobe.reports.columns import read_floats
from attnprobe.table.naming import list_offsets
from attnprobe.table.table import HeadTable

#: How wide a square image of patches is, in bars of single offsets.
IMAGE = 21.0


class Part(NamedTuple):
    """A bar, or the image of patches, in the cell of each head: its left and right end, and its heights."""

    start: float
    end: float
    values: np.ndarray
    pale: bool | None  # None for an image


@dataclass(frozen=True)
class Profile:
    """Attention by offset, as the cells of an atlas show it."""

    first: np.ndarray  # to the first token, (row,)
    special: np.ndarray  # to other special tokens, (row,)
    single: np.ndarray  # to each offset, (row, offset), or of patches (row, rows and columns)
    beyond: np.ndarray  # further away, (row, 2) on either side, or of patches (row, 1)
    side: int = 0  # how many steps of patches go in each direction and back; 0 for tokens

    @property
    def top(self) -> float:
        """The attention that full height stands for."""
        bars = np.column_stack([self.first, self.special, self.beyond, *([] if self.side else [self.single])])
        return round_up(bars)

    @cached_property
    def parts(self) -> list[Part]:
        """The parts of a cell from left to right: first token, before, offsets, behind, special tokens."""
        first, special = (2.0, self.first, False), (2.0, self.special, False)
        beyond = [(1.6, values, True) for values in self.beyond.T]
        if self.side:
            groups = [[first], [(IMAGE, self.first, None)], beyond, [special]]
        else:
            offsets = [(1.0, values, False) for values in self.single.T]
            groups = [[first], beyond[:1], offsets, beyond[1:], [special]]
        parts, at = [], 0.0
        for group in filter(None, groups):
            for width, values, pale in group:
                parts.append(Part(at, at + width, values, pale))
                at += width
            at += 0.8  # air between
        return parts

    def list_corners(self, *, pale: bool) -> Iterator[tuple[float, np.ndarray]]:
        """List the corners of the pale bars, or of the others: their place, and heights per head, 0 to 1."""
        parts = [part for part in self.parts if part.pale == pale]
        base = np.zeros(len(self.first))
        yield 0.0, base
        for part, start in zip(parts, [*(part.start for part in parts[1:]), math.inf], strict=True):
            yield part.start, take_root(part.values, self.top)
            if start > part.end:
                yield part.end, base

    def explain(self) -> list[str]:
        """Explain the parts of a cell, for a caption."""
        ends = "the ends: first and other special tokens; pale: further away"
        if self.side:
            return [f"squares: attention to patches up to {self.side // 2} rows and columns away", ends]
        count, both = self.single.shape[1], self.beyond.shape[1] > 1
        low, high = (-(count // 2), f"+{count // 2}") if both else (1 - count, "0")
        return [f"bars: roots of attention to offsets {low} to {high}, at most {self.top:g}", ends]


def take_root(values: np.ndarray, end: float) -> np.ndarray:
    """Give the square roots of values as shares of the root of ``end``; 0 for undefined values."""
    return np.sqrt(np.clip(np.nan_to_num(values) / end, 0, 1))


def round_up(values: np.ndarray) -> float:
    """Choose a round number that no value exceeds, for the end of a scale."""
    highest = float(np.nanmax(values)) if np.isfinite(values).any() else 1.0
    return next((top for top in (0.01, 0.02, 0.05, 0.1, 0.2, 0.5) if top >= highest), 1.0)


def read_profile(table: HeadTable) -> Profile | None:
    """Read attention by offset from a table of heads; None where it has none."""
    for suffix in ("", "_norm"):
        for patches in (False, True):
            names = [f"profile_{name}{suffix}" for name, _ in list_offsets(patches=patches)]
            cells = np.stack([read_floats(table, name) for name in names], 1)
            if table.data.keys() >= set(names) and np.isfinite(cells[:, 2:-1]).any():
                return _make_profile(cells, patches=patches)
    return None


def _make_profile(cells: np.ndarray, *, patches: bool) -> Profile:
    first, special = cells[:, 0], cells[:, 1]
    if patches:
        single = cells[:, 2:-1]
        return Profile(first, special, single, cells[:, -1:], math.isqrt(single.shape[1]))
    single, beyond = cells[:, 3:-1], cells[:, [2, -1]]
    behind = single.shape[1] // 2 + 1
    if np.isnan(single[:, behind:]).all():  # a decoder sees nothing behind
        single, beyond = single[:, :behind], beyond[:, :1]
    return Profile(first, special, single, beyond)


def join_beside_profile(tables: Sequence[HeadTable]) -> HeadTable:
    """Join tables of the same heads to the one with attention by offset; or refuse unless just one has it."""
    profiles = [table for table in tables if read_profile(table) is not None]
    if len(profiles) != 1:
        raise UsageError(
            "--kind atlas takes one table with attention by offset (--statistics census,profile), and "
            f"tables of the same heads beside it; {len(profiles) or 'none'} of these tables have it"
        )
    joined = profiles[0]
    for other in tables:
        if other is not profiles[0]:
            joined = joined.join(other)
    return replace(joined, title=profiles[0].title)
