"""What the rows of a sequence add up to at each offset from their query."""

import math

import numba
import numpy as np
import torch
from torch import Tensor

from attnprobe.kernels.rows import FAST, can_run_compiled, run_over_rows

#: Places before the cells of single offsets: the keys of two kinds, and what lies further before.
_BEFORE, _SINGLE = 2, 3


@numba.njit(inline="always")
def _add_up(row, marked, start, stop):  # noqa: ANN001, ANN202 - numba infers the types
    mass = np.float32(0)
    for k in range(start, stop):
        mass += row[k] * marked[k]
    return mass


@numba.njit(nogil=True, cache=True, fastmath=FAST)
def _offset_rows(  # noqa: ANN202
    p,  # noqa: ANN001 - numba infers the types
    marks,  # noqa: ANN001
    number,  # noqa: ANN001
    asks,  # noqa: ANN001
    sees,  # noqa: ANN001
    offset,  # noqa: ANN001
    reach,  # noqa: ANN001
    start,  # noqa: ANN001
    stop,  # noqa: ANN001
    out,  # noqa: ANN001
):
    _, heads, queries, _ = p.shape
    for unit in range(start, stop):
        b, h = divmod(unit, heads)
        ordinary = marks[b, 0]
        found = np.zeros((out.shape[2], 2), np.float64)
        for q in range(queries):
            row = p[b, h, q]
            if not asks[b, q] or math.isnan(row[0]):
                continue
            here, end = offset + q, sees[b, q] + 1
            for kind in range(1, marks.shape[1]):
                if number[b, kind, end]:
                    found[kind - 1, 0] += _add_up(row, marks[b, kind], 0, end)
                    found[kind - 1, 1] += 1
            if reach < 0:
                continue
            low, high = max(0, here - reach), min(end, here + reach + 1)
            if number[b, 0, low]:
                found[_BEFORE, 0] += _add_up(row, ordinary, 0, low)
                found[_BEFORE, 1] += 1
            for k in range(low, high):
                place = _SINGLE + k - here + reach
                found[place, 0] += row[k] * ordinary[k]
                found[place, 1] += ordinary[k]
            if number[b, 0, end] > number[b, 0, high]:
                found[-1, 0] += _add_up(row, ordinary, high, end)
                found[-1, 1] += 1
        out[b, h] = found


def _offsets_torch(
    p: Tensor, marks: Tensor, asks: Tensor, sees: Tensor, offset: int, reach: int, out: Tensor
) -> None:
    keys = torch.arange(p.shape[3], device=p.device)
    here = torch.arange(offset, offset + p.shape[2], device=p.device)
    there = asks[:, None] & ~p[..., 0].isnan()  # (batch, head, query)
    seen = (keys <= sees[..., None]).to(p.dtype)  # (batch, query, key)
    rows = p.where(there[..., None], 0)

    def add(place: int, mask: Tensor) -> None:
        """Add what lies on some keys of each query, (batch, query, key)."""
        out[:, :, place, 0] = torch.einsum("bhqk,bqk->bh", rows, mask)
        out[:, :, place, 1] = (there & (mask.sum(-1) > 0)[:, None]).sum(-1).to(p.dtype)

    for kind in range(1, marks.shape[1]):
        add(kind - 1, seen * marks[:, None, kind])
    if reach < 0:
        return
    ordinary, apart = seen * marks[:, None, 0], keys - here[:, None]
    add(_BEFORE, ordinary * (apart < -reach))
    add(-1, ordinary * (apart > reach))
    for single in range(-reach, reach + 1):
        # Of the block, only the diagonal is read.
        marked = ordinary.diagonal(offset + single, 1, 2)
        first = max(0, -(offset + single))
        some = slice(first, first + marked.shape[1])
        at = rows.diagonal(offset + single, 2, 3)
        out[:, :, _SINGLE + single + reach, 0] = (at * marked[:, None]).sum(-1)
        out[:, :, _SINGLE + single + reach, 1] = (there[..., some] * marked[:, None]).sum(-1)


def add_up_offsets(p: Tensor, marks: Tensor, asks: Tensor, sees: Tensor, offset: int, reach: int) -> Tensor:
    """Add up what attention rows have on keys of some kinds, and at each offset from the query.

    Args:
        p: Attention rows (batch, head, query, key); those of NaN are left out.
        marks: (batch, kind, key), 1 for the keys of a kind: first those that offsets are about, then others.
        asks: (batch, query) the queries that count.
        sees: (batch, query) the last key that each query sees.
        offset: The position in the sequence of the first query.
        reach: How far single offsets go; -1 where the places of queries and keys do not compare.

    Returns:
        (batch, head, cell, 2): what is found, and how many queries see such a key. The cells are each of the
        other kinds, all that lies before the offset ``-reach``, each offset, and all that lies behind
        ``reach``; without offsets, the other kinds alone.
    """
    kinds = marks.shape[1] - 1
    assert reach < 0 or kinds == _BEFORE  # as the loop counts on
    cells = kinds if reach < 0 else kinds + 2 * reach + 3
    out = p.new_zeros(*p.shape[:2], cells, 2)
    marks = marks.to(p.dtype)
    if not can_run_compiled(p):
        _offsets_torch(p, marks, asks, sees, offset, reach, out)
        return out
    number = torch.nn.functional.pad(marks.cumsum(2), (1, 0)).int()  # of each kind before each key
    arrays = [one.contiguous().numpy() for one in (p, marks, number, asks, sees)]
    run_over_rows(_offset_rows, p.shape[0] * p.shape[1], *arrays, offset, reach, out=(out.numpy(),))
    return out
