"""Attention between words: the word most attended to."""

from dataclasses import dataclass
from functools import cached_property

import numba
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from attnprobe.kernels.rows import can_run_compiled, run_over_rows

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Rows:
    """Questions to a map: for each row, which of its candidates gets most from its queries.

    Attributes:
        sequence: (row,) the sequence it lies in.
        queries: (row, 2) its first query, and the one behind its last.
        candidates: (row, 2) its first candidate in ``spans``, and the one behind its last.
        itself: (row, 2) candidates that are the row itself, which are no answers; an empty range for none.
        spans: (candidate, 2) the first key of each candidate, and the one behind its last.
    """

    sequence: Ints
    queries: Ints
    candidates: Ints
    itself: Ints
    spans: Ints

    def __len__(self) -> int:
        return len(self.sequence)

    def select(self, some: NDArray[np.bool_]) -> "Rows":
        return Rows(
            self.sequence[some], self.queries[some], self.candidates[some], self.itself[some], self.spans
        )

    @cached_property
    def pairs(self) -> tuple[Tensor, Tensor, Tensor]:
        """List all queries of all rows: row, sequence and query of each."""
        lengths = self.queries[:, 1] - self.queries[:, 0]
        row = np.repeat(np.arange(len(self)), lengths)
        behind = np.cumsum(lengths)
        query = np.arange(lengths.sum()) - (behind - lengths)[row] + self.queries[row, 0]
        return torch.from_numpy(row), torch.from_numpy(self.sequence[row]), torch.from_numpy(query)


@numba.njit(nogil=True, cache=True)
def _choose(p, sequence, queries, candidates, itself, spans, start, stop, out):  # noqa: ANN001, ANN202
    """Fill out[row, h] with the candidate that gets most of p (b, h, q, k) from a row; the first of a tie."""
    heads, keys = p.shape[1], p.shape[3]
    mass = np.zeros(keys, np.float64)
    for row in range(start, stop):
        s = sequence[row]
        for h in range(heads):
            first = queries[row, 0]
            mass[:] = p[s, h, first]
            for q in range(first + 1, queries[row, 1]):
                mass += p[s, h, q]
            best, where = -1.0, -1
            for c in range(candidates[row, 0], candidates[row, 1]):
                if itself[row, 0] <= c < itself[row, 1]:
                    continue
                found = 0.0
                for k in range(spans[c, 0], spans[c, 1]):
                    found += mass[k]
                if found > best:
                    best, where = found, c
            out[row, h] = where


def find_most_attended(p: Tensor, rows: Rows) -> Ints:
    """Find the candidate that each row attends to most: the mean over its queries of the sum over its keys.

    Args:
        p: Attention (batch, head, query, key).
        rows: What is asked; queries by their places in ``p``.

    Returns:
        (row, head) the number of the candidate, -1 where there is none; of a tie, the first.
    """
    if not len(rows):
        return np.zeros((0, p.shape[1]), np.int64)
    if not can_run_compiled(p):
        return choose_candidates(add_up_queries(p, rows), rows)
    out = np.empty((len(rows), p.shape[1]), np.int64)
    inputs = (p.contiguous().numpy(), rows.sequence, rows.queries, rows.candidates, rows.itself, rows.spans)
    run_over_rows(_choose, len(rows), *inputs, out=(out,))
    return out


def add_up_queries(p: Tensor, rows: Rows) -> Tensor:
    """Add up the queries of each row, (row, head, key) in float64."""
    row, sequence, query = (part.to(p.device) for part in rows.pairs)
    whole = p.new_zeros(len(rows), p.shape[1], p.shape[3], dtype=torch.float64)
    return whole.index_add_(0, row, p[sequence, :, query].double())


def choose_candidates(mass: Tensor, rows: Rows) -> Ints:
    """Choose among the candidates of each row by what its queries give to keys, (row, head, key)."""
    first, stop = torch.from_numpy(rows.candidates).to(mass.device).unbind(1)
    place = torch.arange(int((stop - first).max()), device=mass.device)
    number = first[:, None] + place
    spans = torch.from_numpy(rows.spans).to(mass.device)
    # Sums of float32 in float64 are exact unless they differ by many orders, so that ties stay ties.
    running = torch.nn.functional.pad(mass.cumsum(-1), (1, 0))
    ends = spans[number.clamp_max(len(spans) - 1)]
    shape = (*mass.shape[:2], len(place))
    high, low = (running.gather(2, ends[..., side][:, None].expand(shape)) for side in (1, 0))
    itself = torch.from_numpy(rows.itself).to(mass.device)
    open_ = (number < stop[:, None]) & ~((number >= itself[:, :1]) & (number < itself[:, 1:]))
    found = (high - low).masked_fill(~open_[:, None], -1.0)
    best, where = found.max(-1)
    return torch.where(best < 0, -1, where + first[:, None]).cpu().numpy()
